"""What an environment needs is asked for before any work: exit 3, its words, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import Dataset, Environment, Example, RolloutAttempt
from castform.certify.batch import certify_batch
from castform.cli.main import main
from castform.config import load_config
from castform.environments import check_ready, close_environment, load_configured
from castform.errors import MissingError
from castform.plugins import load_environment

NEEDY = '''
from benchmax.envs import BaseEnv, Dataset, Example


class Needy(BaseEnv):
    """Needs a server that is not there."""

    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        prompt = {"prompt_messages": [{"role": "user", "content": "?"}], "answer": "1"}
        return Dataset([Example(f"{split}-{n}", prompt) for n in range(3)][:max_examples])

    async def compute_reward(self, rollout):
        raise AssertionError("no rollout was to be run")

    async def check_ready(self):
        error = ConnectionError("no answer at port 9")
        error.add_note("start the server")
        raise error
'''
MODEL = ["-m", "x", "--base-url", "http://127.0.0.1:9/v1"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "needy.py").write_text(NEEDY)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["eval", "needy.py", *MODEL], id="eval"),
        pytest.param(["validate", "needy.py"], id="validate"),
        pytest.param(["validate", "needy.py", *MODEL], id="validate-model"),
        pytest.param(["env", "certify", "needy.py", "--output", "here.json"], id="certify"),
        pytest.param(["env", "certify", "needy.py", *MODEL], id="certify-model"),
    ],
)
def test_a_command_ends_before_it_writes_anything(place, capsys, words):
    assert main(words) == 3
    told = capsys.readouterr()
    assert "no answer at port 9" in told.err and "start the server" in told.err
    assert told.out == ""
    runs = json.loads(run_json(capsys, ["runs", "list", "--json"]))
    assert runs == []
    assert not (place / "here.json").exists() and not (place / "home" / "certificates").exists()


def run_json(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def test_a_check_that_runs_no_rollout_needs_nothing(place, capsys):
    assert main(["env", "certify", "needy.py", "--only", "static"]) == 0


@pytest.mark.parametrize(("others", "code"), [([], 3), (["arith/add"], 3), (["broken.py"], 1)])
def test_many_of_which_some_only_miss_something_end_as_one_does(place, capsys, others, code):
    (place / "broken.py").write_text("from benchmax.envs import BaseEnv\n")
    (place / "other.py").write_text(NEEDY)
    words = ["needy.py", "other.py", *others, "--examples", "2", "--max-seconds", "20", "--jobs", "1"]
    assert main(["env", "certify", *words]) == code
    assert "needy.py: unchecked: " in capsys.readouterr().err


def test_one_of_many_that_is_not_ready_is_unchecked_and_no_fault(place):
    (result,) = certify_batch([str(place / "needy.py")], jobs=1)
    assert (result.verdict, result.failure.code) == ("unchecked", "something_missing")
    assert "start the server" in result.failure.message


async def test_workers_and_mixtures_say_the_same(place):
    apart = load_environment("needy.py", workers=1).environment
    section = load_config(
        None, ['environment.mix=[{id="arith/add"}, {id="./needy.py", name="needy"}]']
    ).environment
    for environment, said in ((apart, "no answer"), (load_configured(section).environment, "needy: ")):
        with pytest.raises(MissingError, match=said) as caught:
            await check_ready(environment)
        assert caught.value.hint == "start the server"
        await close_environment(environment)


async def test_an_environment_that_needs_nothing_is_ready():
    class Plain(Environment[Any, RolloutAttempt]):
        async def create_dataset(self, split: Any, base_dir: Path, *, max_examples: int | None = None) -> Any:
            return Dataset([Example("a", {})])

        async def run_rollout(self, request: Any) -> RolloutAttempt:
            raise NotImplementedError

    await check_ready(Plain())
