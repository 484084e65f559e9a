"""The errors that castform raises on purpose, and the exit code each one means.

An error says what is wrong and with which value; its hint says what to do about it.
A failed rollout is data, not one of these; a bug stays a traceback.
"""

from __future__ import annotations

from typing import ClassVar


class CastformError(Exception):
    """Root of every error that a user can cause or cure."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(CastformError):
    """The command line, an id, a path or a file is wrong; nothing was started."""

    exit_code = 2


class ConfigError(UsageError):
    """The run configuration is wrong; the message lists every fault at once."""


class MissingError(CastformError):
    """Something that must be there is not: an extra, a server, a model, a Docker engine."""

    exit_code = 3


class RunFailedError(CastformError):
    """The work was started and did not succeed."""
