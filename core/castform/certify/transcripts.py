"""Which of the probes' transcripts are scored a second time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmax.envs import Environment
from castform.certify.checks.scripts import scores_groups
from castform.rollouts import Rollout, RolloutGroup

MAX_GROUPS = 3
MAX_CHARACTERS = 100_000
"""Longer transcripts are not played again: the 1 MB answer."""


def choose_replays(environment: Environment[Any, Any], groups: Sequence[RolloutGroup]) -> list[RolloutGroup]:
    """Return groups that can be played again.

    A rollout that failed cannot be repeated. Where siblings do not matter to each other it is
    left out of its group; where they do, the group is.
    """
    relative = scores_groups(environment)
    scorable = environment.scorable_termination_reasons
    chosen = []
    for group in groups:
        fit = tuple(r for r in group.rollouts if r.termination_reason in scorable and r.calls and _short(r))
        if fit and not (relative and len(fit) < len(group.rollouts)):
            chosen.append(replace(group, rollouts=fit))
    return sorted(chosen, key=lambda group: -len(group.rollouts))[:MAX_GROUPS]


def _short(rollout: Rollout) -> bool:
    return all(len(str(call.reply.get("content") or "")) <= MAX_CHARACTERS for call in rollout.calls)
