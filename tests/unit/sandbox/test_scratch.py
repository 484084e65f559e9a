"""Folders for a while: gone at the end, and gone after a kill, and nobody else's."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from castform.cli.main import main
from castform.sandbox.owner import current_owner
from castform.sandbox.scratch import open_scratch, reap_scratch, write_owner

KILLED = """
from castform.sandbox.scratch import open_scratch
with open_scratch("tests") as folder:
    (folder / "test.sh").write_text("exit 1")
    print(folder, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    return tmp_path / "sandboxes" / ".scratch"


def leave(root: Path, **changes: object) -> Path:
    """Leave a folder as a process does that was killed."""
    folder = root / write_owner(replace(current_owner(), **changes)) / "tests-1"
    folder.mkdir(parents=True)
    (folder / "test.sh").write_text("exit 1")
    return folder


def test_a_folder_is_gone_when_its_work_is_done_or_has_failed(root):
    with open_scratch("one") as one:
        with pytest.raises(KeyError), open_scratch("other") as other:
            (other / "deep" / "er").mkdir(parents=True)
            raise KeyError
        assert one.is_dir() and not other.exists()
        assert one.parent.stat().st_mode & 0o077 == 0
    assert list(root.iterdir()) == []


def test_folders_of_many_threads_do_not_take_each_others_place(root):
    def work(number: int) -> str:
        with open_scratch("t") as folder:
            (folder / "number").write_text(str(number))
            return (folder / "number").read_text()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(200))) == [str(number) for number in range(200)]
    assert list(root.iterdir()) == []


def test_what_a_killed_process_left_is_reaped_and_what_a_living_one_has_is_not(root, capsys):
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        folder = Path(process.stdout.readline().strip())
        assert reap_scratch() == [] and folder.is_dir()
        process.kill()
        process.wait()
    assert folder.is_dir()
    assert main(["sandbox", "reap", "--json"]) == 0
    removed = {entry["provider"]: entry["removed"] for entry in json.loads(capsys.readouterr().out)}
    assert removed["scratch"] == [folder.name]
    assert list(root.iterdir()) == []


def test_the_next_start_removes_what_dead_owners_left(root):
    dead = [leave(root, start="1"), leave(root, boot="another")]
    with open_scratch("mine") as mine:
        assert list(root.iterdir()) == [mine.parent]
    assert not any(folder.exists() for folder in dead)


def test_nothing_is_removed_whose_owner_cannot_be_told(root):
    kept = [leave(root, start="1", machine="another"), leave(root, start="1", namespace="another")]
    for name in ("notes", "pid=x", "pid=1"):
        (root / name / "kept").mkdir(parents=True)
        kept.append(root / name / "kept")
    (root / "a file").write_text("kept")
    assert reap_scratch() == []
    assert all(folder.is_dir() for folder in kept) and (root / "a file").is_file()
