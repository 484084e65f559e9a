"""Does a rollout come out the same whatever runs beside it and ran before it?

A fresh environment plays each answer alone. Another fresh one does the same, which tells what
is not repeatable anyway. A third one plays every group at once, other answers beside. Then the
first one plays once more, with all that behind it. Payloads must survive all of it unchanged.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from benchmax.envs import Environment, Example
from benchmax.envs.termination import describe_error
from castform.certify.checks.comparison import (
    Difference,
    find_difference,
    find_observation_difference,
    list_observations,
)
from castform.certify.checks.scripts import list_examples, make_right, make_wrong, scores_groups
from castform.certify.context import CheckContext
from castform.playback import Playback
from castform.rollouts import Rollout
from castform.scripted_replies import Script
from castform.validation import Finding, Level

CHECK = "isolation"
EXAMPLES = 4


async def check_isolation(context: CheckContext) -> list[Finding]:
    """Compare rollouts alone, beside others, and after others; compare payloads before and after."""
    examples = list_examples(context, EXAMPLES)
    if not examples:
        return [_finding("unchecked", "no_examples", "there are no examples to play")]
    async with AsyncExitStack() as stack:
        try:
            fresh = [await stack.enter_async_context(_fresh(context)) for _ in range(3)]
        except Exception as error:  # noqa: BLE001 - the author's constructor
            return [
                _finding(
                    "unchecked",
                    "no_second_environment",
                    f"a second environment cannot be made to compare with ({describe_error(error)})",
                )
            ]
        examples = await _reload(context, fresh[0], examples)
        before = {example.id: _snapshot(example.payload) for example in examples}
        play = _Player(context, await stack.enter_async_context(Playback()), examples)
        alone = await play.alone(fresh[0])
        control = await play.alone(fresh[1])
        beside = await play.beside(fresh[2])
        after = await play.alone(fresh[0])
        used = await play.alone(context.environment)
    findings = _compare_payloads(before, examples)
    findings += _compare_first_observations(beside)
    findings += _compare_runs(context, examples, alone, control, beside, after, used)
    if scores_groups(context.environment):
        findings.append(
            _finding(
                "unchecked",
                "group_rewards",
                "rewards may depend on siblings, since compute_group_rewards or run_group is overridden; beside "
                "siblings only what the model is shown was compared",
            )
        )
    return findings


_Runs = Mapping[str, Sequence[Rollout]]
"""Rollouts by example id; the right answer first, where it is known."""


class _Player:
    """Plays the same answers to one environment after another."""

    def __init__(self, context: CheckContext, playback: Playback, examples: Sequence[Example[Any]]) -> None:
        self.context = context
        self.playback = playback
        self.examples = examples
        self.groups = 0

    def scripts(self, example: Example[Any]) -> list[Script]:
        right = make_right(self.context, example)
        return [*([] if right is None else [right]), *make_wrong(self.context, example)]

    async def alone(self, environment: Environment[Any, Any]) -> _Runs:
        """Play one rollout after the other; whole groups where they are scored as groups."""
        runs: dict[str, list[Rollout]] = {}
        for example in self.examples:
            scripts = self.scripts(example)
            groups = [scripts] if scores_groups(environment) else [[script] for script in scripts]
            runs[example.id] = [r for group in groups for r in await self._play(environment, example, group)]
        return runs

    async def beside(self, environment: Environment[Any, Any]) -> _Runs:
        """Play everything at once: siblings in groups, groups side by side, the right answers last."""
        played = await asyncio.gather(
            *(
                self._play(environment, example, self.scripts(example)[::-1])
                for example in reversed(self.examples)
            )
        )
        return {group[0].example_id: group[::-1] for group in played}

    async def _play(
        self, environment: Environment[Any, Any], example: Example[Any], scripts: Sequence[Script]
    ) -> Sequence[Rollout]:
        self.groups += 1
        group = await self.playback.play(
            environment,
            example,
            scripts,
            group_id=f"isolation-{self.groups}",
            split=self.context.split,
            weights=self.context.weights,
            timeout_seconds=self.context.timeout_seconds,
        )
        return group.rollouts


@asynccontextmanager
async def _fresh(context: CheckContext) -> AsyncIterator[Environment[Any, Any]]:
    environment = context.make_environment()
    try:
        yield environment
    finally:
        await environment.aclose()


async def _reload(
    context: CheckContext, environment: Environment[Any, Any], examples: Sequence[Example[Any]]
) -> Sequence[Example[Any]]:
    """Return the examples as they are before any rollout; those at hand have been played before."""
    loaded: dict[str, Example[Any]] = {}
    for count in (len(examples), len(context.examples[context.split])):
        try:
            dataset = await environment.create_dataset(context.split, context.base_dir, max_examples=count)
        except (Exception, SystemExit):  # noqa: BLE001 - the author's code; the static check reports it
            return examples
        loaded |= {example.id: example for example in dataset}
        if all(example.id in loaded for example in examples):
            break  # else which come first depends on how many are asked for
    return [loaded.get(example.id, example) for example in examples]


def _snapshot(payload: object) -> object:
    """Return something that stays equal to what the payload is now."""
    try:
        copied = copy.deepcopy(payload)
    except Exception:  # noqa: BLE001 - a payload may hold anything
        return repr(payload)
    return copied if copied == payload else repr(payload)  # some objects are equal to themselves alone


def _is_changed(payload: object, before: object) -> bool:
    return payload != before and repr(payload) != before


def _compare_payloads(before: Mapping[str, object], examples: Sequence[Example[Any]]) -> list[Finding]:
    changed = [example.id for example in examples if _is_changed(example.payload, before[example.id])]
    if not changed:
        return []
    return [
        _finding(
            "fault",
            "payload_mutated",
            f"rollouts change the payload that they were given, on {len(changed)} of {len(examples)} examples: "
            "later rollouts of the same example get another task",
            changed[0],
        )
    ]


def _compare_first_observations(beside: _Runs) -> list[Finding]:
    for example_id, rollouts in beside.items():
        shown = [observations[0] for r in rollouts if (observations := list_observations(r))]
        if len(set(shown)) > 1:
            return [
                _finding(
                    "fault",
                    "siblings_start_differently",
                    f"siblings of example {example_id} are shown {len(set(shown))} different first observations, so "
                    "their rewards cannot be compared",
                    example_id,
                )
            ]
    return []


def _compare_runs(
    context: CheckContext,
    examples: Sequence[Example[Any]],
    alone: _Runs,
    control: _Runs,
    beside: _Runs,
    after: _Runs,
    used: _Runs,
) -> list[Finding]:
    ids = [example.id for example in examples]
    unsteady = {i: d for i in ids if (d := _first_difference(alone[i], control[i])) is not None}
    steady = [i for i in ids if i not in unsteady]
    findings: list[Finding] = []
    if unsteady:
        example_id, difference = next(iter(unsteady.items()))
        findings.append(
            _finding(
                "unchecked",
                "not_repeatable",
                f"on {len(unsteady)} of {len(ids)} examples two fresh environments differ already "
                f"({difference.describe()}), so the part of other rollouts in it cannot be told",
                example_id,
            )
        )
    rewards = not scores_groups(context.environment)
    for example_id in steady:
        interfered = _first_difference(alone[example_id], beside[example_id], rewards=rewards)
        if interfered is not None:
            findings.append(
                _finding(
                    "fault",
                    "rollouts_interfere",
                    f"example {example_id}, the same replies: {interfered.what} is {interfered.first} alone and "
                    f"{interfered.second} with other rollouts beside it",
                    example_id,
                )
            )
            break
    for example_id in steady:
        carried = _first_difference(alone[example_id], after[example_id]) or _first_difference(
            alone[example_id], used[example_id]
        )
        if carried is not None:
            findings.append(
                _finding(
                    "fault",
                    "state_carried_over",
                    f"example {example_id}, the same replies: {carried.what} is {carried.first} in a fresh "
                    f"environment and {carried.second} in one that has run other rollouts",
                    example_id,
                )
            )
            break
    return findings


def _first_difference(
    first: Sequence[Rollout], second: Sequence[Rollout], *, rewards: bool = True
) -> Difference | None:
    find = find_difference if rewards else find_observation_difference
    return next((d for a, b in zip(first, second, strict=True) if (d := find(a, b)) is not None), None)


def _finding(level: Level, code: str, message: str, example_id: str | None = None) -> Finding:
    return Finding(level=level, code=code, message=message, check=CHECK, example_id=example_id)
