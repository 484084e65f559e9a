"""Answers whose right verdict is known: what a reward must not pay, and what it should.

One small file a family. `castform.probing` plays them; `castform validate` and
`castform env certify` both do so.
"""

from __future__ import annotations

from castform.probes import (
    echo,
    guesses,
    noise,
    numbers,
    orders,
    retractions,
    rewritings,
    shotgun,
    silence,
    tool_spam,
)
from castform.probes.probe import Crash, Probe, ProbeContext, ProbeOutcome, ProbeReport

PROBES: tuple[Probe, ...] = (
    *silence.PROBES,
    *noise.PROBES,
    *echo.PROBES,
    *guesses.PROBES,
    *shotgun.PROBES,
    *numbers.PROBES,
    *orders.PROBES,
    *tool_spam.PROBES,
    *retractions.PROBES,
    *rewritings.PROBES,
)

__all__ = ["PROBES", "Crash", "Probe", "ProbeContext", "ProbeOutcome", "ProbeReport"]
