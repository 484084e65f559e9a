"""Which probes are played for what a certification is to look at."""

from __future__ import annotations

from collections.abc import Sequence

from castform.probe_report import GOLD
from castform.probes import PROBES, Probe

DETERMINISM = "determinism"
FLOOR = ("empty", "junk")
"""Wrong answers that are played beside any probe: what earns no more than they do is not paid."""


def choose_probes(only: str | None, *, relative: bool) -> Sequence[Probe]:
    """Return the probes to play for what is looked at.

    Beside the right answer `FLOOR` says what pay is worth. Where siblings are judged
    beside each other (`relative`), one probe is played among those that it was found among.
    """
    if only is None:
        return PROBES
    if only == GOLD:
        return [probe for probe in PROBES if probe.name in FLOOR]
    together = [probe for probe in PROBES if probe.max_examples is None]
    if only == DETERMINISM or (relative and only in {probe.name for probe in together}):
        return together
    if only not in {probe.name for probe in PROBES}:
        return ()
    return [probe for probe in PROBES if probe.name in {only, *FLOOR}]
