"""Check a provider against the rules."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from castform.errors import CastformError, UsageError
from castform.sandbox.load import load_provider
from castform.testing.choosing import choose_rules
from castform.testing.sandboxes.rule import (
    BrokenRuleError,
    NotCheckedError,
    RuleResult,
    SandboxReport,
    SandboxRule,
    shorten,
)
from castform.testing.sandboxes.rules import RULES
from castform.testing.sandboxes.subject import Examined, Subject

RULE_SECONDS = 180.0


class Examination:
    """A provider that is being examined: an event loop of its own for as long as it is open."""

    def __init__(self, subject: Subject) -> None:
        """Probe the provider. Raises what its loading and its `check` raise."""
        self._folder = Path(tempfile.mkdtemp(prefix="castform-check-"))
        self._runner = asyncio.Runner()
        self._checked = 0
        try:
            provider = load_provider(subject.name, **subject.options)
            capabilities = self._runner.run(provider.check())
        except BaseException:
            self._close_rest()
            raise
        self._examined = Examined(subject, provider, capabilities, self._folder)
        self.capabilities = capabilities

    def check(self, rule: SandboxRule) -> RuleResult:
        """Check one rule. Whatever it raises is a result too."""
        began = time.perf_counter()

        def result(**fields: Any) -> RuleResult:  # Any: the fields of RuleResult
            seconds = time.perf_counter() - began
            return RuleResult(rule=rule.name, promise=rule.promise, seconds=seconds, **fields)

        disclaimer = rule.find_disclaimer(self.capabilities)
        if disclaimer is not None:
            return result(state="not_claimed", reason=disclaimer)
        self._checked += 1
        self._examined.folder = self._folder / str(self._checked)
        self._examined.folder.mkdir()
        try:
            self._runner.run(_limit(rule, self._examined))
        except NotCheckedError as reason:
            return result(state="not_checked", reason=str(reason))
        except BrokenRuleError as breach:
            return result(state="broken", reason=shorten(str(breach)))
        except Exception as error:  # noqa: BLE001 - the provider's code
            return result(state="broken", reason=shorten(f"{type(error).__name__}: {error}"))
        return result(state="held")

    def close(self) -> None:
        """Close the boxes and the provider."""
        try:
            self._runner.run(self._examined.aclose())
        finally:
            self._close_rest()

    def _close_rest(self) -> None:
        self._runner.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def examine(name: str, **words: Any) -> Iterator[Examination]:  # Any: the fields of Subject
    """Examine a provider by name; `options`, `image` and more as in `Subject`."""
    _check_no_loop()
    examination = Examination(make_subject(name, **words))
    try:
        yield examination
    finally:
        examination.close()


def check_provider(
    name: str,
    *,
    only: Collection[str] | None = None,
    show: Callable[[RuleResult], None] | None = None,
    **words: Any,  # the fields of Subject
) -> SandboxReport:
    """Check every rule, or those that `only` names, on this machine; `show` gets each result as it comes.

    `options`: the provider's own. `image`: one with a POSIX shell; python3, curl or wget in it are
    what network rules ask by. Raises UsageError for a rule that does not exist, MissingError where
    the provider cannot work here. Call it from a plain function, not an async one.
    """
    rules = choose_rules(RULES, only)
    results = []
    with examine(name, **words) as examination:
        for rule in rules:
            result = examination.check(rule)
            results.append(result)
            if show is not None:
                show(result)
        return SandboxReport(provider=name, capabilities=examination.capabilities, results=tuple(results))


def make_subject(name: str, **words: Any) -> Subject:  # Any: its fields
    """Return what to examine. UsageError for words that are no fields of it."""
    known = {field.name for field in dataclasses.fields(Subject)}
    strange = sorted(set(words) - known)
    if strange:
        raise UsageError(f"unknown: {', '.join(strange)}", hint=f"there are {', '.join(sorted(known))}")
    return Subject(name=name, **words)


async def _limit(rule: SandboxRule, examined: Examined) -> None:
    try:
        async with asyncio.timeout(RULE_SECONDS):
            await rule.check(examined)
    except TimeoutError as error:
        if isinstance(error, CastformError):
            raise
        raise BrokenRuleError(f"not done after {RULE_SECONDS:g} s") from error


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "the rules run in an event loop of their own and cannot run inside one",
        hint="call it from a plain function: `def test_…`, not `async def test_…`",
    )
