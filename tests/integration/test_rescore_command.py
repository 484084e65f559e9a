"""`castform rescore` as a person types it, on runs of every kind; and what resume says of a changed plugin."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest

from castform.call_log import read_calls
from castform.cli.main import main
from castform.runs import RunStore
from castform.scripted_endpoint import ScriptedEndpoint
from castform.testing import Fault, Reply

sys.path.insert(0, str(Path(__file__).parent))
from test_eval_command import ENVIRONMENT, castform, half_right, model_flags, start
from train_runs import make_config

HARSHER = ENVIRONMENT.replace("0.5 + self.bonus", "0.25 + self.bonus")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "sums.py").write_text(ENVIRONMENT)
    return tmp_path


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with one evaluation in it that tests copy, and the run's id."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "sums.py").write_text(ENVIRONMENT)
    return folder, measure(folder, "eval", "--samples", "4", "--examples", "4")


def measure(place: Path, command: str, *words: str, script=half_right) -> str:
    """Run eval or validate against a server of its own, which is gone afterwards; return the run's id."""
    endpoint = ScriptedEndpoint(script)
    grant = endpoint.add_session("all")
    try:
        code, out, err = castform(
            place, command, "sums.py", *model_flags(grant), *words, "--json", THE_KEY=grant.api_key
        )
    finally:
        endpoint.close()
    assert code == 0, err
    return json.loads(out)["run_id"]


def rescore(place: Path, *words: str) -> dict:
    code, out, err = castform(place, "rescore", *words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture
def run_id(place, measured):
    folder, run_id = measured
    shutil.copytree(folder / "home", place / "home")
    return run_id


def test_an_unchanged_environment_scores_the_same(place, run_id):
    code, out, err = castform(place, "rescore", run_id[:6])
    assert code == 0, err
    assert "16 rollouts scored again: 16 unchanged, 0 changed" in out
    assert "the environment is the same" in out
    assert "scored by  sums.py:TaggedSums (a file, content " in out
    data = rescore(place, run_id)
    assert data["rescored_by"] == data["scored_by"][0]
    assert (data["changed"], data["environment_changes"], data["saved_run_id"]) == ([], [], None)


def test_nothing_is_scored_where_the_environment_cannot_run(place, run_id):
    (place / "sums.py").write_text(
        ENVIRONMENT + "\n    async def check_ready(self):\n        raise OSError('no engine at port 9')\n"
    )
    code, out, err = castform(place, "rescore", run_id, "--save")
    assert (code, out) == (3, "") and "no engine at port 9" in err
    _, out, _ = castform(place, "runs", "list", "--json")
    assert [run["run_id"] for run in json.loads(out)] == [run_id]


def test_the_calls_to_a_server_are_kept(place, run_id):
    log = place / "home" / "runs" / run_id / "calls" / "gateway.jsonl"
    calls = list(read_calls(log))
    _, out, _ = castform(place, "runs", "rollouts", run_id, "--json")
    assert sorted(call.session_id for call in calls) == sorted(
        row["rollout_id"] for row in json.loads(out)["rollouts"]
    )
    assert {call.finish_reason for call in calls} == {"stop"}


def test_settings_of_a_newer_castform_are_one_clear_error(place, run_id, monkeypatch, capsys):
    monkeypatch.setenv("CASTFORM_HOME", str(place / "home"))
    monkeypatch.delenv("CASTFORM_STORE_URL", raising=False)
    with RunStore.open(place / "home") as store:
        store.set_config(run_id, {"run": {"telepathy": True}})
    assert main(["rescore", run_id]) == 2
    assert "are not those of this castform" in capsys.readouterr().err


def test_a_changed_reward_shows_its_exact_differences(place, run_id):
    (place / "sums.py").write_text(HARSHER)
    data = rescore(place, run_id)
    assert data["counts"] == {
        "rescored": 16,
        "unchanged": 0,
        "changed": 16,
        "newly_scored": 0,
        "no_longer_scored": 0,
        "diverged": 0,
        "skipped": 0,
    }
    by_name = {found["name"]: found for found in data["components"]}
    assert {name: found["difference"] for name, found in by_name.items()} == {
        "score": -0.25,
        "correct": 0.0,
        "format": -0.25,
    }
    assert (by_name["format"]["before"], by_name["format"]["after"]) == (0.5, 0.25)
    assert (by_name["format"]["low"], by_name["format"]["high"]) == (-0.25, -0.25)
    assert (by_name["format"]["changed"], by_name["correct"]["changed"]) == (16, 0)
    assert {tuple(found["changes"]["format"].values()) for found in data["changed"]} == {(0.5, 0.25)}
    assert [found["difference"] for found in data["examples"]] == [-0.25] * 4
    assert data["environment_changes"] == ["files: changed sums.py"]
    assert data["rescored_by"]["datasets"] == data["scored_by"][0]["datasets"]
    assert data["rescored_by"]["content_sha256"] != data["scored_by"][0]["content_sha256"]

    code, out, _ = castform(place, "rescore", run_id)
    assert code == 0
    assert "16 rollouts scored again: 0 unchanged, 16 changed" in out
    assert "files: changed sums.py" in out
    assert [line.split() for line in out.splitlines() if line.startswith("format")] == [
        ["format", "0.500", "0.250", "-0.250", "-0.250", "to", "-0.250", "16", "of", "16"]
    ]
    assert len([line for line in out.splitlines() if line.startswith("eval-10")]) == 4
    _, out, _ = castform(place, "runs", "list", "--json")
    assert [run["run_id"] for run in json.loads(out)] == [run_id], "nothing is stored unless asked"


def test_a_saved_rescoring_is_a_run_of_its_own(place, run_id):
    _, before, _ = castform(place, "runs", "rollouts", run_id, "--json")
    data = rescore(place, run_id, "-a", "bonus=0.5", "--save")
    assert data["environment_changes"] == ["argument bonus: not there -> 0.5"]
    saved = data["saved_run_id"]
    _, out, _ = castform(place, "runs", "status", saved, "--json")
    status = json.loads(out)
    assert (status["kind"], status["status"], status["parent_id"]) == ("rescore", "finished", run_id)
    assert status["rollouts"] == {"eval": {"scored": 16, "unscored": 0}}
    assert status["score"]["difference"] == 0.5
    assert list(status["pins"]) == [data["rescored_by"]["digest"]]
    assert status["config"]["environment"]["args"] == {"bonus": 0.5}
    _, out, _ = castform(place, "runs", "status", saved)
    assert f"made from    {run_id}" in out
    assert "16 of 16 rollouts changed" in out
    _, after, _ = castform(place, "runs", "rollouts", run_id, "--json")
    assert after == before
    _, out, _ = castform(place, "runs", "rollouts", saved, "--json")
    rows = json.loads(out)
    assert {row["rewards"]["format"] for row in rows["rollouts"]} == {1.0}
    assert {row["pin"] for row in rows["rollouts"]} == set(rows["pins"]) == {data["rescored_by"]["digest"]}
    again = rescore(place, saved)
    assert (again["counts"]["unchanged"], again["environment_changes"]) == (16, [])
    _, out, _ = castform(place, "runs", "list", "--kind", "rescore", "--json")
    assert [run["run_id"] for run in json.loads(out)] == [saved]


def test_another_environment_may_score_and_takes_its_own_arguments(place):
    run_id = measure(
        place, "eval", "--samples", "2", "--examples", "4", "--set", "environment.args.bonus=0.5"
    )
    (place / "other.py").write_text(ENVIRONMENT.replace("TaggedSums", "Other"))
    code, out, err = castform(place, "rescore", run_id, "--env", "other.py", "--json")
    assert code == 0, err
    assert "takes no arguments over" in err
    data = json.loads(out)
    assert data["environment_changes"] == [
        "environment sums.py:TaggedSums -> other.py:Other",
        "files: new other.py; gone sums.py",
        "argument bonus: 0.5 -> not there",
    ]
    assert {found["name"]: found["difference"] for found in data["components"]}["format"] == -0.5
    same = rescore(place, run_id, "--env", "other.py", "-a", "bonus=0.5")
    assert same["counts"]["changed"] == 0


def test_an_example_that_is_gone_is_named_and_one_that_moved_is_found(place, run_id):
    (place / "sums.py").write_text(ENVIRONMENT.replace("else 100", "else 102"))
    data = rescore(place, run_id)
    assert data["skipped"] == {"its example is missing": 8}
    assert data["missing_examples"] == ["eval-100", "eval-101"]
    assert data["counts"]["rescored"] == 8
    assert data["environment_changes"] == [
        "files: changed sums.py",
        "eval dataset: 4 examples then, 4 now; the first that differs is 'eval-102'",
    ]
    (place / "sums.py").write_text(ENVIRONMENT.replace("else 100", "else 97"))
    data = rescore(place, run_id)
    assert (data["missing_examples"], data["counts"]["rescored"]) == ([], 16)
    (place / "sums.py").write_text(ENVIRONMENT.replace("else 100", "else 500"))
    code, out, err = castform(place, "rescore", run_id)
    assert code == 1
    assert "missing examples: eval-100, eval-101, eval-102, eval-103" in out
    assert "none of 16 rollouts could be scored again (its example is missing 16)" in err


def test_failures_are_left_out_with_their_reason(place):
    def script(request):
        return Fault(status=400) if "100" in request.messages[-1]["content"] else half_right(request)

    run_id = measure(place, "eval", "--samples", "2", "--examples", "3", script=script)
    data = rescore(place, run_id)
    assert data["skipped"] == {"it ended by model_error": 2}
    assert data["counts"]["unchanged"] == 4
    code, out, _ = castform(place, "rescore", run_id)
    assert (code, "skipped 2: it ended by model_error" in out) == (0, True)


def test_a_validation_is_scored_again_too(place):
    run_id = measure(place, "validate", "--examples", "4")
    data = rescore(place, run_id)
    assert (data["counts"]["unchanged"], data["environment_changes"]) == (16, [])
    assert list(data["scored_by"][0]["datasets"]) == ["train"]
    _, out, _ = castform(place, "runs", "status", run_id)
    assert "score        1." in out


def test_the_score_of_an_evaluation_is_in_its_status(place, run_id):
    _, out, _ = castform(place, "runs", "status", run_id)
    assert "score        1.250 (95 % interval" in out
    assert "4 examples, 16 rollouts)" in out
    _, out, _ = castform(place, "runs", "status", run_id, "--json")
    assert json.loads(out)["score"]["mean"] == 1.25


def test_a_rollout_names_the_environment_that_scored_it(place, run_id):
    _, out, _ = castform(place, "runs", "rollout", run_id, "eval-0-0")
    assert "environment  sums.py:TaggedSums (a file, content " in out
    _, out, _ = castform(place, "runs", "rollout", run_id, "eval-0-0", "--json")
    shown = json.loads(out)
    _, out, _ = castform(place, "runs", "rollouts", run_id, "--json")
    assert shown["environment"] == json.loads(out)["pins"][shown["pin"]]
    assert shown["environment"]["id"] == "sums.py:TaggedSums"


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (["nosuchrun"], 2, "no run 'nosuchrun'", "runs list"),
        (["RUN", "--mode", "train"], 2, "has no such rollouts", "it has 16 of mode eval"),
        (["RUN", "--step", "4"], 2, "has no such rollouts", "it has 16 of mode eval"),
        (["RUN", "--limit", "0"], 2, "--limit is 0", ""),
        (["RUN", "--env", "gone.py"], 2, "gone.py does not exist", "--env names the file"),
        (["RUN", "-a", "bonus"], 2, "is not NAME=VALUE", ""),
        (["RUN", "-a", "bonsu=1"], 2, "bonsu", ""),
        ([], 2, "RUN", ""),
    ],
)
def test_a_wrong_command_line_is_one_clear_error(
    place, run_id, words, code, message, hint, monkeypatch, capsys
):
    monkeypatch.setenv("CASTFORM_HOME", str(place / "home"))
    monkeypatch.delenv("CASTFORM_STORE_URL", raising=False)
    monkeypatch.chdir(place)
    got = main(["rescore", *(run_id if word == "RUN" else word for word in words), "--save"])
    out, err = capsys.readouterr()
    assert (got, out) == (code, ""), err
    assert err.startswith("error: ")
    assert message in err
    assert hint in err
    assert [path.name for path in (place / "home" / "runs").iterdir()] == [run_id]


def test_a_limit_takes_whole_groups(place, run_id):
    data = rescore(place, run_id, "--limit", "1")
    assert data["counts"]["rescored"] == 4
    assert [found["example_id"] for found in data["examples"]] == ["eval-100"]


@pytest.mark.parametrize("command", ["eval", "validate"])
def test_sigterm_ends_a_run_as_stopped_and_keeps_what_was_scored(place, command):
    begun = threading.Event()
    seen: list[str] = []

    def script(request):
        seen.append(request.messages[-1]["content"])
        if len(set(seen)) < 3:
            return "<answer>1</answer>"
        begun.set()
        return Reply(content="hm", latency_seconds=60)

    endpoint = ScriptedEndpoint(script)
    grant = endpoint.add_session("all")
    words = ["--examples", "9", "--samples", "2", "--concurrency", "1"]
    process = start(place, command, "sums.py", *model_flags(grant), *words, THE_KEY=grant.api_key)
    assert begun.wait(60)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    endpoint.close()
    assert process.returncode == 130
    assert err.strip().endswith("interrupted")
    with RunStore.open(place / "home", url=f"sqlite:///{place}/home/runs.db") as store:
        [run] = store.list_runs()
        assert run.status == "stopped"
        assert store.count_rollouts(run.run_id) == {command: {"scored": 4, "unscored": 0}}
    assert rescore(place, run.run_id)["counts"]["unchanged"] == 4


# -- a plugin and a training run --------------------------------------------------------------------

PLUGIN = """
from castform.plugins import EnvironmentSpec, hookimpl

@hookimpl
def register_environments():
    return EnvironmentSpec(name="default", summary="Short words", factory="castform_env_short.env:Short")
"""


def install_plugin(folder: Path, source: str, version: str) -> None:
    """Lay a plugin out as pip does."""
    package = folder / "castform_env_short"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "plugin.py").write_text(PLUGIN)
    (package / "env.py").write_text(source)
    for old in folder.glob("*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info = folder / f"castform_env_short-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: castform-env-short\nVersion: {version}\nSummary: s\n"
    )
    (info / "entry_points.txt").write_text("[castform]\nshort = castform_env_short.plugin\n")


@pytest.mark.slow
def test_a_changed_byte_of_a_plugin_stops_resume_and_rescore_shows_what_it_does(tmp_path):
    from train_runs import ENVIRONMENT as SHORT

    from castform_trainer.testing import make_tiny_model

    site, model = tmp_path / "site", make_tiny_model(tmp_path / "model")
    install_plugin(site, SHORT, "1.0")
    config = make_config(Path("short"), model, run={"steps": 1}).model_dump(mode="json", exclude_none=True)
    lines = [
        f"{section}.{name}={json.dumps(value)}"
        for section in ("model", "run", "sampling", "rl", "lora", "eval", "engine", "checkpoint", "optimizer")
        for name, value in config[section].items()
        if value not in ({}, [])
    ]
    words = [word for line in lines for word in ("--set", line)]
    found = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    code, out, err = castform(tmp_path, "train", "short", *words, "--json", **found)
    assert code == 0, err
    run_id = json.loads(out)["run_id"]

    code, out, err = castform(tmp_path, "rescore", run_id, "--json", **found)
    assert code == 0, err
    same = json.loads(out)
    assert (same["counts"]["changed"], same["counts"]["diverged"], same["environment_changes"]) == (0, 0, [])
    assert sorted(mode["mode"] for mode in same["modes"]) == ["eval", "train"]
    with RunStore.open(tmp_path / "home", url=f"sqlite:///{tmp_path}/home/runs.db") as store:
        stored = store.list_rollouts(run_id)
        assert same["counts"]["rescored"] == len([r for r in stored if r.score is not None])
        assert {r.pin for r in stored} == {pin.digest for pin in store.list_pins(run_id)}

    install_plugin(site, SHORT.replace("/ 12", "/ 24"), "1.1")
    code, out, err = castform(tmp_path, "train", "--resume", run_id, "--steps", "2", **found)
    assert (code, out) == (2, "")
    assert "short/default is not the one that run" in err
    assert "version 1.0 -> 1.1" in err
    assert "files: changed env.py" in err
    assert "pip install castform-env-short==1.0" in err
    assert f"castform rescore {run_id}" in err

    code, out, err = castform(tmp_path, "rescore", run_id, "--mode", "train", "--json", **found)
    assert code == 0, err
    data = json.loads(out)
    assert data["environment_changes"] == ["version 1.0 -> 1.1", "files: changed env.py"]
    assert [pin["version"] for pin in (*data["scored_by"], data["rescored_by"])] == ["1.0", "1.1"]
    by_name = {part["name"]: part for part in data["components"]}
    low = by_name["low"]
    assert low["after"] == pytest.approx(low["before"] / 2)
    assert by_name["vowels"]["difference"] == 0.0
    with RunStore.open(tmp_path / "home", url=f"sqlite:///{tmp_path}/home/runs.db") as store:
        rewards = {r.rollout_id: r.rewards["low"] for r in store.list_rollouts(run_id, mode="train")}
    assert low["changed"] == sum(value > 0 for value in rewards.values()) > 0
    for item in data["changed"]:
        assert item["changes"]["low"] == {
            "before": rewards[item["rollout_id"]],
            "after": pytest.approx(rewards[item["rollout_id"]] / 2),
        }


def test_a_close_that_fails_costs_no_result(place, run_id):
    broken = "    async def aclose(self):\n        raise SystemExit(3)\n\n    async def compute_reward"
    (place / "sums.py").write_text(ENVIRONMENT.replace("    async def compute_reward", broken))
    code, out, err = castform(place, "rescore", run_id, "--json")
    assert code == 0 and json.loads(out)["counts"]["unchanged"] == 16
    assert "the environment's aclose failed: SystemExit: 3" in err
