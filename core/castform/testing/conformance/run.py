"""Check an environment against the rules."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Unpack

from benchmax.envs.termination import describe_error
from castform.errors import CastformError, MissingError, UsageError
from castform.testing.choosing import choose_rules
from castform.testing.conformance.examined import Examined, Options, OptionWords
from castform.testing.conformance.holdings import own_temp_dir
from castform.testing.conformance.network_guard import guard_network
from castform.testing.conformance.process_state import take_state
from castform.testing.conformance.rule import (
    Breach,
    ConformanceReport,
    NotCheckedError,
    Rule,
    RuleResult,
    RuleTimeoutError,
)
from castform.testing.conformance.rules import RULES
from castform.testing.conformance.subject import Examinable, open_subject
from castform.testing.conformance.time_limit import limit_time

BOUND = (
    "bound what rewards and tools compute, and await what they wait for; where a rollout is slow by nature, ask for "
    "fewer `examples` and `scripts`, or give more `rule_seconds`"
)


class NotCheckedWarning(UserWarning):
    """Some rules could not be checked on an environment that otherwise conforms."""


def assert_conforms(
    environment_or_id: Examinable,
    *,
    only: Collection[str] | None = None,
    accept: Mapping[str, str] | None = None,
    **options: Unpack[OptionWords],
) -> ConformanceReport:
    """Check that an environment keeps every rule, without a network, a key or a model.

    `environment_or_id` is an id, a path to a file, an environment, or a class or function that
    makes one; `args` are its arguments, and `base_dir` is where relative paths of its data start.
    The first `examples` (8) of `split` ("train") are played, and `scripts` (20) random reply
    scripts. `weights` are those of rewards, `seed` (0) that of the random scripts. A group ends
    after `timeout_seconds` (30), and a rule that is not done after `rule_seconds` (120) is broken,
    also where a reward never comes back. `only` names the rules to check; `accept` maps a rule that may be
    broken to the reason why. Call it from a plain test, not an async one.

    AssertionError: rules are broken; it names each one, an example, and the way out. What could
    not be checked is in the report and in a NotCheckedWarning. UsageError for a rule that does not
    exist; and what `castform.plugins.load_environment` raises.
    """
    report = check_conformance(environment_or_id, only=only, accept=accept, **options)
    if report.broken:
        raise AssertionError(report.describe())
    if report.not_checked:
        warnings.warn(NotCheckedWarning(report.describe()), stacklevel=2)
    return report


def check_conformance(
    environment_or_id: Examinable,
    *,
    only: Collection[str] | None = None,
    accept: Mapping[str, str] | None = None,
    **options: Unpack[OptionWords],
) -> ConformanceReport:
    """Return what came of every rule; options and errors as in `assert_conforms`, broken rules aside."""
    rules = choose_rules(RULES, only)
    choose_rules(RULES, accept)
    began = time.perf_counter()
    with examine(environment_or_id, **options) as examined:
        results = [check_rule(rule, examined, accept or {}) for rule in rules]
    return ConformanceReport(
        environment=examined.subject.name, results=tuple(results), seconds=time.perf_counter() - began
    )


@contextmanager
def examine(environment_or_id: Examinable, **words: Unpack[OptionWords]) -> Iterator[Examined]:
    """Load an environment for `check_rule`; options and errors as in `assert_conforms`."""
    options = Options(**words)
    if not options.rule_seconds > 0:
        raise UsageError(f"rule_seconds is {options.rule_seconds!r}, not a number above 0")
    _check_no_loop()
    _check_extra()
    with quiet_logs(), own_temp_dir() as temp_dir, guard_network() as network:
        before = take_state()
        subject = open_subject(environment_or_id, options.args, options.base_dir)
        changes = take_state().changes(before)
        before.restore()
        yield Examined(subject, options, network=network, temp_dir=temp_dir, loading_changes=changes)


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep what the hosts log about failed rollouts to themselves: most are made to fail here."""
    loggers = [logging.getLogger(name) for name in ("benchmax", "castform")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def check_rule(rule: Rule, examined: Examined, accept: Mapping[str, str]) -> RuleResult:
    """Check one rule. Whatever it raises is a result too."""
    began = time.perf_counter()

    def result(**fields: Any) -> RuleResult:  # Any: the fields of RuleResult
        return RuleResult(rule=rule.name, seconds=time.perf_counter() - began, **fields)

    before = take_state()
    try:
        with limit_time(examined.options.rule_seconds, called_from=__file__):
            breaches = rule.check(examined)
    except NotCheckedError as reason:
        return result(state="not_checked", reason=str(reason))
    except RuleTimeoutError as error:
        breaches = [Breach(message=str(error), way_out=BOUND)]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
        hint = error.hint if isinstance(error, CastformError) and error.hint else "see the exception"
        breaches = [Breach(message=f"the environment raised {describe_error(error)}", way_out=hint)]
    finally:
        examined.state_changes += take_state().changes(before)
        before.restore()
    if not breaches:
        return result(state="held")
    if rule.name in accept:
        return result(state="accepted", breaches=breaches, reason=accept[rule.name])
    return result(state="broken", breaches=breaches)


def _check_extra() -> None:
    if importlib.util.find_spec("hypothesis") is None:
        raise MissingError(
            "the conformance suite needs hypothesis, which is not installed",
            hint="pip install 'castform[test]'",
        )


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "the conformance suite runs event loops of its own and cannot run inside one",
        hint="call it from a plain function: `def test_…`, not `async def test_…`",
    )
