"""What the checks let a model say: the right answer, and answers that are not it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmax.envs import Environment, Example
from castform.certify.context import CheckContext
from castform.gold import gold_script
from castform.scripted_replies import Script

WRONG = "I have thought about it, but I cannot tell."
OTHER_WRONG = "Perhaps 17, or perhaps something else entirely."


def list_examples(context: CheckContext, count: int) -> Sequence[Example[Any]]:
    """Return up to `count` examples of the split that rewards are checked on."""
    return tuple(context.examples.get(context.split, ()))[:count]


def make_right(context: CheckContext, example: Example[Any]) -> Script | None:
    """Return a script that answers right; None where the environment does not say what is right."""
    gold = context.golds.get(example.id)
    return None if gold is None else gold_script(gold, context.rendering)


def make_wrong(context: CheckContext, example: Example[Any]) -> Sequence[Script]:
    """Return two scripts that answer otherwise: another example's right answer where there is one, and talk."""
    own = context.golds.get(example.id)
    others = (gold for gold in context.golds.values() if gold is not None and gold != own)
    other = next(others, None)
    talk: Script = lambda request: WRONG  # noqa: E731 - one line each
    return (
        talk,
        (lambda request: OTHER_WRONG) if other is None else gold_script(other, context.rendering),
    )


def scores_groups(environment: Environment[Any, Any]) -> bool:
    """Say whether siblings are judged beside each other, so that rewards may depend on them."""
    cls = type(environment)
    return (
        cls.compute_group_rewards is not Environment.compute_group_rewards
        or cls.run_group is not Environment.run_group
    )
