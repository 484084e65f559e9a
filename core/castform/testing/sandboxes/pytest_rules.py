"""The rules as pytest tests, in one line of a test file."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from castform.testing.choosing import choose_rules
from castform.testing.sandboxes.rule import SandboxRule
from castform.testing.sandboxes.rules import RULES
from castform.testing.sandboxes.run import Examination, make_subject


def make_rule_tests(
    name: str, *, only: Collection[str] | None = None, **words: Any
) -> Callable[..., None]:  # Any: the fields of Subject
    """Return a test with one case a rule: `test_rule = make_rule_tests("mine", image="busybox")`.

    The name it is given has to start with `test`. The provider is loaded at the first case and closed
    with the test file. Rules that it does not claim, and those that cannot be checked here, are skipped
    with the reason. `only` and the other words are those of `check_provider`.
    """
    subject = make_subject(name, **words)
    rules = choose_rules(RULES, only)
    opened: dict[str, Examination] = {}

    def close() -> None:
        opened.pop("it").close()

    @pytest.mark.parametrize("rule", rules, ids=[rule.name for rule in rules])
    def test_rule(rule: SandboxRule, request: pytest.FixtureRequest) -> None:
        if "it" not in opened:
            opened["it"] = Examination(subject)
            module = request.node.getparent(pytest.Module)
            module.addfinalizer(close)
        result = opened["it"].check(rule)
        if result.state in ("not_claimed", "not_checked"):
            pytest.skip(f"{result.state.replace('_', ' ')}: {result.reason}")
        assert result.state == "held", f"{rule.promise}\n{result.describe()}"

    return test_rule
