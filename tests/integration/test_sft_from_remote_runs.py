"""Rows from an evaluation of a model behind a server, by the command line: text without token ids, and it says so."""

from __future__ import annotations

import json

import pytest

from benchmax.sft import SftDataset
from castform.cli.main import main
from castform.runs import RunStore
from castform.scripted_endpoint import ScriptedEndpoint
from castform.testing import Fault, Reply

ENVIRONMENT = '''
from benchmax.envs import BaseEnv, Dataset, Example


class Sums(BaseEnv):
    """Adds with a tool."""

    max_turns = 3

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        numbers = range(4 if split == "train" else 2)
        return Dataset(
            [Example(f"{split}-{n}", {"prompt_messages": [{"role": "user", "content": f"{split} {n}"}]}) for n in numbers]
        )

    async def list_tools(self):
        return [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]

    async def run_tool(self, rollout_id, tool_name, /, **arguments):
        return "2"

    async def compute_reward(self, rollout):
        return {"said": float("2" in (rollout.messages[-1]["content"] or ""))}
'''


def script(request):
    """Train 0: a sound call. 1: arguments that are no JSON. 2: thinking, cut. 3: a server error."""
    number = int(request.messages[0]["content"].split()[1])
    asked = len(request.messages) == 1
    if number == 3:
        return Fault(status=400, message="no such luck")
    if number == 2:
        return Reply(content="<think>\nhm", finish_reason="length")
    if asked:
        arguments = '{"a": 1}' if number == 0 else '{"a": '
        call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": arguments}}
        return {"role": "assistant", "content": None, "reasoning_content": "I add", "tool_calls": [call]}
    return Reply(content="<think>\nso\n</think>\n\nit is 2")


@pytest.fixture(scope="module")
def run_id(tmp_path_factory):
    folder = tmp_path_factory.mktemp("remote")
    (folder / "sums.py").write_text(ENVIRONMENT)
    endpoint = ScriptedEndpoint(script)
    grant = endpoint.add_session("all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASTFORM_HOME", str(folder / "home"))
        patch.setenv("THE_KEY", grant.api_key)
        words = ["-m", "m", "--base-url", grant.base_url, "--api-key-env", "THE_KEY", "--split", "train"]
        assert main(["eval", str(folder / "sums.py"), *words]) == 0
        endpoint.close()
        with RunStore.open(folder / "home") as store:
            (run,) = store.list_runs()
        yield run.run_id


def test_rows_of_a_remote_model_are_text_and_what_cannot_be_one_is_counted(run_id, tmp_path, capsys):
    output, report = tmp_path / "rows.jsonl", tmp_path / "report.jsonl"
    (tmp_path / "rows.tokens.jsonl").write_text("ids of other rows\n")
    assert main(["sft", "convert", "--run", run_id, "-o", str(output), "--report", str(report)]) == 0
    shown = capsys.readouterr()
    assert "4 = 1 used + 3 left out" in shown.out
    assert "1, 0 of them with the token ids that were sampled" in shown.out
    assert "the calls of 1 rows have no token ids, so the trainer renders their text" in shown.err
    assert not (tmp_path / "rows.tokens.jsonl").exists()
    (row,) = SftDataset.from_jsonl(output)
    assert [m["role"] for m in row["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert row["messages"][1]["content"] == "<think>\nI add\n</think>\n\n"
    assert row["messages"][3]["content"] == "<think>\nso\n</think>\n\nit is 2"
    assert [tool["function"]["name"] for tool in row["tools"]] == ["add"]
    found = [json.loads(line) for line in report.read_text().splitlines()]
    assert [(each["example_id"], each["outcome"]) for each in found] == [
        ("train-0", "used"),
        ("train-1", "not sound: arguments_invalid_json"),
        ("train-2", "a reply was cut"),
        ("train-3", "not scored: model_error"),
    ]
    assert "train-1" not in output.read_text()


def test_the_result_as_json_names_files_and_counts(run_id, tmp_path, capsys):
    output = tmp_path / "rows.jsonl"
    assert main(["sft", "convert", "--run", run_id, "-o", str(output), "--turns", "last", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["rollouts"], data["used"], data["rows"], data["sampled_rows"]) == (4, 1, 1, 0)
    assert (data["output"], data["tokens"], data["split"]) == (str(output), None, "train")
    assert data["masked_turns"] == {"not the last turn": 1}
    assert sum(data["left_out"].values()) == 3


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--min-reward", "5"], 1, "no rollout became a row, so nothing was written"),
        (["--split", "eval"], 1, "of the split train 4"),
        (["--best-of", "0"], 2, "best_of is 0"),
        (["--min-reward", "nan"], 2, "min_reward is nan"),
        (["--per-example"], 2, "there is no best_of"),
        (["--reward", "sayd"], 2, "it has said"),
        (["--output", "nosuch/rows.jsonl"], 2, "there is no folder"),
        (["--output", "rows.jsonl", "--report", "rows.tokens.jsonl"], 2, "is the same file as"),
        (["rows.jsonl"], 2, "so it does not take FILE"),
        (["--from", "openai"], 2, "so it does not take --from"),
    ],
)
def test_what_makes_no_sense_is_said_and_nothing_is_written(
    run_id, tmp_path, monkeypatch, capsys, words, code, text
):
    monkeypatch.chdir(tmp_path)
    given = words if "--output" in words else ["-o", "rows.jsonl", *words]
    assert main(["sft", "convert", "--run", run_id, *given]) == code
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_options_of_runs_need_a_run(capsys):
    assert main(["sft", "convert", "x.jsonl", "--best-of", "2", "--turns", "last"]) == 2
    assert "--best-of, --turns" in capsys.readouterr().err
    assert main(["sft", "convert"]) == 2
    assert "no file given" in capsys.readouterr().err
    assert main(["sft", "convert", "--run", "nonesuch"]) == 2
    assert "no run 'nonesuch'" in capsys.readouterr().err
