"""A fake model behind a real HTTP server, for the tests of environments."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from benchmax.auth import StaticBearerAuth
from benchmax.envs import Environment, Example, RolloutRequest
from castform.calls import Sampling
from castform.rollouts import RolloutGroup, Split, run_group
from castform.scripted_replies import Answer, Script, ScriptedRequest
from castform.testing.mock_endpoint import MockEndpoint
from castform.testing.troubles import Schedule


class FakeModel:
    """Answers every conversation with the given replies in order, or with a function of the request.

    Use it as a context manager, plain or async::

        with FakeModel(["<answer>4</answer>"]) as model:
            group = await model.run_group(MyEnvironment(), example)
        assert group.rollouts[0].rewards == {"correct": 1.0}

    A reply is text, a `Reply` (tool calls, latency, a cut connection), a `Fault` (an HTTP
    error) or an assistant message. A request beyond the last reply is an error; `faults` are
    those of a `MockEndpoint`. `requests` keeps everything that was asked, in order.
    """

    def __init__(
        self, replies: Sequence[Answer] | Script, *, faults: Sequence[Schedule] = (), model: str = "fake"
    ) -> None:
        self.endpoint = MockEndpoint(replies, faults=faults, model=model)
        self._rollouts = 0

    @property
    def requests(self) -> list[ScriptedRequest]:
        """Everything that was asked so far."""
        return self.endpoint.asked

    def request(self, example: Example[Any], *, split: Split = "train") -> RolloutRequest[Any]:
        """Return a request for one more rollout, in a session of its own, to give to an environment."""
        rollout_id = f"fake-{self._rollouts}"
        self._rollouts += 1
        grant = self.endpoint.add_session(rollout_id)
        return RolloutRequest(
            rollout_id=rollout_id,
            example=example,
            model=grant.model,
            base_url=grant.base_url,
            model_auth=StaticBearerAuth(grant.api_key),
            split=split,
        )

    async def run_group(
        self,
        environment: Environment[Any, Any],
        example: Example[Any],
        *,
        size: int = 1,
        split: Split = "train",
        weights: Mapping[str, float] | None = None,
        timeout_seconds: float = 30.0,
    ) -> RolloutGroup:
        """Let the environment make `size` attempts, as a trainer would, and return them scored."""
        group_id = f"fake-group-{self._rollouts}"
        self._rollouts += 1
        return await run_group(
            environment,
            example,
            endpoint=self.endpoint,
            split=split,
            group_id=group_id,
            size=size,
            sampling=Sampling(),
            seed=0,
            weights=weights or {},
            timeout_seconds=timeout_seconds,
        )

    def close(self) -> None:
        self.endpoint.close()

    def __enter__(self) -> FakeModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> FakeModel:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)
