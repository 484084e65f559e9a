"""A verifiers environment that castform can run: its rows, its rollouts, its rubric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmax.auth import StaticBearerAuth
from benchmax.envs import (
    Dataset,
    DatasetSplit,
    Environment,
    Example,
    RewardMap,
    RolloutAttempt,
    RolloutFailure,
    RolloutRequest,
    canonical_example_id,
)
from benchmax.envs.dataset import validate_max_examples
from benchmax.envs.loop_local import LoopLocal
from benchmax.envs.model_client import current_request_defaults
from benchmax.envs.termination import FINISHED, describe_error
from castform_env_verifiers.messages import plain_messages, plain_row, split_share
from castform_env_verifiers.scoring import plan_rubric, raise_faults, read_rewards

REQUEST_FIELDS = frozenset(
    {"temperature", "top_p", "max_tokens", "seed", "stop", "logprobs", "top_logprobs", "user"}
)
"""What the OpenAI client takes by name; other fields go into the body as they are."""
REASONS = (
    ("ToolError", "tool_error"),
    ("SandboxError", "sandbox_error"),
    ("InfraError", "harness_error"),
    ("ModelError", "model_error"),
)
"""The library's errors and what a rollout that ends in one is called; the first that fits."""


@dataclass(frozen=True, kw_only=True)
class VerifiersAttempt(RolloutAttempt):
    """A rollout of the library."""

    messages: Sequence[Mapping[str, Any]] = ()
    """Prompt and completion, in OpenAI's form."""
    state: Any = field(default=None, repr=False, compare=False)
    """The library's own record of it, for scoring a group."""


class VerifiersEnvironment(Environment[Mapping[str, Any], VerifiersAttempt]):
    """Examples are the library's rows, attempts its rollouts against the given endpoint.

    Every function of its rubric is a reward component with the rubric's weight, or a metric beside the
    component `reward` where the rubric adds up in a way of its own. A function that raises fails its
    rollout with `reward_error`; the library's errors end a rollout by kind.
    """

    def __init__(self, inner: Any, *, held_out: float) -> None:
        self.inner = inner
        self.held_out = held_out
        self.plan = plan_rubric(inner.rubric)
        self.reward_weights = self.plan.weights
        self._transports: LoopLocal[Any] = LoopLocal(_make_transport)

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        """Return the library's rows; where it has one dataset for both splits, a share is held out by prompt."""
        validate_max_examples(max_examples)
        inner = self.inner
        has_train = inner.dataset is not None or inner.dataset_source is not None
        has_eval = inner.eval_dataset is not None or inner.eval_dataset_source is not None
        source = (
            inner.get_eval_dataset()
            if has_eval and (split == "eval" or not has_train)
            else inner.get_dataset()
        )
        examples: dict[str, Example[Mapping[str, Any]]] = {}
        for raw in source:
            row = plain_row(raw)
            if not (has_train and has_eval) and (split_share(row) < self.held_out) != (split == "eval"):
                continue
            id = canonical_example_id(row)
            examples.setdefault(id, Example(id, row))  # a row that is there twice is one example
            if len(examples) == max_examples:
                break
        return Dataset(examples.values())

    async def run_rollout(self, request: RolloutRequest[Mapping[str, Any]]) -> VerifiersAttempt:
        """Let the library make the attempt and, unless groups are scored together, score it."""
        state = await self._roll_out(request)
        try:
            rewards = None if self.plan.together else await self._score(state)
        finally:
            if not self.plan.together:
                await self.inner.rubric.cleanup(state)
        return VerifiersAttempt(
            rollout_id=request.rollout_id,
            termination_reason=_read_reason(state),
            rewards=rewards,
            messages=plain_messages([*state["prompt"], *(state["completion"] or ())]),
            state=state,
        )

    async def compute_group_rewards(
        self, rollouts: Sequence[VerifiersAttempt]
    ) -> Mapping[str, RewardMap] | None:
        """Let the rubric score the group, where it has functions of a whole group."""
        if not self.plan.together:
            return None
        states = [rollout.state for rollout in rollouts]
        with raise_faults():
            await self.inner.rubric.score_group(states)
        for state in states:
            await self.inner.rubric.cleanup(state)
        return {rollout.rollout_id: read_rewards(rollout.state, self.plan) for rollout in rollouts}

    def gold(self, example: Example[Mapping[str, Any]]) -> Any:
        """Return the row's answer; None where it is empty, as the library's rows without one have it."""
        return example.payload.get("answer") or None

    async def aclose(self) -> None:
        """Close this event loop's connections and run the library's teardown handlers."""
        transport = self._transports.pop()
        if transport is not None:
            await transport.aclose()
        await self.inner._teardown()

    async def _score(self, state: Any) -> RewardMap:
        with raise_faults():
            await self.inner.rubric.score_rollout(state)
        return read_rewards(state, self.plan)

    async def _roll_out(self, request: RolloutRequest[Mapping[str, Any]]) -> Any:
        from verifiers.clients import OpenAIChatCompletionsClient
        from verifiers.errors import Error

        client = OpenAIChatCompletionsClient(self._make_client(request))
        try:
            state = await self.inner.rollout(
                {**request.example.payload, "example_id": 0}, client, request.model, self._sampling()
            )
        except Error as error:
            raise _failure(error) from error
        _check_state(state)
        return state

    def _make_client(self, request: RolloutRequest[Mapping[str, Any]]) -> Any:
        """Return an OpenAI client for one rollout; the connections are the event loop's."""
        from openai import AsyncOpenAI

        auth = request.model_auth
        if not isinstance(auth, StaticBearerAuth):
            raise TypeError(f"the library takes a key (StaticBearerAuth), not {type(auth).__name__}")
        return AsyncOpenAI(base_url=request.base_url, api_key=auth.token, http_client=self._transports.get())

    def _sampling(self) -> dict[str, Any]:
        """Return the environment's own sampling parameters with the host's over them."""
        wanted = dict(current_request_defaults())
        own = dict(self.inner.sampling_args or {})
        named = {key: value for key, value in wanted.items() if key in REQUEST_FIELDS}
        body = {key: value for key, value in wanted.items() if key not in REQUEST_FIELDS}
        return {**own, **named, "extra_body": {**(own.get("extra_body") or {}), **body}}


def _make_transport() -> Any:
    """Return the HTTP client of an event loop. One for each rollout would read the certificates each time."""
    import openai

    return openai.DefaultAioHttpClient()


def _check_state(state: Any) -> None:
    """Raise the failure that a rollout ended with; an empty reply is a reply, and scored."""
    from verifiers.errors import EmptyModelResponseError
    from verifiers.types import AssistantMessage

    error = state.get("error")
    if isinstance(error, EmptyModelResponseError):
        state["error"] = None
        state["completion"] = [*(state["completion"] or ()), AssistantMessage(content="")]
    elif error is not None:
        raise _failure(error)
    if state.get("timed_out"):
        raise RolloutFailure("harness_timeout", "the environment's own time for a rollout was up")


def _failure(error: BaseException) -> RolloutFailure:
    kinds = {cls.__name__ for cls in type(error).__mro__}
    reason = next((reason for kind, reason in REASONS if kind in kinds), "harness_error")
    cause = error.__cause__ or error
    text = describe_error(error) if cause is error else f"{type(error).__name__}: {describe_error(cause)}"
    return RolloutFailure(reason, text)


def _read_reason(state: Any) -> str:
    if state.get("prompt_too_long"):
        return "context_exceeded"
    return "output_exceeded" if state.get("is_truncated") else FINISHED
