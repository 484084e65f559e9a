"""`castform eval`, `validate` and `runs` as a person types them: processes, a one-file environment, a server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from castform.runs import RunStore
from castform.scripted_endpoint import ScriptedEndpoint
from castform.testing import Fault, Reply

ENVIRONMENT = '''
"""Sums with an answer tag: one file, nothing to package."""
from pathlib import Path

from benchmax.envs import BaseEnv, Dataset, Example, JsonlDataset


class TaggedSums(BaseEnv):
    """Adds a number to itself."""

    max_turns = 1

    def __init__(self, bonus: float = 0.0, file: str = "", loose: bool = False):
        super().__init__()
        self.bonus, self.file, self.loose = bonus, file, loose

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        if self.file:
            return JsonlDataset(
                Path(base_dir) / self.file,
                row_to_example=lambda row: Example(row["id"], {"prompt_messages": row["messages"]}),
                max_examples=max_examples,
            )
        first = 0 if split == "train" else 100
        return Dataset(
            [
                Example(
                    f"{split}-{n}",
                    {
                        "prompt_messages": [{"role": "user", "content": f"What is {n} + {n}?"}],
                        "answer": str(2 * n),
                    },
                )
                for n in range(first, first + (max_examples or 24))
            ]
        )

    async def compute_reward(self, rollout):
        text = rollout.messages[-1]["content"] or ""
        right = f"<answer>{rollout.example_args['answer']}</answer>"
        return {
            "correct": float(text == right or (self.loose and len(text) > 1000)),
            "format": (1.0 if "<answer>" in text else 0.0) * (0.5 + self.bonus),
        }
'''


def half_right(request):
    """Right for odd numbers, and for the first two of four samples of even ones."""
    number = int(request.messages[-1]["content"].split()[2])
    return f"<answer>{2 * number + (0 if number % 2 or request.index % 2 else 1)}</answer>"


@pytest.fixture
def serve():
    endpoints = []

    def start(script):
        endpoint = ScriptedEndpoint(script)
        endpoints.append(endpoint)
        return endpoint, endpoint.add_session("all")

    yield start
    for endpoint in endpoints:
        endpoint.close()


@pytest.fixture
def place(tmp_path):
    (tmp_path / "sums.py").write_text(ENVIRONMENT)
    return tmp_path


def start(place: Path, *words: str, **variables: str) -> subprocess.Popen:
    environment = {**os.environ, "CASTFORM_HOME": str(place / "home"), **variables}
    environment.pop("CASTFORM_STORE_URL", None)
    return subprocess.Popen(
        [sys.executable, "-m", "castform", *words],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def castform(place: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    process = start(place, *words, **variables)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def model_flags(grant) -> list[str]:
    return ["-m", "scripted", "--base-url", grant.base_url, "--api-key-env", "THE_KEY"]


def test_an_evaluation_adds_up_and_can_be_read_back(place, serve):
    endpoint, grant = serve(half_right)
    code, out, err = castform(
        place,
        "eval",
        "sums.py",
        *model_flags(grant),
        "--samples",
        "4",
        "--examples",
        "10",
        "--temperature",
        "0.5",
        "--max-new-tokens",
        "20",
        "--json",
        THE_KEY=grant.api_key,
    )
    assert code == 0, err
    data = json.loads(out)
    assert data["counts"] == {"examples": 10, "rollouts": 40, "scored": 40, "failed": 0}
    assert sum(data["termination_reasons"].values()) == sum(data["finish_reasons"].values()) == 40
    assert data["components"]["format"]["mean"] == 0.5
    assert 0 < data["components"]["correct"]["mean"] < 1
    assert data["score"]["mean"] == pytest.approx(
        data["components"]["correct"]["mean"] + data["components"]["format"]["mean"]
    )
    assert data["lengths"]["completion_tokens"]["mean"] == 1.0
    assert data["environment"]["id"] == "sums.py:TaggedSums"
    assert {(b["temperature"], b["max_tokens"]) for b in endpoint.requests("all")} == {(0.5, 20)}
    run_id = data["run_id"]

    code, out, _ = castform(place, "runs", "list", "--json")
    [run] = json.loads(out)
    assert (run["run_id"], run["kind"], run["status"]) == (run_id, "eval", "finished")

    code, out, _ = castform(place, "runs", "rollouts", run_id[:6], "--json", "--limit", "100")
    rollouts = json.loads(out)["rollouts"]
    assert len(rollouts) == 40
    assert len({r["rollout_id"] for r in rollouts}) == 40
    by_id = {r["rollout_id"]: r for example in data["per_example"] for r in example["rollouts"]}
    assert {r["rollout_id"]: r["rewards"] for r in rollouts} == {k: r["rewards"] for k, r in by_id.items()}

    code, out, _ = castform(place, "runs", "rollout", run_id, rollouts[0]["rollout_id"])
    assert code == 0
    assert "What is 10" in out
    assert "<answer>" in out
    assert "correct" in out
    code, out, _ = castform(place, "runs", "scalars", run_id, "--json")
    assert json.loads(out)["modes"]["eval"]["score"][0]["value"] == pytest.approx(data["score"]["mean"])
    for wrong in (["--name", "scor"], ["--mode", "train"]):
        code, out, err = castform(place, "runs", "scalars", run_id, *wrong)
        assert code == 2 and out == "" and wrong[1] in err
    code, out, _ = castform(place, "runs", "status", run_id)
    assert "finished" in out
    assert "eval: 40 scored, 0 failed" in out


def test_the_tables_say_the_same_as_the_json(place, serve):
    _, grant = serve(half_right)
    code, out, err = castform(
        place,
        "eval",
        "sums.py",
        *model_flags(grant),
        "--samples",
        "2",
        "--examples",
        "6",
        THE_KEY=grant.api_key,
    )
    assert code == 0, err
    assert "6 examples x 2 samples" in out
    assert "12 rollouts scored, 0 failed" in out
    assert "pass@1" in out
    assert "pass@2" in out
    assert "replies ended  stop 12" in out


def test_failures_are_counted_apart_from_scores(place, serve):
    def script(request):
        number = int(request.messages[-1]["content"].split()[2])
        if number < 104:
            return Fault(status=400, message="no such luck")
        return Reply(content=f"<answer>{2 * number}</answer>", finish_reason="length")

    _, grant = serve(script)
    code, out, err = castform(
        place, "eval", "sums.py", *model_flags(grant), "--examples", "10", "--json", THE_KEY=grant.api_key
    )
    assert code == 0, err
    data = json.loads(out)
    assert data["counts"] == {"examples": 10, "rollouts": 10, "scored": 6, "failed": 4}
    assert data["failures"] == {"model_error": 4}
    assert data["components"]["correct"]["mean"] == 1.0
    assert data["termination_reasons"] == {"output_exceeded": 6, "model_error": 4}


def test_a_server_that_never_answers_right_is_a_failed_run(place, serve):
    _, grant = serve(lambda request: Fault(status=401, message="wrong key"))
    code, out, err = castform(
        place, "eval", "sums.py", "-m", "m", "--base-url", grant.base_url, "--examples", "3"
    )
    assert code == 1
    assert out == ""
    assert "none of 3 rollouts was scored (model_error 3)" in err
    _, out, _ = castform(place, "runs", "list", "--json")
    [run] = json.loads(out)
    assert run["status"] == "failed"
    assert "none of 3 rollouts" in run["error"]


def test_validate_passes_a_sound_environment(place, serve):
    _, grant = serve(half_right)
    code, out, err = castform(
        place, "validate", "sums.py", *model_flags(grant), "--examples", "8", THE_KEY=grant.api_key
    )
    assert code == 0, out + err
    assert "can be trained on with scripted" in out
    assert "form of the right answer: <answer> tags" in out
    assert "scored again: 32 transcripts, 0 differ" in out
    _, out, _ = castform(place, "runs", "list", "--json")
    assert [(r["kind"], r["status"]) for r in json.loads(out)] == [("validate", "finished")]


def test_validate_exits_with_1_and_names_the_probe_that_is_paid(place, serve):
    _, grant = serve(half_right)
    code, out, _ = castform(
        place,
        "validate",
        "sums.py",
        *model_flags(grant),
        "--set",
        "environment.args.loose=true",
        "--set",
        "environment.weights.format=0",
        "--examples",
        "4",
        "--json",
        THE_KEY=grant.api_key,
    )
    assert code == 1
    data = json.loads(out)
    assert data["trainable"] is False
    assert [f["code"] for f in data["findings"] if f["level"] == "fault"] == [
        "reward_pays_junk",
        "reward_pays_flood",
    ]


def test_validate_without_a_model_says_what_it_did_not_check(place):
    code, out, err = castform(place, "validate", "sums.py", "--examples", "4")
    assert code == 0, err
    assert "not checked: no model was asked" in out
    assert "whether it can be trained on is open" in out
    assert not (place / "home" / "runs.db").exists()


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (["eval", "sums.py"], 2, "-m/--model", ""),
        (
            ["eval", "nosuch.py", "-m", "m", "--base-url", "http://127.0.0.1:9/v1"],
            2,
            "nosuch.py does not exist",
            "",
        ),
        (
            ["eval", "sums.py", "-m", "m", "--base-url", "localhost:80"],
            2,
            "is not the URL of a server",
            "http://",
        ),
        (
            ["eval", "sums.py", "-m", "m", "--base-url", "http://x/v1", "--api-key-env", "UNSET_KEY"],
            2,
            "UNSET_KEY",
            "",
        ),
        (["eval", "sums.py", "-m", "m", "--api-key-env", "PATH"], 2, "only for a server", ""),
        (["eval", "sums.py", "-m", "m", "--adapter", "."], 2, "no adapter_config.json", ""),
        (
            [
                "eval",
                "sums.py",
                "-m",
                "m",
                "--set",
                "eval.sample=3",
                "--set",
                "rl.x=1",
                "--set",
                "run.seed=-1",
            ],
            2,
            "3 wrong settings",
            "",
        ),
        (["validate", "sums.py", "--base-url", "http://127.0.0.1:9/v1"], 2, "needs -m", ""),
        (["validate", "sums.py", "--examples", "0"], 2, "not at least 1", ""),
        (["runs", "status", "abc"], 2, "no run 'abc'", "runs list"),
        (["runs"], 2, "", ""),
    ],
)
def test_a_wrong_command_line_is_one_clear_error(place, words, code, message, hint):
    got, out, err = castform(place, *words)
    assert (got, out) == (code, ""), err
    assert err.startswith("error: ")
    assert message in err
    assert hint in err
    assert "Traceback" not in err
    assert not list((place / "home").glob("runs/*"))


def test_a_dataset_with_a_broken_line_names_file_and_line(place):
    (place / "rows.jsonl").write_text('{"id": "a", "messages": []}\n{"id": "b", oops\n')
    words = ["-m", "m", "--base-url", "http://127.0.0.1:9/v1", "--set", 'environment.args.file="rows.jsonl"']
    code, out, err = castform(place, "eval", "sums.py", *words)
    assert (code, out) == (2, "")
    assert "rows.jsonl:2" in err
    (place / "rows.jsonl").unlink()
    code, out, err = castform(place, "eval", "sums.py", *words)
    assert (code, out) == (2, "")
    assert "rows.jsonl" in err
    assert "does not exist" in err
    assert not list((place / "home").glob("runs/*"))


def test_a_model_that_is_not_there_leaves_nothing_behind(place):
    code, out, err = castform(place, "eval", "sums.py", "-m", "no-such-model-anywhere", "--examples", "2")
    assert code in (2, 3), err
    assert out == ""
    assert err.startswith("error: ")
    assert not list((place / "home").glob("runs/*"))


def test_a_run_stops_when_it_is_asked_to(place, serve):
    begun, asked = threading.Event(), threading.Event()

    def script(request):
        begun.set()
        assert asked.wait(240)  # the run gets no further before it is asked
        return Reply(content="hm", latency_seconds=0.3)

    _, grant = serve(script)
    process = start(
        place,
        "eval",
        "sums.py",
        *model_flags(grant),
        "--examples",
        "100",
        "--concurrency",
        "1",
        THE_KEY=grant.api_key,
    )
    assert begun.wait(60)
    with RunStore.open(place / "home", url=f"sqlite:///{place}/home/runs.db") as store:
        [run] = store.list_runs()
        assert run.status == "running"
        code, out, _ = castform(place, "runs", "stop", run.run_id[:5])
        assert (code, "was asked to stop" in out) == (0, True)
        asked.set()
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (1, "")
        assert "was stopped on request" in err
        assert store.get_run(run.run_id).status == "stopped"
    _, out, _ = castform(place, "runs", "stop", run.run_id)
    assert "is not running: stopped" in out


def test_an_interrupt_ends_the_run_as_stopped(place, serve):
    begun = threading.Event()

    def script(request):
        begun.set()
        return Reply(content="hm", latency_seconds=30)

    _, grant = serve(script)
    process = start(place, "eval", "sums.py", *model_flags(grant), THE_KEY=grant.api_key)
    assert begun.wait(60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip().endswith("interrupted")
    _, out, _ = castform(place, "runs", "list", "--json")
    assert [r["status"] for r in json.loads(out)] == ["stopped"]


def test_a_transcript_cannot_steer_the_terminal(place, serve):
    _, grant = serve(lambda request: "\x1b[2J\x1b]0;pwned\x07 evil \u202e text\r\nsecond line")
    code, out, err = castform(
        place, "eval", "sums.py", *model_flags(grant), "--examples", "1", "--json", THE_KEY=grant.api_key
    )
    assert code == 0, err
    data = json.loads(out)
    rollout_id = data["per_example"][0]["rollouts"][0]["rollout_id"]
    _, out, _ = castform(place, "runs", "rollout", data["run_id"], rollout_id)
    assert "\x1b" not in out
    assert "\\x1b[2J" in out
    assert "\\u202e" in out
    assert "\r" not in out
    assert "\nsecond line" in out


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_home_that_cannot_be_written_is_one_clear_error(place, serve):
    _, grant = serve(half_right)
    (place / "home").write_text("a file, not a folder")
    code, out, err = castform(
        place, "eval", "sums.py", *model_flags(grant), "--examples", "1", THE_KEY=grant.api_key
    )
    assert (code, out) == (2, "")
    assert "cannot make the folder" in err
    assert "CASTFORM_HOME" in err


def test_a_disk_that_fills_up_ends_the_run_with_one_clear_error(place, serve):
    _, grant = serve(lambda request: "x" * 20000)
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "from castform.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "eval", "sums.py", *model_flags(grant), "--examples", "60"],
        cwd=place,
        env={**os.environ, "CASTFORM_HOME": str(place / "home"), "THE_KEY": grant.api_key},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("error: cannot record model calls in ")
    assert "gateway.jsonl: File too large" in err
    assert "hint: free some space" in err
    assert err.count("error: ") == 1
    assert "Traceback" not in err
    _, listed, _ = castform(place, "runs", "list", "--json")
    assert [run["status"] for run in json.loads(listed)] == ["failed"]
