"""A TOML is an environment's id everywhere: env show, validate, certify, eval, train --dry-run, rescore."""

from __future__ import annotations

import json
import re

import pytest

from castform.cli.main import main
from castform.errors import ConfigError
from castform.runs import RunStore
from castform.scripted_endpoint import ScriptedEndpoint

TOML = """
[environment]
summary = "Sums of a file, with a calculator"
dataset = "sums.jsonl"
held_out = 0.3
tools = ["arith/calculator"]
prompt = "What is {first} + {second}? Put the number between <answer> and </answer>."

[environment.rewards]
"lookup/correct" = 1.0
"arith/format" = 0.5
"castform/tool-efficiency" = 0

[eval]
examples = 3
samples = 2
"""


@pytest.fixture
def mix(tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CASTFORM_STORE_URL", raising=False)
    rows = [{"first": a, "second": b, "answer": a + b} for a in range(1, 7) for b in range(1, 5)]
    (tmp_path / "sums.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "mix.toml").write_text(TOML, encoding="utf-8")
    return str(tmp_path / "mix.toml")


@pytest.fixture
def base_url(monkeypatch):
    def answer(request):
        first, second = map(int, re.findall(r"\d+", request.messages[-1]["content"])[:2])
        return f"<answer>{first + second + request.index % 2}</answer>"

    endpoint = ScriptedEndpoint(answer)
    grant = endpoint.add_session("all")
    monkeypatch.setenv("KEY_OF_THE_SCRIPT", grant.api_key)
    yield grant.base_url
    endpoint.close()


def test_env_show_lists_the_parts_and_plays_the_first_example(mix, capsys):
    assert main(["env", "show", mix]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^summary +Sums of a file, with a calculator$", out, re.MULTILINE)
    assert re.search(r"^tools +calculate$", out, re.MULTILINE)
    assert re.search(r"^  dataset +sums.jsonl +24 rows$", out, re.MULTILINE)
    assert re.search(r"^  tool +arith/calculator +castform-env-arith 0.1.0 ", out, re.MULTILINE)
    assert re.search(r"^  reward +arith/format +0.5 +castform-env-arith 0.1.0 ", out, re.MULTILINE)
    assert re.search(r"^  reward +castform/tool-efficiency +0 \(metric\) ", out, re.MULTILINE)
    assert (
        "lookup/correct 1, arith/format 1, castform/tool-efficiency 1 (for the right answer alone, in the form: <answer> tags)"
        in out
    )
    assert "Put the number between" in out and "arguments" not in out
    assert main(["env", "show", mix, "--json", "-a", "summary=Other"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["summary"] == "Other"
    assert [part["id"] for part in shown["parts"]][:2] == ["sums.jsonl", "arith/calculator"]
    assert sum(shown["sizes"].values()) == 24


def test_validate_and_certify_find_no_fault(mix, capsys, tmp_path):
    assert main(["validate", mix, "--examples", "1"]) == 0
    assert "no fault found" in capsys.readouterr().out
    certificate = tmp_path / "certificate.json"
    assert main(["env", "certify", mix, "--examples", "2", "--output", str(certificate)]) == 0
    found = json.loads(certificate.read_text())
    assert found["verdict"] == "passed"
    assert found["environment"]["id"] == "mix.toml"
    assert not any("no_source" in str(finding) for finding in found["findings"])


def test_eval_stores_each_part_s_reward_and_rescore_says_what_changed(mix, base_url, capsys, tmp_path):
    words = [
        "eval",
        mix,
        "-m",
        "scripted",
        "--base-url",
        base_url,
        "--api-key-env",
        "KEY_OF_THE_SCRIPT",
        "--json",
    ]
    assert main(words) == 0
    result = json.loads(capsys.readouterr().out)
    with RunStore.open(tmp_path / "home") as store:
        rollouts = store.list_rollouts(result["run_id"])
    assert len(rollouts) == 6
    for rollout in rollouts:
        assert list(rollout.rewards) == ["lookup/correct", "arith/format", "castform/tool-efficiency"]
        assert rollout.score == rollout.rewards["lookup/correct"] + 0.5
    assert result["environment"]["args"]["held_out"] == 0.3
    assert main(["rescore", result["run_id"]]) == 0
    assert "the environment is the same" in capsys.readouterr().out
    (tmp_path / "mix.toml").write_text(TOML.replace("0.5", "0.25"))
    assert main(["rescore", result["run_id"]]) == 0
    out = capsys.readouterr().out
    assert "files: changed [environment]" in out
    assert "argument rewards: " in out


def test_a_missing_part_ends_every_command_before_anything_runs(mix, capsys, tmp_path):
    (tmp_path / "mix.toml").write_text(TOML.replace("arith/calculator", "arith/calcalator"))
    for words in (["env", "show", mix], ["validate", mix], ["eval", mix, "-m", "m"]):
        assert main(words) == 2
        told = capsys.readouterr()
        assert "environment.tools[0]: plugin 'arith' has no tool called 'calcalator'" in told.err
        assert "did you mean 'arith/calculator'?" in told.err and told.out == ""
    assert not (tmp_path / "home" / "runs").exists()


def test_env_list_and_plugins_show_the_parts_that_a_plugin_has(capsys):
    for words in (["env", "list", "lookup"], ["plugins", "lookup"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        for kind, id in (
            ("dataset", "lookup/places"),
            ("tool", "lookup/get"),
            ("reward", "lookup/used-tool"),
            ("rubric", "lookup/brevity"),
        ):
            assert re.search(rf"^{kind} +{id} ", out, re.MULTILINE), (words, id)
    assert main(["env", "list", "gym"]) == 0
    assert "PART" not in capsys.readouterr().out


def test_train_reads_the_settings_of_the_toml_that_it_is_given(mix, capsys):
    assert main(["train", mix, "--dry-run", "-m", "no-such-model"]) != 0
    assert "no-such-model" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="wrong setting"):
        from castform.config import load_config

        load_config(None, ["environment.weights.x=true"], environment__id=mix)
