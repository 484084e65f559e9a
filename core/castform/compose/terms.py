"""The terms of a score: reward functions and rubrics, filled from the row and run side by side.

A function is called as `function(completion, **fields)`. Its first parameter is what the model
said: the text of the last message where it is annotated `str`, else the messages after the
prompt. Every other parameter is a constant of the config, or the row's field of that name.
`ground_truth` is always the right answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from benchmax.envs import RolloutFailure
from benchmax.envs.reward_values import check_rewards
from benchmax.envs.termination import describe_error
from benchmax.envs.worker_thread import call_in_thread
from benchmax.rewards import extract_completion_text
from benchmax.rewards.judge import Judge, JudgeError
from benchmax.rewards.rubric import Rubric
from benchmax.rewards.scoring import score_rubrics
from castform.rollouts import MOST_SCORE

logger = logging.getLogger(__name__)

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """What a term is asked about."""

    rollout_id: str
    completion: Messages
    """What was said after the prompt."""
    question: str
    """The last message of the prompt, as text."""
    fields: Mapping[str, Any]
    """Of the row, `prompt_messages` and `ground_truth` included."""


class Term(Protocol):
    """One named component of the score."""

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> float: ...

    async def score(self, scored: Scored) -> object:
        """Return a number; raises whatever the author's code raises."""


@dataclass(frozen=True, kw_only=True)
class RewardTerm:
    """A reward function with what fills its parameters."""

    name: str
    weight: float
    function: Callable[..., Any]
    reads_text: bool
    """It takes the text of the last message, not the messages."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    required: Mapping[str, str] = field(default_factory=dict)
    """Parameter to field of the row, which must have it."""
    optional: Mapping[str, str] = field(default_factory=dict)
    """The same for parameters with a default."""
    takes_rest: bool = False
    """It has **fields, which get all that no parameter names."""

    async def score(self, scored: Scored) -> object:
        """Call the function, a plain one in a thread of its own."""
        filled = {
            parameter: scored.fields[name]
            for parameter, name in {**self.required, **self.optional}.items()
            if name in scored.fields
        }
        if self.takes_rest:
            taken = {*self.constants, *self.required, *self.optional, "prompt_messages"}
            filled |= {name: value for name, value in scored.fields.items() if name not in taken}
        completion: object = scored.completion
        if self.reads_text:
            completion = extract_completion_text(scored.completion)
        call = partial(self.function, completion, **{**filled, **self.constants})
        if inspect.iscoroutinefunction(inspect.unwrap(self.function)):
            return await call()
        result = await call_in_thread(call, {})
        return await result if inspect.isawaitable(result) else result


@dataclass(frozen=True, kw_only=True)
class RubricTerm:
    """A rubric that a judge scores by."""

    name: str
    weight: float
    rubric: Rubric
    judge: Judge

    async def score(self, scored: Scored) -> object:
        """Ask the judge. An answer without text earns 0, and nobody is asked."""
        (value,) = (
            await score_rubrics(
                scored.rollout_id,
                scored.completion,
                ground_truth=scored.fields.get("ground_truth"),
                rubrics=[self.rubric],
                question=scored.question,
                judge=self.judge,
            )
        ).values()
        return value


async def score_terms(
    terms: Sequence[Term], scored: Scored, *, timeout_seconds: float | None
) -> dict[str, float]:
    """Return the components of one rollout, in the order of the terms.

    A term with a weight that gives no finite number in time fails the rollout (RolloutFailure:
    judge_error, verifier_timeout or reward_error). A metric, of weight 0, is then left out and
    the rest stands.
    """
    results = await asyncio.gather(*(_settle(term, scored, timeout_seconds) for term in terms))
    rewards: dict[str, float] = {}
    for term, result in zip(terms, results, strict=True):
        if not isinstance(result, RolloutFailure):
            rewards[term.name] = result
        elif term.weight:
            raise result
        else:
            logger.warning("metric left out of rollout %s: %s", scored.rollout_id, result)
    return rewards


async def _settle(term: Term, scored: Scored, timeout_seconds: float | None) -> float | RolloutFailure:
    clock = asyncio.timeout(timeout_seconds)
    try:
        async with clock:
            value = await term.score(scored)
    except JudgeError as error:
        return JudgeError(f"{term.name}: {error}")
    except RolloutFailure as error:
        return RolloutFailure(error.termination_reason, f"{term.name}: {error.message}")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's reward function
        if clock.expired():
            return RolloutFailure("verifier_timeout", f"{term.name} took longer than {timeout_seconds:g} s")
        return RolloutFailure("reward_error", f"{term.name}: {describe_error(error)}")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return RolloutFailure("reward_error", f"{term.name}: it cancelled itself")
    try:
        number = check_rewards({term.name: float(value) if isinstance(value, bool) else value})[term.name]
    except (TypeError, ValueError) as error:
        return RolloutFailure("reward_error", str(error))
    if abs(number) > MOST_SCORE:
        return RolloutFailure("reward_error", f"{term.name} is {number:g}, beyond {MOST_SCORE:g}")
    return number


def read_signature(
    function: Callable[..., Any], constants: Mapping[str, Any], fields: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of a RewardTerm that the function's parameters decide.

    ValueError: a constant or a field for a parameter that the function does not have, or for
    the completion; a constant that is not what the parameter's hint says; a parameter that cannot
    be given by name.
    """
    try:
        first, *others = inspect.signature(function).parameters.values()
    except ValueError:
        raise ValueError("the function takes no completion") from None
    rest = any(p.kind is p.VAR_KEYWORD for p in others)
    named = {p.name: p for p in others if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    unnamed = [p.name for p in others if p.kind is p.POSITIONAL_ONLY]
    if unnamed:
        raise ValueError(f"parameter {unnamed[0]!r} cannot be given by name")
    known = ", ".join(named) or "none"
    for what, given in (("args", constants), ("fields", fields)):
        for name in given:
            if name == first.name:
                raise ValueError(f"{what}.{name}: {name!r} is the completion, which castform gives")
            if name not in named and not rest:
                raise ValueError(f"{what}.{name}: the function has no such parameter; it has {known}")
    _check_constants(function, constants)
    both = sorted(set(constants) & set(fields))
    if both:
        raise ValueError(f"{both[0]!r} is in args and in fields")
    open_ones = {name: fields.get(name, name) for name in named if name not in constants}
    must = {name for name in open_ones if named[name].default is inspect.Parameter.empty or name in fields}
    return {
        "reads_text": _reads_text(function, first),
        "required": {
            **{name: of for name, of in open_ones.items() if name in must},
            **{name: of for name, of in fields.items() if name not in named},
        },
        "optional": {name: of for name, of in open_ones.items() if name not in must},
        "takes_rest": rest,
    }


def _check_constants(function: Callable[..., Any], constants: Mapping[str, Any]) -> None:
    """Raise ValueError for a constant that does not fit its hint. Hints that pydantic cannot read say nothing."""
    hints: dict[str, Any] = {}
    with contextlib.suppress(NameError, TypeError, AttributeError):  # names for a type checker alone
        hints = typing.get_type_hints(function, include_extras=True)
    for name, value in constants.items():
        try:
            check = TypeAdapter(hints.get(name, Any)).validate_python
        except (PydanticUserError, TypeError, NameError):
            continue
        try:
            check(value)
        except ValidationError as error:
            faults = dict.fromkeys(item["msg"] for item in error.errors(include_url=False))
            raise ValueError(f"args.{name} = {value!r}: {'; or '.join(faults)}") from None


def _reads_text(function: Callable[..., Any], first: inspect.Parameter) -> bool:
    annotation = first.annotation
    if isinstance(annotation, str):
        with contextlib.suppress(NameError, TypeError, AttributeError):  # names for a type checker alone
            annotation = typing.get_type_hints(function).get(first.name, annotation)
    return annotation in (str, "str")
