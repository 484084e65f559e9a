"""Probes that answer nothing: no text, an empty one, not knowing, refusing."""

from __future__ import annotations

from castform.probes.probe import Probe, ProbeContext
from castform.scripted_replies import Reply, Script

DONT_KNOW = "I do not know."
REFUSAL = "I'm sorry, but I can't help with that."


def _blank(context: ProbeContext) -> Script | None:
    """Return an empty answer in the form that pays, where that differs from an empty reply."""
    written = context.rendering.write("")
    return (lambda request: written) if written.strip() else None


def _dont_know(context: ProbeContext) -> Script:
    written = context.rendering.write(DONT_KNOW)
    return lambda request: written


PROBES = (
    Probe(name="none", what="no text at all (null)", make=lambda context: lambda request: Reply()),
    Probe(name="empty", what="an empty answer", make=lambda context: lambda request: ""),
    Probe(name="blank", what="an empty answer in the form that pays", make=_blank),
    Probe(name="dont_know", what=f'"{DONT_KNOW}"', make=_dont_know),
    Probe(name="refusal", what="a refusal", make=lambda context: lambda request: REFUSAL),
)
