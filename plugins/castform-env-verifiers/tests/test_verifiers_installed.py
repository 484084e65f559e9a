"""The real library in a virtual environment of its own, with a verifiers environment installed beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from castform.plugins.environments import load_environment
from castform.testing import FakeModel

pytestmark = [pytest.mark.installs, pytest.mark.timeout(600)]
HERE = Path(__file__).parents[1]
MODULE = '''
import verifiers as vf
from datasets import Dataset


def load_environment(together: bool = False):
    """Two turns: a word, then the same word again."""
    rows = [{"question": f"Say {word}.", "answer": word} for word in ("red", "blue", "green", "black", "white")]

    class Again(vf.MultiTurnEnv):
        async def env_response(self, messages, state, **kwargs):
            return [vf.UserMessage(content="Again.")]

    def same(completion, answer):
        said = [m["content"] for m in completion if m["role"] == "assistant"]
        if "raise" in said[0]:
            raise LookupError("no word")
        return float(said == [answer, answer])

    def best(completions, answers) -> list[float]:
        said = [sum(m["content"] == a for m in c) for c, a in zip(completions, answers)]
        return [float(n == max(said)) for n in said]

    funcs = [same, best] if together else [same]
    rubric = vf.Rubric(funcs=funcs, weights=[1.0, 0.5][: len(funcs)])
    return Again(dataset=Dataset.from_list(rows), rubric=rubric, max_turns=2)
'''


def castform(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "castform", *words],
        env={**os.environ, "CASTFORM_HOME": str(home), "PIP_NO_COMPILE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A CASTFORM_HOME where the plugin is installed isolated, with the package `vf-again` beside it."""
    folder = tmp_path_factory.mktemp("verifiers")
    wheel = folder / "vf_again-1.0-py3-none-any.whl"
    info = "vf_again-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vf_again.py", MODULE)
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: vf-again\nVersion: 1.0\nRequires-Dist: verifiers\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    home = folder / "home"
    ran = castform(home, "env", "install", str(HERE), "--isolated", "--with", str(wheel), "--json")
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert (answer["plugins"], answer["built"]) == (["verifiers"], True)
    return home


def test_the_small_environment_is_shown_with_its_rubric(home):
    shown = castform(home, "env", "show", "verifiers/sums", "--json")
    assert shown.returncode == 0, shown.stderr
    data = json.loads(shown.stdout)
    assert data["sizes"] == {"train": 45, "eval": 36}
    assert data["seen_rewards"] == {"correct": 1.0, "in_tags": 1.0, "num_turns": 1.0}
    assert data["gold"] == "4"
    assert "largest" in {argument["name"] for argument in data["arguments"]}


async def test_an_installed_environment_plays_its_turns_and_its_faults_are_typed(home, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(home))

    def reply(request):
        word = request.messages[0]["content"].split()[-1].strip(".")
        return [word, "raise", "no", ""][int(request.session_id[-1])]

    for together, components in ((False, {"same", "num_turns"}), (True, {"same", "best", "num_turns"})):
        loaded = load_environment("verifiers/env", {"name": "vf-again", "args": {"together": together}})
        environment = loaded.environment
        try:
            train = await environment.create_dataset("train", loaded.base_dir)
            held = await environment.create_dataset("eval", loaded.base_dir)
            assert len(train) + len(held) == 5
            with FakeModel(reply) as model:
                group = await model.run_group(
                    environment, train[0], size=1 if together else 4, timeout_seconds=60.0
                )
        finally:
            await environment.aclose()
        right, *others = group.rollouts
        assert right.termination_reason == "finished"
        assert set(right.rewards) == components
        assert right.score == (1.5 if together else 1.0)
        assert [message["role"] for message in right.messages] == ["user", "assistant", "user", "assistant"]
        if others:
            failed, wrong, empty = others
            assert (failed.score, failed.termination_reason) == (None, "reward_error")
            assert failed.error == "same: LookupError: no word"
            assert (wrong.score, wrong.rewards["num_turns"]) == (0.0, 2.0)
            assert (empty.score, empty.termination_reason) == (0.0, "finished")


def test_a_wrong_name_and_wrong_arguments_are_told_from_the_other_interpreter(home):
    missing = castform(home, "env", "show", "verifiers/env", "-a", "name=vf-agian")
    assert missing.returncode == 3
    assert "no verifiers environment called 'vf-agian' is installed here" in missing.stderr
    wrong = castform(home, "env", "show", "verifiers/env", "-a", "name=vf-again", "-a", "args={size = 1}")
    assert wrong.returncode == 2
    assert "unexpected keyword argument 'size'" in wrong.stderr
    nameless = castform(home, "env", "show", "verifiers/env")
    assert nameless.returncode == 2
    assert "name: is required" in nameless.stderr


def test_it_trains_the_small_model(home):
    kept = Path(os.environ.get("CASTFORM_HOME") or "~/.castform").expanduser()
    weights = kept / "models" / "smollm2-135m"
    if not weights.exists():
        pytest.skip("no weights: castform model pull smollm2-135m")
    settings = {
        "run.steps": 2,
        "rl.groups_per_step": 3,
        "rl.group_size": 4,
        "rl.max_refills": 1,
        "sampling.max_new_tokens": 16,
        "eval.examples": 4,
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    ran = castform(home, "train", "verifiers/sums", "-m", str(weights), "--json", *words)
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert (Path(result["run_dir"]) / "adapter" / "adapter_model.safetensors").stat().st_size > 0
    assert {row["name"] for row in result["verdict"]["components"]} >= {"correct", "in_tags"}
