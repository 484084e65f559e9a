"""Play the right answer and the probes to an environment, without any model.

Every probe runs as a sibling of the right answer in one group, so that environments which
score siblings against each other are probed too. Where the right answer is unknown or not
paid, full marks (`pass_at`) stand in for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmax.envs import Environment, Example
from castform.gold import RENDERINGS, Rendering, gold_script, gold_text, read_gold, unwrap_golds
from castform.playback import Playback
from castform.probe_report import GOLD, Row, make_report
from castform.probes import PROBES, Probe, ProbeContext, ProbeReport
from castform.probes.contexts import make_contexts
from castform.rollouts import ENVIRONMENT_ERROR, ROLLOUT_TIMEOUT, Rollout, RolloutGroup, Split
from castform.scripted_replies import Script

GROUPS_AT_ONCE = 8
QUICK_SECONDS = 0.25
"""Where the first group takes less, one is played at a time: more of them would not wait for anything but each other,
and a connection for every sibling of all of them costs more than what they do."""
ALONE_SECONDS = 15.0
"""How long an answer may take that is played alone to see which one of a group hangs. A box takes its time."""


async def run_probes(
    environment: Environment[Any, Any],
    examples: Sequence[Example[Any]],
    *,
    split: Split,
    weights: Mapping[str, float],
    seed: int = 0,
    timeout_seconds: float = 60.0,
    pass_at: float = 1.0,
    probes: Sequence[Probe] = PROBES,
    only_examples: Collection[str] | None = None,
    deadline: float | None = None,
) -> ProbeReport:
    """Play the right answer and every probe on every example, without any model.

    `only_examples` are played alone, with the other examples' answers still to draw on. After
    `deadline` (of time.monotonic) no further example is begun; the report names the skipped ones.
    RuntimeError when the environment's `gold` raises.
    """
    golds = unwrap_golds({example.id: read_gold(environment, example) for example in examples})
    async with Playback() as playback:
        stage = _Stage(playback, environment, examples, split, weights, timeout_seconds, deadline)
        rendering = await stage.find_rendering(golds)
        contexts = make_contexts(examples, golds, rendering, seed)
        chosen = [e for e in examples if only_examples is None or e.id in only_examples]
        skipped: list[str] = []

        async def probe(place: int, example: Example[Any], slots: asyncio.Semaphore) -> list[Row]:
            rows: list[Row] = []
            for name, part in _parts(probes, place):
                scripts = _scripts(contexts[example.id], part)
                if not scripts or (name and not scripts.keys() - {GOLD}):
                    continue
                async with slots:
                    if stage.is_late():
                        if not name:
                            skipped.append(example.id)
                        continue
                    played = await stage.play_apart(example, scripts, f"probe{name}")
                rows.append(Row(context=contexts[example.id], played=played))
            return rows

        began = time.monotonic()
        found = [await probe(0, chosen[0], asyncio.Semaphore(1))] if chosen else []
        seconds = (time.monotonic() - began) / (len(stage.groups) or 1)
        slots = asyncio.Semaphore(count_at_once(seconds, timeout_seconds))
        found += await asyncio.gather(
            *(probe(place, example, slots) for place, example in enumerate(chosen) if place)
        )
    return make_report(
        [row for rows in found for row in rows],
        probes,
        rendering=rendering.name,
        pass_at=pass_at,
        skipped=skipped,
        groups=stage.groups,
        probe_of=stage.probe_of,
    )


async def find_rendering(
    environment: Environment[Any, Any],
    examples: Sequence[Example[Any]],
    golds: Mapping[str, Any],
    *,
    split: Split,
    weights: Mapping[str, float],
    timeout_seconds: float = 60.0,
) -> Rendering:
    """Return the way to write an answer down that the environment pays most, of `RENDERINGS`.

    `golds` are right answers without a form (`castform.gold.unwrap_golds`).
    """
    async with Playback() as playback:
        stage = _Stage(playback, environment, examples, split, weights, timeout_seconds, None)
        return await stage.find_rendering(golds)


async def measure_full_score(
    environment: Environment[Any, Any],
    examples: Sequence[Example[Any]],
    *,
    split: Split,
    weights: Mapping[str, float],
    timeout_seconds: float = 60.0,
) -> float | None:
    """Return what the right answer earns (of several, the lower median), played to the environment.

    None when the environment does not say what is right, or does not pay it.
    """
    only_empty = [probe for probe in PROBES if probe.name == "empty"]
    try:
        report = await run_probes(
            environment,
            examples,
            split=split,
            weights=weights,
            timeout_seconds=timeout_seconds,
            probes=only_empty,
        )
    except RuntimeError:  # gold() raised; validation reports it
        return None
    return None if report.unpaid_gold else report.full_score


class _Stage:
    """Plays groups of scripts to one environment and keeps them."""

    def __init__(
        self,
        playback: Playback,
        environment: Environment[Any, Any],
        examples: Sequence[Example[Any]],
        split: Split,
        weights: Mapping[str, float],
        timeout_seconds: float,
        deadline: float | None,
    ) -> None:
        self.groups: list[RolloutGroup] = []
        self.probe_of: dict[str, str] = {}
        self._playback = playback
        self._environment = environment
        self._examples = examples
        self._place = {example.id: place for place, example in enumerate(examples)}
        self._split = split
        self._weights = weights
        self._timeout = timeout_seconds
        self._deadline = deadline

    def is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    async def play(
        self, example: Example[Any], scripts: Mapping[str, Script], name: str, seconds: float | None = None
    ) -> dict[str, Rollout]:
        """Run one group, a sibling a script."""
        timeout = self._timeout if seconds is None else min(seconds, self._timeout)
        if self._deadline is not None:
            timeout = min(timeout, max(self._deadline - time.monotonic(), 1.0))
        group = await self._playback.play(
            self._environment,
            example,
            list(scripts.values()),
            group_id=f"{name}-{self._place[example.id]}",
            split=self._split,
            weights=self._weights,
            timeout_seconds=timeout,
        )
        self.groups.append(group)
        self.probe_of |= {
            rollout.rollout_id: name for rollout, name in zip(group.rollouts, scripts, strict=True)
        }
        return dict(zip(scripts, group.rollouts, strict=True))

    async def play_apart(
        self, example: Example[Any], scripts: Mapping[str, Script], name: str
    ) -> dict[str, Rollout]:
        """Run one group; where one answer breaks it all, play each alone to see which one."""
        played = await self.play(example, scripts, name)
        reasons = {rollout.termination_reason for rollout in played.values()}
        if reasons == {ENVIRONMENT_ERROR} or (reasons == {ROLLOUT_TIMEOUT} and len(played) > 1):
            played = {}
            for probe, script in scripts.items():
                if self.is_late():
                    break
                played |= await self.play(example, {probe: script}, f"{name}-{probe}", ALONE_SECONDS)
        return played

    async def find_rendering(self, golds: Mapping[str, Any]) -> Rendering:
        known = next((e for e in self._examples if golds[e.id] is not None), None)
        if known is None or gold_text(golds[known.id]) is None:
            return RENDERINGS[0]
        scripts = {r.name: gold_script(golds[known.id], r) for r in RENDERINGS}
        tried = await self.play(known, scripts, "rendering")
        self.groups.clear()
        self.probe_of.clear()
        return max(RENDERINGS, key=lambda rendering: _worth(tried[rendering.name]))


def count_at_once(seconds: float, timeout_seconds: float) -> int:
    """Return how many groups to play at a time, where the first took `seconds` and each may take `timeout_seconds`.

    Groups that wait for a judge do not mind each other; groups that start boxes wait for the same
    processor, and too many of them would all run out of their time.
    """
    if seconds < QUICK_SECONDS:
        return 1
    return min(GROUPS_AT_ONCE, max(2, int(timeout_seconds / (2 * seconds))))


def _worth(rollout: Rollout) -> float:
    return float("-inf") if rollout.score is None else rollout.score


def _parts(probes: Sequence[Probe], place: int) -> list[tuple[str, list[Probe]]]:
    """Return the probes that share a group, and each costly one that is due here, by itself."""
    cheap = [probe for probe in probes if probe.max_examples is None]
    costly = [p for p in probes if p.max_examples is not None and place < p.max_examples]
    return [("", cheap), *((f"-{probe.name}", [probe]) for probe in costly)]


def _scripts(context: ProbeContext, probes: Sequence[Probe]) -> dict[str, Script]:
    scripts = {probe.name: script for probe in probes if (script := probe.make(context)) is not None}
    if context.gold is not None:
        scripts = {GOLD: gold_script(context.gold, context.rendering), **scripts}
    return scripts
