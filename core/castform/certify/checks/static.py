"""What can be known of an environment without running a rollout."""

from __future__ import annotations

import inspect
import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmax.envs import BaseEnv, Environment, Example
from benchmax.envs.base.budgets import check_max_turns
from benchmax.envs.identity import canonical_example_id
from benchmax.envs.termination import describe_error
from benchmax.envs.tools import choose_timeout
from castform.certify.checks.source_rules import Habit, find_habits
from castform.certify.checks.sources import list_sources
from castform.certify.context import CheckContext
from castform.validation import Finding, Level

CHECK = "static"
FEW = 2
"""How many examples are asked for to see whether `max_examples` is honoured."""


async def check_static(context: CheckContext) -> list[Finding]:
    """Look at the class, the dataset and the source."""
    findings = [*_check_class(context.environment), *await _check_dataset(context)]
    of_examples = [f for examples in context.examples.values() for f in _check_examples(examples)]
    findings += {finding.code: finding for finding in reversed(of_examples)}.values()
    findings += await _check_pickling(context)
    return [*findings, *check_source(context.environment)]


def check_source(environment: Environment[Any, Any]) -> list[Finding]:
    """Warn of habits in the environment's own source, each with file and line."""
    sources = list_sources(environment)
    if not sources:
        return [
            _finding(
                "unchecked", "no_source", "the environment's source cannot be read, so it was not looked at"
            )
        ]
    habits = find_habits(sources, tools=_loop_tools(environment))
    by_code: dict[str, list[Habit]] = {}
    for habit in habits:
        by_code.setdefault(habit.code, []).append(habit)
    return [
        _finding(
            "warning",
            code,
            f"{found[0].path.name}:{found[0].line}: {found[0].message}"
            + (f" (and in {len(found) - 1} more places)" if len(found) > 1 else ""),
        )
        for code, found in sorted(by_code.items())
    ]


def _loop_tools(environment: Environment[Any, Any]) -> set[str]:
    """Return the names of tool functions that run on the event loop: those without a time limit."""
    if not isinstance(environment, BaseEnv):
        return set()
    try:
        return {
            getattr(tool.function, "__name__", tool.name)
            for tool in environment.rollout_tools().values()
            if choose_timeout(tool, environment.tool_timeout_seconds) is None
        }
    except (Exception, SystemExit):  # noqa: BLE001 - the author's tools; a rollout shows what is wrong with them
        return set()


def _check_class(environment: Environment[Any, Any]) -> Iterator[Finding]:
    cls = type(environment)
    parameters = inspect.signature(environment.create_dataset).parameters
    if "max_examples" not in parameters and not any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()
    ):
        yield _finding(
            "fault",
            "no_max_examples",
            f"{cls.__name__}.create_dataset does not take max_examples, which every host passes",
        )
    if not isinstance(environment, BaseEnv) or cls.run_rollout is not BaseEnv.run_rollout:
        return
    try:
        limit = check_max_turns(environment.max_turns)
    except ValueError as error:
        yield _finding("fault", "max_turns", f"{cls.__name__}: {error}")
    else:
        if limit is None:
            yield _finding(
                "fault", "max_turns", f"{cls.__name__} does not set max_turns, so no rollout can begin"
            )
    if (
        getattr(cls, "compute_reward", None) is BaseEnv.compute_reward
        and cls.compute_group_rewards is Environment.compute_group_rewards
    ):
        yield _finding(
            "fault",
            "no_reward",
            f"{cls.__name__} overrides neither compute_reward nor compute_group_rewards, so nothing is ever paid",
        )


async def _check_dataset(context: CheckContext) -> list[Finding]:
    first = list(context.examples.get(context.split, ()))
    if not first:
        return [_finding("unchecked", "no_examples", f"the {context.split} split has no examples to look at")]
    try:
        again = await _load(context, len(first))
        few = await _load(context, FEW)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
        return [
            _finding(
                "fault",
                "dataset_unsteady",
                f"create_dataset worked once and then raised {describe_error(error)}",
            )
        ]
    findings: list[Finding] = []
    again = again[: len(first)]
    if [example.id for example in again] != [example.id for example in first]:
        place = next(
            (i for i, (a, b) in enumerate(zip(first, again, strict=False)) if a.id != b.id), len(again)
        )
        findings.append(
            _finding(
                "fault",
                "dataset_unsteady",
                f"loaded twice, the {context.split} split has other ids or another order, from place {place + 1} on: "
                "a resumed run would train on other examples",
            )
        )
    elif _changed_payloads(first, again):  # by the loading, or by rollouts since: load once more
        third = (await _load(context, len(first)))[: len(first)]
        changed = _changed_payloads(again, third)
        if changed:
            findings.append(
                _finding(
                    "fault",
                    "dataset_unsteady",
                    f"loaded twice, {len(changed)} of {len(first)} examples have the same id and another payload",
                    changed[0],
                )
            )
    if len(few) > FEW:
        findings.append(
            _finding(
                "warning",
                "max_examples_ignored",
                f"create_dataset gave {len(few)} examples where at most {FEW} were asked for",
            )
        )
    elif [example.id for example in few] != [example.id for example in again[: len(few)]] and not findings:
        findings.append(
            _finding(
                "note",
                "max_examples_changes_order",
                "the first examples are others when fewer are asked for, so runs of different sizes do not nest",
            )
        )
    return findings


async def _load(context: CheckContext, count: int) -> list[Example[Any]]:
    return list(await context.environment.create_dataset(context.split, context.base_dir, max_examples=count))


def _changed_payloads(first: Sequence[Example[Any]], second: Sequence[Example[Any]]) -> list[str]:
    return [a.id for a, b in zip(first, second, strict=False) if _key(a.payload) != _key(b.payload)]


def _check_examples(examples: Sequence[Example[Any]]) -> Iterator[Finding]:
    repeated = [example_id for example_id, n in Counter(e.id for e in examples).items() if n > 1]
    if repeated:
        yield _finding(
            "fault", "ids_repeat", f"{len(repeated)} example ids repeat, {repeated[0]!r} for one", repeated[0]
        )
    for example in examples:
        try:
            canonical_example_id(example.payload)
        except ValueError as error:
            yield _finding(
                "warning",
                "payload_not_json",
                f"the payload of example {example.id} cannot be written down exactly ({error}), so datasets "
                "cannot be told apart by content",
                example.id,
            )
            return
    for example in examples:
        where = _changed_type(example.payload, json.loads(json.dumps(example.payload, default=list)))
        if where is not None:
            yield _finding(
                "note",
                "payload_types",
                f"the payload of example {example.id} comes back from JSON with other types ({where})",
                example.id,
            )
            return


def _changed_type(value: object, back: object, place: str = "payload") -> str | None:
    if isinstance(value, Mapping) and isinstance(back, Mapping):
        parts = ((value[key], back.get(key), f"{place}.{key}") for key in value)
    elif isinstance(value, list) and isinstance(back, list):
        parts = ((a, b, f"{place}[{i}]") for i, (a, b) in enumerate(zip(value, back, strict=True)))
    else:
        return (
            None if type(value) is type(back) else f"{place}: {type(value).__name__} to {type(back).__name__}"
        )
    return next((found for a, b, at in parts if (found := _changed_type(a, b, at)) is not None), None)


def _key(payload: object) -> str:
    try:
        return canonical_example_id(payload)
    except ValueError:
        return ""


async def _check_pickling(context: CheckContext) -> list[Finding]:
    try:
        environment = context.make_environment()
        try:
            pickle.dumps(environment)
        finally:
            await environment.aclose()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's constructor and objects
        return [
            _finding(
                "note",
                "not_picklable",
                f"the environment cannot be sent to another process ({describe_error(error)})",
            )
        ]
    return []


def _finding(level: Level, code: str, message: str, example_id: str | None = None) -> Finding:
    return Finding(level=level, code=code, message=message, check=CHECK, example_id=example_id)
