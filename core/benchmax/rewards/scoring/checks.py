"""What rubric scoring is asked with: rubrics with reward names of their own, ids that name their completions."""

from __future__ import annotations

from collections.abc import Sequence

from benchmax.envs.shared_types import check_text
from benchmax.rewards.rubric import Rubric, rubric_reward_key

ADAPTIVE_KEY = "rubric_adaptive"
"""The reward of all adaptive rubrics together."""


def check_rubric_keys(rubrics: Sequence[Rubric], *, reserved: Sequence[str] = ()) -> list[str]:
    """Return the rubrics' reward keys. ValueError: there is no rubric, or two of them share a key, or one is reserved."""
    if not rubrics:
        raise ValueError("there is no rubric to score by")
    titles = dict.fromkeys(reserved, "the adaptive rubrics")
    for rubric in rubrics:
        key = rubric_reward_key(rubric)
        if key in titles:
            raise ValueError(f"{rubric.title!r} and {titles[key]} would share the reward {key!r}; rename one")
        titles[key] = repr(rubric.title)
    return [key for key in titles if key not in reserved]


def check_rollout_ids(rollout_ids: Sequence[str], completions: Sequence[object]) -> None:
    """ValueError: there is no id, one is blank or repeated, or there is not one for each completion."""
    if not rollout_ids:
        raise ValueError("there is no rollout to score")
    for rollout_id in rollout_ids:
        check_text("rollout id", rollout_id)
    if len(set(rollout_ids)) != len(rollout_ids):
        raise ValueError("rollout ids must differ from each other")
    if len(rollout_ids) != len(completions):
        raise ValueError(f"there are {len(rollout_ids)} rollout ids for {len(completions)} completions")
