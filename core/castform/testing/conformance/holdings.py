"""What a process holds: threads, open files, child processes, temporary files. And what it did not let go of."""

from __future__ import annotations

import gc
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SETTLE_SECONDS = 1.0
"""How long what was let go of may take to vanish: a thread ends, a process is reaped."""
_POLL_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """A count of everything by kind and name."""

    counts: Counter[tuple[str, str]]

    def beyond(self, before: Holdings) -> list[str]:
        """Return what is held beyond what was held before, in words."""
        return sorted(
            f"{kind} {name}" + (f" ({number} of them)" if number > 1 else "")
            for (kind, name), number in (self.counts - before.counts).items()
        )


def take_holdings(temp_dir: Path) -> Holdings:
    """Count what this process holds now. Open files and child processes are seen where /proc is."""
    gc.collect()
    counts: Counter[tuple[str, str]] = Counter()
    counts.update(("thread", thread.name) for thread in threading.enumerate())
    counts.update(("open file", name) for name in _open_files())
    counts.update(("child process", name) for name in _child_processes(str(temp_dir)))
    counts.update(("temporary file", str(path.relative_to(temp_dir))) for path in temp_dir.rglob("*"))
    return Holdings(counts=counts)


def wait_for_release(before: Holdings, temp_dir: Path) -> Sequence[str]:
    """Return what is held beyond `before`, once it is settled."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        beyond = take_holdings(temp_dir).beyond(before)
        if not beyond or time.monotonic() >= deadline:
            return beyond
        time.sleep(_POLL_SECONDS)


@contextmanager
def own_temp_dir() -> Iterator[Path]:
    """Let temporary files of this process and of its children go to a folder of their own, and remove it."""
    default, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="castform-conformance-") as text:
        place = Path(text).resolve()
        tempfile.tempdir = os.environ["TMPDIR"] = str(place)
        try:
            yield place
        finally:
            tempfile.tempdir = default
            if variable is None:
                os.environ.pop("TMPDIR", None)
            else:
                os.environ["TMPDIR"] = variable


def _open_files() -> Iterator[str]:
    """Yield what each descriptor is: a path, or the kind of what has none."""
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        try:
            target = str(entry.readlink())
        except OSError:  # the one that lists
            continue
        yield target if target.startswith("/") else target.partition(":")[0]


def _child_processes(mark: str) -> Iterator[str]:
    """Yield the programs that this process started: its children, and whoever inherited its folder for files."""
    own = str(os.getpid())
    for folder in Path("/proc").glob("[0-9]*") if Path("/proc/self").is_dir() else ():
        if folder.name == own:
            continue
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            is_ours = parent == own or f"TMPDIR={mark}".encode() in (folder / "environ").read_bytes()
            if is_ours:
                yield (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(
                    "utf-8", "replace"
                ).strip()[:120] or (folder / "comm").read_text().strip()
        except OSError:  # it ended meanwhile, or is another user's
            continue
