"""A store that an older castform made is brought up to date where it is."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from castform.errors import UsageError
from castform.plugins.pins import digest_pin
from castform.rollouts import Rollout, RolloutGroup
from castform.runs import RunStore

STORE_V1 = Path(__file__).parents[2] / "golden" / "store_v1.sql"
PIN = {
    "id": "arith/add",
    "distribution": "castform-env-arith",
    "version": "0.1.0",
    "content_sha256": "aa",
    "args": {"operands": 2},
}


@pytest.fixture
def url(tmp_path):
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.executescript(STORE_V1.read_text().replace("SERIAL", "INTEGER"))
    return f"sqlite:///{tmp_path}/runs.db"


def test_rollouts_of_version_1_get_the_pin_of_their_run(url, tmp_path):
    with RunStore.open(tmp_path, url=url) as store:
        digest = digest_pin(PIN)
        for run_id in ("old1", "old2"):
            run = store.get_run(run_id)
            assert (run.environment, run.pin, run.parent_id) == (PIN, digest, None)
            assert {rollout.pin for rollout in store.list_rollouts(run_id)} == {digest}
            [pin] = store.list_pins(run_id)
            assert (pin.digest, pin.pin, pin.details) == (digest, PIN, {})
        assert [rollout.rollout_id for rollout in store.list_rollouts("old1")] == ["g-0", "g-1"]
        assert store.list_rollouts("old1")[0].rewards == {"right": 0.5}
        assert store.read_scalars("old1")["eval"]["score"][0].value == 0.5
        assert store.get_run("bare").pin is None
        assert store.list_rollouts("bare")[0].pin is None
        assert store.list_pins("bare") == []


def test_a_migrated_store_is_one_like_any_other(url, tmp_path):
    RunStore.open(tmp_path, url=url).close()
    with RunStore.open(tmp_path, url=url) as store:
        rollout = Rollout(
            rollout_id="new-0",
            example_id="e",
            sample=0,
            split="eval",
            rewards={},
            score=None,
            termination_reason="x",
        )
        group = RolloutGroup(group_id="new", example_id="e", rollouts=(rollout,))
        store.add_rollouts("old1", [group], mode="eval", step=1)
        assert store.get_rollout("old1", "new-0").pin == digest_pin(PIN)
        store.set_environment("old1", {**PIN, "version": "0.2.0"})
        again = RolloutGroup(
            group_id="g9", example_id="e", rollouts=(Rollout(**{**_fields(rollout), "rollout_id": "g9-0"}),)
        )
        store.add_rollouts("old1", [again], mode="eval", step=2)
        assert [pin.pin["version"] for pin in store.list_pins("old1")] == ["0.1.0", "0.2.0"]
        made = store.create_run(kind="rescore", name="", config={}, environment=PIN, parent_id="old1")
        assert (made.parent_id, made.pin) == ("old1", digest_pin(PIN))
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        assert connection.execute("SELECT version FROM castform_schema").fetchall() == [(2,)]
        new = _columns(connection)
    RunStore.open(tmp_path / "fresh", url=f"sqlite:///{tmp_path}/fresh.db").close()
    with sqlite3.connect(tmp_path / "fresh.db") as connection:
        assert _columns(connection) == new


def _fields(rollout):
    return {name: getattr(rollout, name) for name in rollout.__slots__}


def _columns(connection):
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        table: sorted(row[1:4] for row in connection.execute(f"PRAGMA table_info({table})"))
        for table in tables
    }


def test_two_that_open_an_old_store_at_once_migrate_it_once(url, tmp_path):
    ready, faults = threading.Barrier(4), []

    def open_store():
        ready.wait()
        try:
            RunStore.open(tmp_path, url=url).close()
        except Exception as error:  # noqa: BLE001 - whatever it is fails the test
            faults.append(error)

    threads = [threading.Thread(target=open_store) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    with RunStore.open(tmp_path, url=url) as store:
        assert len(store.list_rollouts("old1")) == 2


def test_a_migration_that_fails_leaves_the_store_as_it_was(url, tmp_path):
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("ALTER TABLE rollouts ADD COLUMN pin TEXT")  # in the way of the last step
    for _ in range(2):
        with pytest.raises(Exception, match="duplicate column name: pin"):
            RunStore.open(tmp_path, url=url)
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        assert connection.execute("SELECT version FROM castform_schema").fetchall() == [(1,)]
        assert "pin" not in [row[1] for row in connection.execute("PRAGMA table_info(runs)")]
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'pins'").fetchall() == []


def test_a_version_before_the_first_is_refused(url, tmp_path):
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("UPDATE castform_schema SET version = 0")
    with pytest.raises(UsageError, match="version 0, this castform reads version 2") as caught:
        RunStore.open(tmp_path, url=url)
    assert "move the old store away" in caught.value.hint


def test_a_run_whose_environment_cannot_be_read_costs_the_others_nothing(url, tmp_path):
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("update runs set environment = '{half' where run_id = 'old1'")
    with RunStore.open(tmp_path, url=url) as store:
        assert store.get_run("old2").pin == digest_pin(PIN)
        assert store.list_pins("old1") == []
