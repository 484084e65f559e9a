"""The ways in which a box fails, named by what failed. None of them says anything about the agent's work."""

from __future__ import annotations

from castform.errors import CastformError, MissingError, UsageError
from castform.sandbox.contract import ExecResult

__all__ = [
    "CastformError",
    "ExecTimeoutError",
    "MissingError",
    "SandboxBuildError",
    "SandboxError",
    "SandboxFileError",
    "SandboxGoneError",
    "SandboxStartError",
    "UsageError",
]


class SandboxError(CastformError):
    """Root of what goes wrong with boxes: infrastructure, never a reward of zero."""


class SandboxBuildError(SandboxError):
    """The image could not be built."""


class SandboxStartError(SandboxError):
    """The box could not be started, or not within its time."""


class SandboxGoneError(SandboxError):
    """The box is no longer there: killed from outside, out of memory, or its engine is gone."""


class SandboxFileError(SandboxError):
    """A path in the box is missing, of another kind, or too large."""


class ExecTimeoutError(SandboxError, TimeoutError):
    """A command took too long and was killed with all its descendants. `result` has what it wrote."""

    def __init__(self, message: str, *, result: ExecResult, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.result = result
