"""The run store: what goes in comes out, two processes share it, and faults are one clear error."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import event

from castform.calls import ModelCall
from castform.errors import CastformError, MissingError, RunFailedError, UsageError
from castform.rollouts import Rollout, RolloutGroup
from castform.runs import RunStore, hold_run_folder, run_folder


@pytest.fixture
def store(tmp_path):
    with RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db") as store:
        yield store


def make_group(group_id="g", *, scores=(1.0, None), example_id="e", text="hello") -> RolloutGroup:
    return RolloutGroup(
        group_id=group_id,
        example_id=example_id,
        rollouts=tuple(
            Rollout(
                rollout_id=f"{group_id}-{i}",
                example_id=example_id,
                sample=i,
                split="train",
                rewards={} if score is None else {"correct": score},
                score=score,
                termination_reason="finished" if score is not None else "model_error",
                error=None if score is not None else "HTTP 500",
                messages=({"role": "user", "content": text}, {"role": "assistant", "content": "hi"}),
                calls=(
                    ModelCall(
                        call_id=f"{group_id}-{i}.0",
                        session_id=f"{group_id}-{i}",
                        index=0,
                        messages=(),
                        reply={},
                        finish_reason="stop",
                        prompt_ids=(1, 2, 3),
                        sampled_ids=(4, 5),
                        logprobs=(-1.0, -2.0),
                    ),
                ),
                seed=2**63 - 1 - i,
            )
            for i, score in enumerate(scores)
        ),
    )


def new_run(store, **changes):
    return store.create_run(**{"kind": "train", "name": "n", "config": {"a": 1}, **changes})


def test_a_run_comes_back_as_it_was_stored(store, tmp_path):
    run = new_run(store, environment={"id": "arith"}, name="naïve \ud800 name")
    assert (run.status, run.pid, run.config, run.environment) == (
        "pending",
        os.getpid(),
        {"a": 1},
        {"id": "arith"},
    )
    assert run.name == "naïve \\ud800 name"
    assert run.run_dir == run_folder(tmp_path, run.run_id)
    with RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db") as again:
        assert again.list_runs() == [run]


def test_rollouts_keep_transcript_lengths_and_the_way_to_their_tokens(store):
    run = new_run(store)
    nasty = "nul \x00, half a pair \ud83d, line\nbreak"
    store.add_rollouts(
        run.run_id,
        [make_group(text=nasty)],
        mode="train",
        step=3,
        calls_path="calls/0.jsonl",
        dispositions={"g-0": "trained"},
    )
    scored, failed = store.list_rollouts(run.run_id, mode="train", step=3)
    assert (scored.score, scored.rewards, scored.disposition) == (1.0, {"correct": 1.0}, "trained")
    assert (scored.prompt_tokens, scored.completion_tokens, scored.turns) == (3, 2, 1)
    assert (scored.calls_path, scored.call_ids) == ("calls/0.jsonl", ["g-0.0"])
    assert (failed.score, failed.rewards, failed.termination_reason, failed.error) == (
        None,
        {},
        "model_error",
        "HTTP 500",
    )
    assert failed.seed == 2**63 - 2
    assert scored.messages == ()
    assert store.get_rollout(run.run_id, "g-0").messages[0]["content"] == nasty
    assert store.count_rollouts(run.run_id) == {"train": {"scored": 1, "unscored": 1}}


def test_scalars_of_a_step_are_replaced_not_repeated(store):
    run = new_run(store)
    store.add_scalars(run.run_id, 1, {"loss": 3.0, "kl": float("nan")})
    store.add_scalars(run.run_id, 0, {"loss": 4.0})
    store.add_scalars(run.run_id, 1, {"loss": 2.0})
    points = store.read_scalars(run.run_id)["train"]
    assert [(p.step, p.value) for p in points["loss"]] == [(0, 4.0), (1, 2.0)]
    assert [(p.step, p.value) for p in points["kl"]] == [(1, None)]


def test_truncation_forgets_later_steps_of_that_run_only(store):
    run, other = new_run(store), new_run(store)
    for step in range(4):
        for run_id in (run.run_id, other.run_id):
            store.add_scalars(run_id, step, {"loss": 1.0})
            store.add_rollouts(run_id, [make_group(f"s{step}")], mode="train", step=step)
            store.add_event(run_id, "step", step=step)
            store.add_eval(run_id, "step", step=step, result={})
    store.add_event(run.run_id, "resume")
    assert store.truncate_after_step(run.run_id, 1) == {"events": 2, "scalars": 2, "rollouts": 4, "evals": 2}
    assert [p.step for p in store.read_scalars(run.run_id)["train"]["loss"]] == [0, 1]
    assert {r.step for r in store.list_rollouts(run.run_id)} == {0, 1}
    assert [e.kind for e in store.list_events(run.run_id)] == ["step", "step", "resume"]
    assert len(store.list_rollouts(other.run_id)) == 8
    store.add_rollouts(run.run_id, [make_group("s2")], mode="train", step=2)  # the id is free again


def test_ids_are_found_by_unique_prefix_and_suggested_when_misspelt(store):
    for run_id in ("abc123", "abd456"):
        new_run(store, run_id=run_id)
    assert store.find_run("abc").run_id == "abc123"
    with pytest.raises(UsageError, match=r"2 runs begin with 'ab': abc123, abd456"):
        store.find_run("ab")
    with pytest.raises(UsageError, match="no run 'abc133'") as caught:
        store.find_run("abc133")
    assert "abc123" in caught.value.hint
    with pytest.raises(UsageError, match="no run ''"):
        store.find_run("")
    with pytest.raises(UsageError, match="exists already"):
        new_run(store, run_id="abc123")


def test_a_stop_request_reaches_the_other_side_and_a_new_start_clears_it(store, tmp_path):
    run = new_run(store)
    with RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db") as other:
        other.request_stop(run.run_id)
    assert store.stop_requested(run.run_id)
    store.set_status(run.run_id, "running")
    assert not store.stop_requested(run.run_id)
    with pytest.raises(UsageError, match="no run nope"):
        store.request_stop("nope")


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [(None, "finished", None), (KeyboardInterrupt(), "stopped", None), (ValueError("bad"), "failed", "bad")],
)
def test_a_run_ends_in_the_state_that_its_block_ended_in(store, error, status, text):
    run = new_run(store)
    try:
        with store.running(run.run_id):
            assert store.get_run(run.run_id).status == "running"
            if error:
                raise error
    except (KeyboardInterrupt, ValueError) as raised:
        assert raised is error
    assert (store.get_run(run.run_id).status, store.get_run(run.run_id).error) == (status, text)
    assert not [t for t in threading.enumerate() if t.name.startswith("heartbeat-")]


def test_a_status_set_inside_the_block_stays(store):
    run = new_run(store)
    with store.running(run.run_id):
        store.set_status(run.run_id, "stopped")
    assert store.get_run(run.run_id).status == "stopped"


def run_python(code: str, *args: object, **kwargs) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)], stdout=subprocess.PIPE, text=True, **kwargs
    )


def test_a_killed_run_shows_as_lost(store, tmp_path):
    child = run_python(
        """
import sys, pathlib, time
from castform.runs import RunStore
store = RunStore.open(pathlib.Path(sys.argv[1]), url=f"sqlite:///{sys.argv[1]}/runs.db")
run = store.create_run(kind="train", name="", config={})
with store.running(run.run_id):
    print(run.run_id, flush=True)
    sys.stdin.read()
""",
        tmp_path,
        stdin=subprocess.PIPE,
    )
    run_id = child.stdout.readline().strip()
    assert store.get_run(run_id).status == "running"
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    assert store.get_run(run_id).status == "lost"


def test_a_run_of_another_machine_is_lost_when_its_heart_stops(tmp_path):
    now = 1000.0
    with RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db", clock=lambda: now) as store:
        run = new_run(store)
        store.set_status(run.run_id, "running")
        with store._write() as connection:
            connection.exec_driver_sql("UPDATE runs SET host='elsewhere'")
        now = 1299.0
        assert store.get_run(run.run_id).status == "running"
        now = 1301.0
        assert store.get_run(run.run_id).status == "lost"


WRITER = """
import sys, pathlib
from castform.runs import RunStore
home, name, steps = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with RunStore.open(home, url=f"sqlite:///{home}/runs.db") as store:
    run = store.create_run(kind="train", name=name, config={}, run_id=name)
    with store.running(name):
        for step in range(steps):
            store.add_scalars(name, step, {f"s{i}": i * step for i in range(20)})
            store.add_event(name, "step", step=step, data={"step": step})
print("done")
"""


def test_three_processes_open_a_new_store_and_write_at_once_while_one_reads(tmp_path):
    steps = 25
    children = [run_python(WRITER, tmp_path, name, steps) for name in ("a", "b", "c")]
    with RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db") as store:
        while any(child.poll() is None for child in children):
            for run in store.list_runs():
                scalars = store.read_scalars(run.run_id).get("train", {})
                assert (
                    len({len(points) for points in scalars.values()}) <= 1
                )  # a step is all there, or not yet
        outputs = [child.communicate()[0] for child in children]
        assert [child.returncode for child in children] == [0, 0, 0], outputs
        for run in store.list_runs():
            assert run.status == "finished"
            assert len(store.list_events(run.run_id)) == steps
            assert [p.step for p in store.read_scalars(run.run_id)["train"]["s7"]] == list(range(steps))


def test_a_full_disk_is_one_clear_error_and_nothing_half_written(store):
    run = new_run(store)

    def cap(connection, *_):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 8}")

    event.listen(store._engine, "checkout", cap)
    with pytest.raises(RunFailedError, match="disk is full") as caught:
        store.add_rollouts(
            run.run_id, [make_group(f"g{i}", text="x" * 4000) for i in range(50)], mode="train", step=0
        )
    assert caught.value.exit_code == 1
    event.remove(store._engine, "checkout", cap)
    assert store.list_rollouts(run.run_id) == []


def test_a_damaged_store_is_named_and_left_alone(tmp_path):
    path = tmp_path / "runs.db"
    path.write_bytes(b"this is no database " * 300)
    with pytest.raises(UsageError, match=r"runs\.db is damaged"):
        RunStore.open(tmp_path, url=f"sqlite:///{path}")
    assert path.read_bytes().startswith(b"this is no database")


def test_a_store_of_another_version_is_refused(store, tmp_path):
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("UPDATE castform_schema SET version = 99")
    with pytest.raises(UsageError, match="version 99, this castform reads version 2") as caught:
        RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db")
    assert caught.value.hint == "upgrade castform"


def test_a_database_of_something_else_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("CREATE TABLE runs (id)")
    with pytest.raises(UsageError, match="database of something else"):
        RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db")


def test_a_home_that_cannot_be_made_is_a_usage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot make the folder"):
        RunStore.open(tmp_path / "file" / "home", url=f"sqlite:///{tmp_path}/file/home/runs.db")
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(UsageError, match="cannot write the run store"):
        RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/folder.db")


@pytest.mark.parametrize(
    ("url", "kind"),
    [("no url at all", UsageError), ("madeup://x/y", UsageError)],
)
def test_a_wrong_store_url_is_a_usage_error(monkeypatch, tmp_path, url, kind):
    monkeypatch.setenv("CASTFORM_STORE_URL", url)
    with pytest.raises(kind) as caught:
        RunStore.open(tmp_path)
    assert caught.value.exit_code == 2


def test_a_missing_server_or_driver_is_a_missing_error_without_the_password(monkeypatch, tmp_path):
    monkeypatch.setenv("CASTFORM_STORE_URL", "postgresql://me:hunter2@127.0.0.1:1/none")
    with pytest.raises(MissingError) as caught:
        RunStore.open(tmp_path)
    assert "hunter2" not in str(caught.value)


def test_a_second_process_in_a_run_folder_is_refused_until_the_first_ends(tmp_path):
    folder = tmp_path / "run"
    child = run_python(
        """
import sys, pathlib
from castform.runs import hold_run_folder
with hold_run_folder(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
""",
        folder,
        stdin=subprocess.PIPE,
    )
    assert child.stdout.readline() == "held\n"
    with pytest.raises(UsageError, match=f"another process \\(pid {child.pid}\\) is running in"):
        with hold_run_folder(folder):
            pass
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    with hold_run_folder(folder):
        assert (folder / "lock").read_text() == str(os.getpid())


def test_every_error_of_the_store_is_a_castform_error(store, tmp_path):
    run = new_run(store)
    for path in (tmp_path / "runs.db", tmp_path / "runs.db-wal"):
        if path.exists():
            path.write_bytes(b"\x00" * 4096)
    store._engine.dispose()
    with pytest.raises(CastformError):
        store.add_event(run.run_id, "x")


def test_stored_text_is_json_that_any_reader_takes(store, tmp_path):
    run = new_run(
        store, config={"nan": float("nan"), "path": Path("x"), "nested": {"inf": [float("inf"), 1]}}
    )
    assert run.config == {"nan": None, "path": "x", "nested": {"inf": [None, 1]}}
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        (text,) = connection.execute("SELECT config FROM runs").fetchone()
    assert json.loads(text) == run.config


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("update runs set config = '{half'", "settings of run"),
        ("update runs set config = '[1]'", "settings of run"),
        ("update runs set environment = '['", "environment of run"),
        ("update rollouts set rewards = '[1, 2]'", "rewards of g-0"),
        ('update rollouts set rewards = \'{"correct": "x"}\'', "rewards of g-0"),
        ("update rollouts set call_ids = '[[1]]'", "call ids of g-0"),
        ("update rollouts set transcript = '[7]'", "transcript of g-0"),
        ("update rollouts set seed = 'one'", "seed of g-0"),
        ("update evals set result = ''", "evaluation base"),
        ("update events set data = '7'", "event 1"),
        ("update pins set pin = '{'", "pin "),
        ("update pins set details = '[]'", "details of pin "),
    ],
)
def test_a_column_that_somebody_broke_is_named(store, tmp_path, change, told):
    run_id = new_run(store, environment={"id": "arith/add"}).run_id
    store.add_rollouts(run_id, [make_group()], mode="train", step=0)
    store.add_eval(run_id, "base", step=0, result={"score": 1})
    store.add_event(run_id, "checkpoint", data={})
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute(change)

    def read_all() -> None:
        store.get_run(run_id)
        store.list_rollouts(run_id)
        store.get_rollout(run_id, "g-0")
        store.list_evals(run_id)
        store.list_events(run_id)
        store.list_pins(run_id)

    with pytest.raises(RunFailedError, match=f"the run store is damaged: the {told}") as caught:
        read_all()
    assert "restore runs.db from a copy" in (caught.value.hint or "")
