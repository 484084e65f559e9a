"""Time, processor time and memory of this process over one phase of work."""

from __future__ import annotations

import json
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path


def measure(work: Callable[[], int], rollouts: int) -> None:
    """Run `work`, which returns how many rollouts went right, and print one line of JSON about it.

    Seconds are wall clock; cpu_seconds are user and system of this process with all its
    threads and of the children that have ended; peak_rss_mb is since the process began.
    """
    cpu, began = _cpu_seconds(), time.perf_counter()
    right = work()
    seconds, cpu_used = time.perf_counter() - began, _cpu_seconds() - cpu
    result = {
        "rollouts": rollouts,
        "right": right,
        "seconds": seconds,
        "cpu_seconds": cpu_used,
        "peak_rss_mb": _peak_rss_mb(),
    }
    print("RESULT " + json.dumps(result), flush=True)


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak_rss_mb() -> float:
    """Read VmHWM: unlike ru_maxrss it does not remember the parent that forked this process."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
