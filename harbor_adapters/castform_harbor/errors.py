"""What can go wrong in a trial, by what it says about the reward: nothing, ever, but that there is none."""

from __future__ import annotations

from castform.errors import CastformError
from castform.sandbox.errors import SandboxError


class VerifierError(CastformError):
    """The tests could not come to a decision."""


class VerifierTimeoutError(VerifierError):
    """The tests took longer than they may."""


class InfraError(SandboxError):
    """What the trial runs in failed: no fault of the agent's, and no reward."""


class HealthcheckError(InfraError):
    """The box did not become ready."""


class StepSetupError(InfraError):
    """A step's setup.sh failed."""
