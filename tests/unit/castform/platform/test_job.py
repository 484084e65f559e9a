"""A launched run's process: started once, ended when it is asked to, its end written down."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from castform.errors import UsageError
from castform.platform.job import hold_launched_run, start_job, watch_job
from castform.runs import RunStore

WAIT = """
import sys, threading
from castform.platform.job import hold_launched_run
from castform.runs import RunStore
with RunStore.open() as store, hold_launched_run(store, sys.argv[1]):
    print("holding", flush=True)
    threading.Event().wait()
"""


@pytest.fixture
def store(monkeypatch, tmp_path):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    monkeypatch.delenv("CASTFORM_STORE_URL", raising=False)
    with RunStore.open() as opened:
        yield opened


def new_run(store, **more):
    return store.create_run(kind="sft", name="r", config={}, **more).run_id


def test_a_run_that_cannot_begin_has_failed_with_the_reason(store):
    run_id = new_run(store)
    with pytest.raises(UsageError), hold_launched_run(store, run_id):
        assert store.get_run(run_id).status == "pending"
        raise UsageError("no such model")
    record = store.get_run(run_id)
    assert (record.status, record.error) == ("failed", "no such model")


def test_an_interrupt_before_the_start_is_a_stop(store):
    run_id = new_run(store)
    with pytest.raises(KeyboardInterrupt), hold_launched_run(store, run_id):
        raise KeyboardInterrupt
    assert (store.get_run(run_id).status, store.get_run(run_id).error) == ("stopped", None)


def test_a_fault_after_the_start_is_not_written_over(store):
    run_id = new_run(store)
    with pytest.raises(ValueError, match="later"), hold_launched_run(store, run_id):
        store.set_status(run_id, "stopped")
        raise ValueError("later")
    assert store.get_run(run_id).status == "stopped"


def test_a_run_is_held_by_one_process_and_begins_once(store):
    run_id = new_run(store)
    with hold_launched_run(store, run_id):
        with pytest.raises(UsageError, match="another process"), hold_launched_run(store, run_id):
            raise AssertionError("held twice")
        assert store.get_run(run_id).status == "pending"
        store.set_status(run_id, "finished")
    with pytest.raises(UsageError, match="was started already; it is finished") as caught:
        with hold_launched_run(store, run_id):
            raise AssertionError("started twice")
    assert f"--resume {run_id}" in caught.value.hint
    assert store.get_run(run_id).status == "finished"


def test_a_stop_request_ends_a_process_that_is_still_preparing(store):
    run_id = new_run(store)
    with subprocess.Popen([sys.executable, "-c", WAIT, run_id], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"holding\n"
        assert store.get_run(run_id).pid == process.pid
        store.request_stop(run_id)
        assert process.wait(60) == 1
    record = store.get_run(run_id)
    assert (record.status, record.error) == ("stopped", None)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            "echo one; echo 'no module' >&2; exit 3",
            "ended with exit code 3 before the run began: no module (log: ",
        ),
        ("kill -9 $$", "ended with signal 9 before the run began (log: "),
    ],
)
def test_a_process_that_never_got_to_the_run_is_a_failed_run_with_its_last_words(store, words, text):
    run_id = new_run(store)
    run_dir = store.get_run(run_id).run_dir
    (run_dir / "job").mkdir(parents=True)
    with (run_dir / "job" / "log.txt").open("wb") as log:
        process = subprocess.Popen(["sh", "-c", words], stdout=log, stderr=log)
    assert store.claim_pending(run_id, pid=process.pid)
    watch_job(process, run_id, run_dir, home=store.home)
    record = store.get_run(run_id)
    assert record.status == "failed"
    assert text in record.error


def test_the_end_of_one_process_says_nothing_about_a_run_of_another(store):
    run_id = new_run(store)
    process = subprocess.Popen(["sh", "-c", "exit 1"])
    watch_job(process, run_id, store.get_run(run_id).run_dir, home=store.home)
    assert (store.get_run(run_id).status, store.get_run(run_id).pid) == ("pending", os.getpid())


def test_a_run_that_has_begun_is_neither_claimed_nor_ended_as_pending(store):
    run_id = new_run(store)
    store.set_status(run_id, "running")
    assert not store.claim_pending(run_id, pid=1)
    assert not store.end_pending(run_id, "failed", error="late")
    assert store.get_run(run_id).pid == os.getpid()


def test_a_process_starts_though_the_folder_of_its_program_is_gone(store, monkeypatch, tmp_path):
    run_id = new_run(store)
    run_dir = store.get_run(run_id).run_dir
    (run_dir / "job").mkdir(parents=True)
    (run_dir / "job" / "config.toml").write_text("[nothing]\n")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    process = start_job(run_id, run_dir, home=store.home)
    assert process.wait(60) == 2
    log = (run_dir / "job" / "log.txt").read_text(encoding="utf-8")
    assert "nothing" in log and "Traceback" not in log
