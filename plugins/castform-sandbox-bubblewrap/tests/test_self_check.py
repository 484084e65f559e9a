"""castform's own rules for providers, on this machine's bubblewrap."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from castform_sandbox_bubblewrap.groups import find_groups

from castform.sandbox.contract import Sandbox
from castform.testing.sandboxes import make_rule_tests

pytestmark = [
    pytest.mark.bubblewrap,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap needs Linux"),
]

FOLDER = Path(tempfile.gettempdir()) / f"castform-bubblewrap-rules-{os.getpid()}"


@pytest.fixture(autouse=True, scope="module")
def folder() -> Iterator[None]:
    yield
    left = [*(FOLDER / "boxes").iterdir()]
    shutil.rmtree(FOLDER, ignore_errors=True)
    assert left == []


async def end_from_outside(box: Sandbox) -> None:
    os.kill(box.pid, signal.SIGKILL)  # type: ignore[attr-defined]  # of this provider's boxes


async def list_left() -> Sequence[str]:
    return find_left()


def find_left() -> list[str]:
    """Folders of boxes of this test, their control groups, and disks in files that are still mounted."""
    boxes = [entry.name for entry in (FOLDER / "boxes").iterdir()]
    found = find_groups()
    groups = (
        []
        if found is None
        else [
            str(entry)
            for parent in set(found.places.values())
            for entry in parent.iterdir()
            if entry.is_dir() and entry.name.partition(".")[0] in boxes
        ]
    )
    loops = [
        entry.name
        for entry in Path("/sys/block").glob("loop*/loop/backing_file")
        if str(FOLDER) in entry.read_text()
    ]
    return [*boxes, *groups, *loops]


test_rule = make_rule_tests(
    "bubblewrap", options={"folder": str(FOLDER)}, end_from_outside=end_from_outside, list_left=list_left
)
