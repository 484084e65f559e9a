"""The one interface for tools that must be set up for a rollout and taken down after it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from benchmax.envs.shared_types import Example

if TYPE_CHECKING:
    from benchmax.envs.tools import FunctionTool


@runtime_checkable
class ToolSource(Protocol):
    """Gives each rollout its tools, e.g. those of a server that is started for it.

    A source may also have `async aclose()`, for what its rollouts share on the running event
    loop: the environment's own `aclose` calls it.
    """

    def open(
        self, rollout_id: str, example: Example[Any]
    ) -> AbstractAsyncContextManager[Sequence[FunctionTool]]:
        """Return a context that yields the rollout's tools.

        It is entered before the first turn and left, by the same task, after the reward,
        also when the rollout fails or is cancelled. RolloutFailure ends the rollout with its
        reason, another exception as `tool_error`.
        """
        ...
