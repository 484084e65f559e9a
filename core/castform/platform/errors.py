"""What goes wrong between a program and the platform."""

from __future__ import annotations

from castform.errors import CastformError


class TrainerError(CastformError):
    """Root of what a TrainerClient raises for anything but wrong arguments."""

    def __init__(self, message: str, status_code: int | None = None, *, hint: str | None = None) -> None:
        """`status_code` is what HTTP calls it: 404 for a run that is not there. None: it has no name there."""
        super().__init__(message, hint=hint)
        self.status_code = status_code

    def __str__(self) -> str:
        """The way out stands in the text: a program shows a traceback, and nobody reads `hint` there."""
        return f"{self.args[0]} (hint: {self.hint})" if self.hint else str(self.args[0])


class AuthenticationError(TrainerError):
    """A server wants to know who asks (401). On this machine nobody asks."""


class JobLaunchError(TrainerError):
    """A run could not be launched: nothing was started."""
