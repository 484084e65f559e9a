"""The environment under examination, as the options name it, and a test a rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from castform.testing.conformance.examined import Examined


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--castform-env") is None and not config.getoption("help"):
        raise pytest.UsageError(
            "name the environment: pytest --pyargs castform.testing.suite --castform-env plugin/name"
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "rule" in metafunc.fixturenames:
        from castform.testing.conformance.rules import RULES

        metafunc.parametrize("rule", RULES, ids=[rule.name for rule in RULES])


@pytest.fixture(scope="session")
def accept(pytestconfig: pytest.Config) -> dict[str, str]:
    """Rules that may be broken, and why."""
    from castform.testing.choosing import choose_rules
    from castform.testing.conformance.rules import RULES

    accepted = dict(_split(text, "--castform-accept") for text in pytestconfig.getoption("--castform-accept"))
    choose_rules(RULES, accepted)
    return accepted


@pytest.fixture(scope="session")
def examined(pytestconfig: pytest.Config) -> Iterator[Examined]:
    """The environment, loaded once for all rules."""
    from castform.config import parse_value
    from castform.testing.conformance.run import examine

    given = [_split(text, "--castform-arg") for text in pytestconfig.getoption("--castform-arg")]
    arguments: dict[str, Any] = {name: parse_value(value) for name, value in given}
    base_dir = pytestconfig.getoption("--castform-base-dir")
    limits = {
        "examples": pytestconfig.getoption("--castform-examples"),
        "rule_seconds": pytestconfig.getoption("--castform-rule-seconds"),
    }
    given_limits: Any = {name: limit for name, limit in limits.items() if limit is not None}  # of OptionWords
    with examine(
        pytestconfig.getoption("--castform-env"),
        args=arguments,
        base_dir=None if base_dir is None else Path(base_dir),
        split=pytestconfig.getoption("--castform-split"),
        **given_limits,
    ) as subject:
        yield subject


def _split(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise pytest.UsageError(f"{option} is written NAME=VALUE, not {text!r}")
    return name, value
