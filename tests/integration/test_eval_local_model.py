"""Evaluation and validation of a model on this machine: tokens on disk, budgets, adapters, broken folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from castform.cli.main import main
from castform_trainer.testing import make_tiny_model

pytestmark = pytest.mark.slow

ENVIRONMENT = '''
from benchmax.envs import BaseEnv, Dataset, Example


class Letters(BaseEnv):
    """Pays for an even number of characters, which a random model gets half the time."""

    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset(
            [
                Example(f"{split}-{n}", {"prompt_messages": [{"role": "user", "content": f"word {n}"}]})
                for n in range(min(max_examples or 6, 6))
            ]
        )

    async def compute_reward(self, rollout):
        return {"even": float(len(rollout.messages[-1]["content"] or "x") % 2 == 0)}
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("local")
    (place / "letters.py").write_text(ENVIRONMENT)
    make_tiny_model(place / "tiny")
    return place


@pytest.fixture
def castform(place, monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process, which has torch already, and return code, stdout and stderr."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("CASTFORM_HOME", str(place / "home"))
    monkeypatch.delenv("CASTFORM_STORE_URL", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def make_adapter(place: Path) -> Path:
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    folder = place / "adapter"
    if not folder.exists():
        model = AutoModelForCausalLM.from_pretrained(place / "tiny", dtype=torch.float32)
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=False)
        torch.manual_seed(1)
        peft.get_peft_model(model, config).save_pretrained(folder)
    return folder


def test_every_rollout_leads_to_its_tokens(place, castform):
    code, out, err = castform(
        "eval", "letters.py", "-m", "tiny", "--samples", "3", "--max-new-tokens", "8", "--json"
    )
    assert code == 0, err
    data = json.loads(out)
    assert data["counts"] == {"examples": 6, "rollouts": 18, "scored": 18, "failed": 0}
    assert data["lengths"]["completion_tokens"]["max"] <= 8
    _, out, _ = castform("runs", "rollouts", data["run_id"], "--json")
    rollout_id = json.loads(out)["rollouts"][0]["rollout_id"]
    _, out, _ = castform("runs", "rollout", data["run_id"], rollout_id, "--json")
    rollout = json.loads(out)
    lines = [json.loads(line) for line in Path(rollout["calls_file"]).read_text().splitlines()]
    text = json.dumps(lines)
    assert rollout["call_ids"]
    assert all(call_id in text for call_id in rollout["call_ids"])
    own = [line for line in lines if line["call_id"] in rollout["call_ids"]]
    assert rollout["fidelity"]["first_calls"] == len(own)
    assert rollout["fidelity"]["sampled_tokens"] == sum(len(line["sampled_ids"]) for line in own)
    assert data["fidelity"]["sampled_tokens"] == sum(len(line["sampled_ids"]) for line in lines)
    _, out, _ = castform("runs", "rollout", data["run_id"], rollout_id)
    assert f"calls {len(own)} first, 0 spliced, 0 forked" in out


def test_the_same_seed_gives_the_same_figures(place, castform):
    words = [
        "eval",
        "letters.py",
        "-m",
        "tiny",
        "--examples",
        "3",
        "--samples",
        "2",
        "--max-new-tokens",
        "6",
        "--json",
    ]
    scores = []
    for seed in ("1", "1"):
        code, out, err = castform(*words, "--seed", seed)
        assert code == 0, err
        scores.append(
            [
                r["rewards"] | {"n": r["lengths"]["completion_tokens"]}
                for e in json.loads(out)["per_example"]
                for r in e["rollouts"]
            ]
        )
    assert scores[0] == scores[1]


def test_an_adapter_changes_what_is_sampled(place, castform):
    adapter = make_adapter(place)
    words = ["eval", "letters.py", "-m", "tiny", "--examples", "2", "--max-new-tokens", "12", "--json"]
    texts = []
    for extra in ([], ["--adapter", str(adapter)]):
        code, out, err = castform(*words, *extra)
        assert code == 0, err
        data = json.loads(out)
        rollout_id = data["per_example"][0]["rollouts"][0]["rollout_id"]
        _, out, _ = castform("runs", "rollout", data["run_id"], rollout_id, "--json")
        texts.append(json.loads(out)["messages"][-1]["content"])
    assert texts[0] != texts[1]


def test_validate_finds_signal_in_a_reward_that_luck_decides(place, castform):
    code, out, err = castform("validate", "letters.py", "-m", "tiny", "--max-new-tokens", "8", "--set",
        "sampling.max_context_tokens=200", "--json",
    )  # fmt: skip
    data = json.loads(out)
    assert data["result"]["counts"]["rollouts"] == 24 == data["result"]["counts"]["scored"], err
    assert data["result"]["signal_share"] > 0.2
    assert data["replay"]["differences"] == []
    assert data["max_context_tokens"] == 200
    codes = {f["code"]: f["level"] for f in data["findings"]}
    assert codes["gold"] == "unchecked"  # the environment gives no right answers
    assert code == (0 if data["trainable"] else 1)
    assert "reward_pays_junk" in codes  # 2,000 characters are an even number


def test_a_prompt_over_the_budget_is_said_to_be(place, castform):
    code, out, err = castform("validate", "letters.py", "-m", "tiny", "--max-new-tokens", "4", "--examples", "2", "--set",
        "sampling.max_context_tokens=5", "--json",
    )  # fmt: skip
    assert code == 1, err
    [fault] = [f for f in json.loads(out)["findings"] if f["level"] == "fault" and f["code"] == "contract"]
    assert "the first prompt does not fit the context budget" in fault["message"]


@pytest.mark.parametrize("gone", ["tokenizer.json", "config.json", "template"])
def test_a_broken_model_folder_is_one_clear_error_and_leaves_nothing(place, castform, tmp_path, gone):
    folder = tmp_path / "broken"
    shutil.copytree(place / "tiny", folder)
    if gone == "template":
        for path in folder.glob("chat_template*"):
            path.unlink()
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        settings["chat_template"] = "{{ raise_exception('no such role') }}"
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    else:
        for path in folder.glob(f"{gone.partition('.')[0]}*"):
            path.unlink()
    before = set((place / "home" / "runs").glob("*")) if (place / "home" / "runs").exists() else set()
    code, out, err = castform("eval", "letters.py", "-m", str(folder), "--examples", "1")
    assert code in (1, 2, 3), err
    assert out == ""
    assert "Traceback" not in err
    assert [line for line in err.splitlines() if line.startswith("error: ")]
    if gone != "template":  # a template is only tried when a prompt is rendered
        assert set((place / "home" / "runs").glob("*")) == before
