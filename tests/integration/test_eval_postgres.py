"""The run store on PostgreSQL, where the server's programs are installed."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from castform.cli.main import main
from castform.errors import MissingError
from castform.rollouts import Rollout, RolloutGroup
from castform.runs import RunStore
from castform.scripted_endpoint import ScriptedEndpoint

sys.path.insert(0, str(Path(__file__).parent))
from test_eval_command import ENVIRONMENT, half_right

PROGRAMS = shutil.which("initdb"), shutil.which("pg_ctl"), shutil.which("psql")
pytestmark = pytest.mark.skipif(
    None in PROGRAMS, reason="PostgreSQL's initdb, pg_ctl and psql are not on the path"
)


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL server of our own on a socket in a temporary folder; gives the store's URL."""
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    user = None
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = pwd.getpwnam("nobody").pw_uid
        os.chown(folder, user, -1)

    def do(*words: str) -> None:
        subprocess.run(words, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

    initdb, pg_ctl, _ = PROGRAMS
    data = folder / "data"
    do(initdb, "-D", str(data), "-A", "trust", "-U", "castform")
    options = f"-k {folder} -c listen_addresses='' -p 5599"
    do(pg_ctl, "-D", str(data), "-o", options, "-w", "-l", str(folder / "log"), "start")
    yield f"postgresql://castform@/postgres?host={folder}&port=5599"
    do(pg_ctl, "-D", str(data), "-m", "immediate", "stop")
    shutil.rmtree(folder)


@pytest.fixture
def store(server, tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_STORE_URL", server)
    with RunStore.open(tmp_path) as store:
        yield store


def make_group(name: str) -> RolloutGroup:
    rollout = Rollout(
        rollout_id=f"{name}-0",
        example_id="nul \x00 and half a pair \ud83d",
        sample=0,
        split="train",
        rewards={"correct": 1.0},
        score=1.0,
        termination_reason="finished",
        messages=({"role": "user", "content": "nul \x00 \ud83d é"},),
        seed=2**63 - 1,
    )
    return RolloutGroup(group_id=name, example_id=rollout.example_id, rollouts=(rollout,))


def test_a_run_goes_in_and_comes_out(store):
    run = store.create_run(kind="train", name="é", config={"a": float("nan")})
    with store.running(run.run_id):
        for step in range(3):
            store.add_scalars(run.run_id, step, {"loss": 1.0 / (step + 1), "kl": float("inf")})
            store.add_scalars(run.run_id, step, {"loss": 0.5})
            store.add_rollouts(run.run_id, [make_group(f"g{step}")], mode="train", step=step)
            store.add_event(run.run_id, "step", step=step)
            store.add_eval(run.run_id, "step", step=step, result={"x": 1})
    assert store.get_run(run.run_id).status == "finished"
    assert [p.value for p in store.read_scalars(run.run_id)["train"]["loss"]] == [0.5, 0.5, 0.5]
    rollout = store.get_rollout(run.run_id, "g1")
    assert rollout.messages == [{"role": "user", "content": "nul \x00 \ud83d é"}]
    assert rollout.seed == 2**63 - 1
    assert store.count_rollouts(run.run_id) == {"train": {"scored": 3, "unscored": 0}}
    gone = store.truncate_after_step(run.run_id, 0)
    assert gone == {"events": 2, "scalars": 4, "rollouts": 2, "evals": 2}
    assert [e.label for e in store.list_evals(run.run_id)] == ["step"]


def test_a_store_of_version_1_is_migrated_where_it_is(server, tmp_path, monkeypatch):
    old = Path(__file__).parents[1] / "golden" / "store_v1.sql"
    subprocess.run(["psql", server, "-qc", "CREATE DATABASE old"], check=True, stdout=subprocess.DEVNULL)
    place = server.replace("/postgres?", "/old?")
    words = ["psql", place, "-q", "-v", "ON_ERROR_STOP=1", "-c", old.read_text()]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    monkeypatch.setenv("CASTFORM_STORE_URL", place)
    for _ in range(2):
        with RunStore.open(tmp_path) as store:
            [pin] = store.list_pins("old1")
            assert pin.pin["id"] == "arith/add"
            assert [rollout.pin for rollout in store.list_rollouts("old1")] == [pin.digest] * 2
            assert store.list_rollouts("bare")[0].pin is None
    with RunStore.open(tmp_path) as store:
        store.add_rollouts("old1", [make_group("new")], mode="eval", step=1)
        assert store.get_rollout("old1", "new-0").pin == pin.digest
        made = store.create_run(
            kind="rescore", name="", config={}, environment={"id": "nul \x00"}, parent_id="old1"
        )
        assert (made.parent_id, store.get_pin(made.pin).pin) == ("old1", {"id": "nul \x00"})


def test_an_evaluation_is_scored_again_and_saved(server, tmp_path, monkeypatch, capsys):
    (tmp_path / "sums.py").write_text(ENVIRONMENT)
    for name, value in (("CASTFORM_STORE_URL", server), ("CASTFORM_HOME", str(tmp_path / "home"))):
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    endpoint = ScriptedEndpoint(half_right)
    grant = endpoint.add_session("all")
    monkeypatch.setenv("THE_KEY", grant.api_key)
    words = ["--base-url", grant.base_url, "--api-key-env", "THE_KEY", "--examples", "3", "--samples", "2"]
    try:
        assert main(["eval", "sums.py", "-m", "scripted", *words, "--json"]) == 0
    finally:
        endpoint.close()
    run_id = json.loads(capsys.readouterr().out)["run_id"]
    (tmp_path / "sums.py").write_text(ENVIRONMENT.replace("0.5 + self.bonus", "1.5 + self.bonus"))
    assert main(["rescore", run_id, "--save", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["counts"]["changed"] == 6
    assert data["components"][0]["difference"] == 1.0
    assert data["environment_changes"] == ["files: changed sums.py"]
    with RunStore.open(tmp_path) as store:
        saved = store.get_run(data["saved_run_id"])
        assert (saved.kind, saved.parent_id, saved.status) == ("rescore", run_id, "finished")
        before, after = (
            {r.rollout_id: r.rewards["format"] for r in store.list_rollouts(run)}
            for run in (run_id, saved.run_id)
        )
    assert set(before.values()) == {0.5}
    assert after == dict.fromkeys(before, 1.5)


def test_two_processes_make_the_tables_and_write_at_once(server, tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_STORE_URL", server.replace("/postgres?", "/fresh?"))
    subprocess.run(["psql", server, "-qc", "CREATE DATABASE fresh"], check=True, stdout=subprocess.DEVNULL)
    code = """
import pathlib, sys
from castform.runs import RunStore
with RunStore.open(pathlib.Path(sys.argv[1])) as store:
    run = store.create_run(kind="train", name="", config={}, run_id=sys.argv[2])
    with store.running(run.run_id):
        for step in range(20):
            store.add_scalars(run.run_id, step, {"a": step, "b": step})
"""
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in ("p1", "p2")]
    assert [child.wait(60) for child in children] == [0, 0]
    with RunStore.open(tmp_path) as store:
        for name in ("p1", "p2"):
            assert store.get_run(name).status == "finished"
            assert len(store.read_scalars(name)["train"]["b"]) == 20


def test_a_server_that_does_not_answer_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_STORE_URL", "postgresql://me:hunter2@127.0.0.1:1/none")
    with pytest.raises(MissingError, match="no database server answers") as caught:
        RunStore.open(tmp_path)
    assert "hunter2" not in str(caught.value)
