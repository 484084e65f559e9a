"""Uploaded files are there whole or not at all, once for each content."""

from __future__ import annotations

import hashlib
import threading

import pytest

from castform.platform import TrainerError
from castform.platform.storage import LocalStorage, hash_file

DATA = b"one\ntwo\n"
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path / "storage")


def put(storage, chunks=(b"one\n", b"two\n"), path="a/b.jsonl"):
    storage.put(path, lambda: iter(chunks), digest=DIGEST)


def test_a_file_that_is_there_is_left_alone(storage):
    put(storage)
    before = storage.find("a/b.jsonl").stat()
    put(storage, chunks=None)  # nothing is read
    after = storage.find("a/b.jsonl").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_damaged_file_is_stored_anew(storage):
    put(storage)
    storage.find("a/b.jsonl").write_bytes(DATA[:-1])
    put(storage)
    assert storage.find("a/b.jsonl").read_bytes() == DATA


def test_an_upload_that_breaks_off_leaves_nothing(storage):
    def breaks():
        yield b"one\n"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        storage.put("a/b.jsonl", breaks, digest=DIGEST)
    assert list(storage.find("a").iterdir()) == []


def test_uploads_at_the_same_time_do_not_meet(storage):
    meet = threading.Barrier(4)

    def slow():
        meet.wait()
        yield DATA

    threads = [
        threading.Thread(target=storage.put, args=("a/b.jsonl", slow), kwargs={"digest": DIGEST})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in storage.find("a").iterdir()] == ["b.jsonl"]
    assert hash_file(storage.find("a/b.jsonl")) == DIGEST


def test_a_disk_that_refuses_is_an_error_with_a_way_out(storage):
    storage.root.parent.joinpath("storage").write_text("a file", encoding="utf-8")
    with pytest.raises(TrainerError, match=r"cannot store .*b\.jsonl: ") as caught:
        put(storage)
    assert "CASTFORM_HOME" in caught.value.hint


@pytest.mark.parametrize("path", ["", "/etc/x", "a//b", "a/../b", "../b", "a/.", "a\0b", "a\\b", "a/"])
def test_a_path_that_leads_out_is_refused(storage, path):
    with pytest.raises(ValueError, match="is not a path in the storage"):
        put(storage, path=path)


def test_it_lies_in_castforms_home(monkeypatch, tmp_path):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    assert LocalStorage().root == tmp_path / "storage"
