"""Play the right answer and the probes to an environment, without any model.

Every probe runs as a sibling of the right answer in one group, so that environments which
score siblings against each other are probed too. Where the right answer is unknown or not
paid, full marks (`pass_at`) stand in for it.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmax.envs import Environment, Example
from benchmax.envs.termination import KNOWN_REASONS, SCORABLE
from castform.gold import RENDERINGS, Rendering, gold_script, gold_text, read_gold
from castform.playback import Playback
from castform.probes import PROBES, Probe, ProbeContext, ProbeOutcome, ProbeReport
from castform.rollouts import ENVIRONMENT_ERROR, ROLLOUT_TIMEOUT, Rollout, RolloutGroup, Split
from castform.scripted_replies import Script

GOLD = "gold"
TOLERANCE = 1e-9
GROUPS_AT_ONCE = 8
DEFECTS = frozenset({ENVIRONMENT_ERROR, ROLLOUT_TIMEOUT, *KNOWN_REASONS}) - SCORABLE - {"model_error"}
"""Failures that are the environment's: the scripted answers work, and no model is there to blame."""


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
) -> ProbeReport:
    """Play the right answer and every probe on every example, without any model.

    RuntimeError when the environment's `gold` raises.
    """
    golds = {example.id: read_gold(environment, example) for example in examples}
    async with Playback() as playback:

        async def play(example: Example[Any], scripts: Mapping[str, Script], name: str) -> dict[str, Rollout]:
            group = await playback.play(
                environment,
                example,
                list(scripts.values()),
                group_id=f"{name}-{place_of[example.id]}",
                split=split,
                weights=weights,
                timeout_seconds=timeout_seconds,
            )
            groups.append(group)
            return dict(zip(scripts, group.rollouts, strict=True))

        place_of = {example.id: place for place, example in enumerate(examples)}
        groups: list[RolloutGroup] = []
        known = next((example for example in examples if golds[example.id] is not None), None)
        rendering = RENDERINGS[0]
        if known is not None:
            tried = await play(
                known,
                {r.name: gold_script(golds[known.id], r) for r in _renderings(golds[known.id])},
                "rendering",
            )
            rendering = _best_rendering(tried)
            groups.clear()
        slots = asyncio.Semaphore(GROUPS_AT_ONCE)

        async def probe(example: Example[Any]) -> dict[str, Rollout]:
            context = ProbeContext(
                example_id=example.id,
                gold=golds[example.id],
                other_gold=_other_gold(example.id, golds),
                rendering=rendering,
                seed=seed,
            )
            scripts = _scripts(context, probes)
            async with slots:
                played = await play(example, scripts, "probe")
                if all(r.termination_reason == ENVIRONMENT_ERROR for r in played.values()):
                    # One answer broke the whole group: play each alone to see which one.
                    played = {}
                    for name, script in scripts.items():
                        played |= await play(example, {name: script}, f"probe-{name}")
            return played

        played = await asyncio.gather(*map(probe, examples))
    return _report(played, examples, rendering, probes, pass_at, groups)


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


def _renderings(gold: Any) -> Sequence[Rendering]:
    return RENDERINGS if gold_text(gold) is not None else RENDERINGS[:1]


def _best_rendering(tried: Mapping[str, Rollout]) -> Rendering:
    def worth(rendering: Rendering) -> float:
        rollout = tried.get(rendering.name)
        return float("-inf") if rollout is None or rollout.score is None else rollout.score

    return max(RENDERINGS, key=worth)


def _scripts(context: ProbeContext, probes: Sequence[Probe]) -> dict[str, Script]:
    scripts = {probe.name: script for probe in probes if (script := probe.make(context)) is not None}
    if context.gold is not None:
        scripts = {GOLD: gold_script(context.gold, context.rendering), **scripts}
    return scripts


def _other_gold(example_id: str, golds: Mapping[str, Any]) -> Any:
    """Return the next example's right answer that differs from this one's."""
    ids = list(golds)
    start = ids.index(example_id)
    own = golds[example_id]
    for other in (*ids[start + 1 :], *ids[:start]):
        if golds[other] is not None and golds[other] != own:
            return golds[other]
    return None


def _report(
    played: Sequence[Mapping[str, Rollout]],
    examples: Sequence[Example[Any]],
    rendering: Rendering,
    probes: Sequence[Probe],
    pass_at: float,
    groups: Sequence[RolloutGroup],
) -> ProbeReport:
    gold_scores = {
        example.id: rollouts[GOLD].score
        for example, rollouts in zip(examples, played, strict=True)
        if GOLD in rollouts
    }
    paid = [score for score in gold_scores.values() if score is not None]
    empties = {
        example.id: rollouts["empty"].score
        for example, rollouts in zip(examples, played, strict=True)
        if "empty" in rollouts
    }
    unpaid = {
        example_id
        for example_id, score in gold_scores.items()
        if score is None or score <= (empties.get(example_id) or 0.0) + TOLERANCE
    }
    full = {
        example.id: score
        if (score := gold_scores.get(example.id)) is not None and example.id not in unpaid
        else pass_at
        for example in examples
    }

    def outcome(probe: Probe) -> ProbeOutcome:
        rollouts = [row[probe.name] for row in played if probe.name in row]
        return _outcome(probe, rollouts, full, statistics.fmean(paid) if paid else None)

    gold = Probe(name=GOLD, what="the right answer", make=lambda context: None, allowed_share=1.0)
    return ProbeReport(
        gold=outcome(gold) if gold_scores else None,
        rendering=rendering.name,
        unpaid_gold=tuple(sorted(unpaid)),
        outcomes=tuple(outcome(probe) for probe in probes),
        crashes=tuple(
            sorted(
                {
                    f"{name}: {rollout.error}"
                    for row in played
                    for name, rollout in row.items()
                    if rollout.termination_reason in DEFECTS
                }
            )
        ),
        full_score=statistics.median_low(paid) if paid else None,
        groups=tuple(groups),
    )


def _outcome(
    probe: Probe, rollouts: Sequence[Rollout], full: Mapping[str, float], gold_mean: float | None
) -> ProbeOutcome:
    scored = [(r, r.score) for r in rollouts if r.score is not None]
    mean = statistics.fmean(score for _, score in scored) if scored else None
    names = sorted({name for rollout, _ in scored for name in rollout.rewards})
    return ProbeOutcome(
        name=probe.name,
        what=probe.what,
        examples=len(rollouts),
        scored=len(scored),
        paid_in_full=tuple(r.example_id for r, score in scored if score >= full[r.example_id] - TOLERANCE),
        mean_score=mean,
        share_of_gold=None if mean is None or not gold_mean or gold_mean <= 0 else mean / gold_mean,
        components={
            name: statistics.fmean(r.rewards[name] for r, _ in scored if name in r.rewards) for name in names
        },
        failures=dict(Counter(r.termination_reason for r in rollouts if r.score is None).most_common()),
        allowed_share=probe.allowed_share,
    )
