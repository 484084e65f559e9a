"""Which rollouts of a run become rows, and which of their turns are trained on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from castform.calls import ModelCall
from castform.sft.from_runs.conversations import Conversation
from castform.sft.from_runs.messages import is_failed_result

Turns = Literal["all", "last"]
Split = Literal["train", "eval"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What to take. By default every rollout that was scored, whole and on training examples."""

    best_of: int | None = None
    """At most so many rollouts of each group, those of the highest reward."""
    per_example: bool = False
    """Count `best_of` over all groups of an example, not in each."""
    min_reward: float | None = None
    reward: str | None = None
    """Component to choose by. None: the score."""
    turns: Turns = "all"
    """last: only the last turn of a conversation is trained on, the others are context."""
    without_failed_calls: bool = False
    """Turns whose tool call failed are context."""
    with_cut: bool = False
    """Also rollouts with a reply that ran into its token limit."""
    with_duplicates: bool = False
    """Also conversations that were taken already."""
    split: Split = "train"

    def __post_init__(self) -> None:
        """Raise ValueError for a number that makes no sense."""
        if self.best_of is not None and self.best_of < 1:
            raise ValueError(f"best_of is {self.best_of}; at least 1 rollout of a group is taken")
        if self.min_reward is not None and not math.isfinite(self.min_reward):
            raise ValueError(f"min_reward is {self.min_reward}, which is no finite number")
        if self.per_example and self.best_of is None:
            raise ValueError("per_example says how best_of counts, and there is no best_of")


def choose_turns(
    conversation: Conversation, choice: Choice, masked: Counter[str] | None = None
) -> dict[int, ModelCall]:
    """Return the turns to train on, by the index of their message. `masked` counts the others."""
    turns = dict(sorted(conversation.turns.items()))
    last = max((i for i, m in enumerate(conversation.messages) if m["role"] == "assistant"), default=-1)
    for place in tuple(turns):
        reason = None
        if choice.turns == "last" and place != last:
            reason = "not the last turn"
        elif choice.without_failed_calls and _failed(conversation, place):
            reason = "its tool call failed"
        if reason is not None:
            del turns[place]
            if masked is not None:
                masked[reason] += 1
    return turns


def is_cut(calls: Collection[ModelCall]) -> bool:
    """Tell whether a reply ran into its token limit."""
    return any(call.finish_reason == "length" for call in calls)


def _failed(conversation: Conversation, place: int) -> bool:
    results: Sequence[dict[str, object]] = conversation.messages[place + 1 :]
    for message in results:
        if message["role"] != "tool":
            return False
        if is_failed_result(message):
            return True
    return False
