"""From SFT to RL to rows to SFT again on a tiny model: the token ids that are trained are those that were sampled."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch

from benchmax.sft import SftDataset
from castform.call_log import read_calls
from castform.cli.main import main
from castform.errors import UsageError
from castform.runs import RunStore
from castform.sft.from_runs import Choice, convert_runs, write_rows
from castform.sft.from_runs.tokens import tokens_path
from castform_trainer.gateway.trajectory import build_segments
from castform_trainer.models import load_causal_lm
from castform_trainer.rl.run import train
from castform_trainer.sft.masking import load_turn_template, mask_row
from castform_trainer.sft.preflight import describe_plan, prepare
from castform_trainer.sft.run import resume_sft, train_sft
from castform_trainer.testing import CHATML_TEMPLATE, make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))
import sft_runs
import train_runs

ENVIRONMENT = '''
from benchmax.envs import BaseEnv, Dataset, Example


class Talk(BaseEnv):
    """Asks twice and pays vowels."""

    max_turns = 2

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        names = [f"{split} {i}" for i in range(6 if split == "train" else 3)][:max_examples]
        return Dataset(
            [Example(id=n, payload={"prompt_messages": [{"role": "user", "content": n}]}) for n in names]
        )

    async def next_messages(self, rollout):
        return [{"role": "user", "content": "and?"}] if len(rollout.messages) < 3 else None

    async def compute_reward(self, rollout):
        text = " ".join(m["content"] or "" for m in rollout.messages if m["role"] == "assistant")
        return {"vowels": sum(c in "aeiou" for c in text) / 6, "short": 1 / (1 + len(text))}
'''


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.set_num_threads(1)
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with RunStore.open(tmp_path_factory.mktemp("home")) as opened:
        yield opened


@pytest.fixture(scope="module")
def first_sft(model, store, tmp_path_factory):
    def talk(number):
        return [
            {"role": "user", "content": f"train {number}"},
            {"role": "assistant", "content": "a b"[: 1 + number % 3]},
            {"role": "user", "content": "and?"},
            {"role": "assistant", "content": "ue"[: 1 + number % 2]},
        ]

    rows = [{"messages": talk(number)} for number in range(20)]
    data = {"train": str(sft_runs.write_rows(tmp_path_factory.mktemp("data") / "talk.jsonl", rows))}
    config = sft_runs.make_config(model, data, run={"epochs": 8}, eval={"every": 0})
    return asyncio.run(train_sft(config, store=store))


@pytest.fixture(scope="module")
def rl(model, store, first_sft, tmp_path_factory):
    """Two steps of RL from the adapter of a finetuning."""
    config = train_runs.make_config(
        train_runs.write_environment(tmp_path_factory.mktemp("env"), ENVIRONMENT),
        model,
        model={"adapter": str(first_sft.result)},
        run={"steps": 2},
        sampling={"max_new_tokens": 12},
        optimizer={"learning_rate": 0.002},
    )
    return asyncio.run(train(config, store=store))


@pytest.fixture(scope="module")
def rows(rl, store, tmp_path_factory):
    """The rows of every whole rollout of that run: (path, what was converted)."""
    path = tmp_path_factory.mktemp("rows") / "rl.jsonl"
    converted = convert_runs(store, [rl.run_id], Choice(with_duplicates=True))
    assert write_rows(converted, path) == tokens_path(path)
    return path, converted


def prepared(model, path, **data):
    return prepare(sft_runs.make_config(model, {"train": str(path), **data}, eval={"every": 0}))


def plan_of(model, path, **data):
    return describe_plan(prepared(model, path, **data))["train"]


def spans_of(weights):
    """Return the half-open spans of weight 1."""
    edges = [
        i for i in range(len(weights) + 1) if (weights[i - 1 : i] == (1.0,)) != (weights[i : i + 1] == (1.0,))
    ]
    return list(zip(edges[::2], edges[1::2], strict=True))


def copy_rows(path, folder, lines=None):
    """Copy a file of rows with its token ids; `lines` are other rows than its own."""
    shutil.copy(tokens_path(path), folder / tokens_path(path).name)
    target = folder / path.name
    target.write_bytes(path.read_bytes() if lines is None else b"".join(lines))
    return target


def test_the_ids_that_are_trained_are_the_ids_that_were_sampled(rl, rows, store, model):
    path, converted = rows
    recorded = {}
    for call in read_calls(rl.run_dir / "calls/000.jsonl"):
        recorded.setdefault(call.session_id, []).append(call)
    samples = [sample for row in prepared(model, path).train for sample in row]
    dataset = SftDataset.from_jsonl(path)
    assert len(samples) == len(dataset) == converted.report.sampled_rows >= 6
    for row, sample in zip(dataset, samples, strict=True):
        calls = recorded[row["metadata"]["rollout"]]
        assert len(calls) == 2
        assert sample.ids == (*calls[1].prompt_ids, *calls[1].sampled_ids)
        found = [sample.ids[start:end] for start, end in spans_of(sample.weights)]
        assert found == [call.sampled_ids for call in calls]
        (segment,) = build_segments(calls)
        assert (segment.ids, segment.mask) == (sample.ids, tuple(map(int, sample.weights)))
    template = load_turn_template(model)
    rendered = [mask_row(template, row)[0].ids for row in dataset]
    assert any(a != b.ids for a, b in zip(rendered, samples, strict=True))  # no text gives these ids again


def test_the_rows_are_canonical_and_say_where_they_are_from(rl, rows):
    path, converted = rows
    dataset = SftDataset.from_jsonl(path)
    assert dataset.to_jsonl_bytes() == path.read_bytes()
    used = [each for each in converted.report.rollouts if each.outcome == "used"]
    assert [row["metadata"]["rollout"] for row in dataset] == [each.rollout_id for each in used]
    assert {row["metadata"]["run"] for row in dataset} == {rl.run_id}
    assert [row["metadata"]["score"] for row in dataset] == [each.score for each in used]


def test_every_rollout_of_the_run_is_used_or_left_out_for_a_reason(rl, rows, store):
    _, converted = rows
    stored = store.list_rollouts(rl.run_id)
    assert sorted(e.rollout_id for e in converted.report.rollouts) == sorted(r.rollout_id for r in stored)
    assert sum(converted.report.counts.values()) == len(stored) == 18
    assert converted.report.counts["of the split eval"] == 6
    cut = [r.rollout_id for r in stored if r.split == "train" and r.termination_reason == "output_exceeded"]
    assert [e.rollout_id for e in converted.report.rollouts if e.outcome == "a reply was cut"] == cut


def test_finetuning_goes_on_from_the_adapter_of_rl_and_reports_the_sampled_rows(
    rl, rows, store, model, first_sft
):
    path, _ = rows
    config = sft_runs.make_config(
        model, {"train": str(path)}, model={"adapter": str(rl.adapter)}, eval={"every": 0}, run={"epochs": 1}
    )
    result = asyncio.run(train_sft(config, store=store))
    assert (result.status, result.steps) == ("finished", 2)
    weights = [
        (each / "adapter_model.safetensors").read_bytes()
        for each in (first_sft.result, rl.adapter, result.result)
    ]
    assert len(set(weights)) == 3
    assert result.trained_tokens == plan_of(model, path)["trained_tokens"]
    inputs = store.list_events(result.run_id, kind="inputs")[-1].data
    assert inputs["files"]["train"]["sampled_rows"] == len(SftDataset.from_jsonl(path))


def test_rl_starts_with_the_adapter_of_finetuning(rl, first_sft, model, store):
    from peft import PeftModel

    first = [
        call for call in read_calls(rl.run_dir / "calls/000.jsonl") if call.session_id == "eval-before-0-0-0"
    ]
    loaded = PeftModel.from_pretrained(
        load_causal_lm(model, dtype="float32", device="cpu"), str(first_sft.result)
    )
    for call in first:
        ids = [*call.prompt_ids, *call.sampled_ids]
        with torch.no_grad():
            logp = loaded(torch.tensor([ids])).logits[0].log_softmax(-1)
        at = len(call.prompt_ids)
        found = [float(logp[i - 1, ids[i]]) for i in range(at, len(ids))]
        assert found == pytest.approx(list(call.logprobs), abs=1e-3)
    assert first


def test_a_run_is_not_resumed_when_its_sampled_ids_are_gone(rl, rows, store, model, tmp_path):
    path = copy_rows(rows[0], tmp_path)
    config = sft_runs.make_config(model, {"train": str(path)}, eval={"every": 0}, run={"epochs": 1})
    result = asyncio.run(train_sft(config, store=store))
    tokens_path(path).unlink()
    with pytest.raises(UsageError, match=r"train data .*: 10 rows with sampled token ids before, 0 now"):
        asyncio.run(resume_sft(result.run_id, store=store))


def test_rows_may_change_places_and_one_that_was_edited_is_rendered(rows, model, tmp_path):
    lines = rows[0].read_bytes().splitlines(keepends=True)
    edited = lines[2].replace(b"and?", b"and now?")
    path = copy_rows(rows[0], tmp_path, [lines[5], edited, lines[0]])
    plan = plan_of(model, path)
    assert (plan["rows"], plan["sampled_rows"]) == (3, 2)
    whole = [row[0] for row in prepared(model, rows[0]).train]
    last, changed, first = (row[0] for row in prepared(model, path).train)
    assert (last.ids, first.ids) == (whole[5].ids, whole[0].ids)
    assert changed.ids == mask_row(load_turn_template(model), json.loads(edited))[0].ids


def test_without_the_file_of_ids_or_by_choice_the_text_is_rendered(rows, model, tmp_path):
    path = copy_rows(rows[0], tmp_path)
    rendered = plan_of(model, path, use_sampled_ids=False)
    assert rendered["sampled_rows"] is None
    tokens_path(path).unlink()
    assert plan_of(model, path) == rendered


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"merges": [("a", "n")]}, "has another tokenizer$"),
        ({"chat_template": CHATML_TEMPLATE + "{# another #}"}, "has another chat template$"),
        (
            {"merges": [("a", "n")], "chat_template": CHATML_TEMPLATE + "{# another #}"},
            "another tokenizer and another chat template$",
        ),
    ],
)
def test_the_ids_of_another_tokenizer_or_template_are_refused(rows, tmp_path, other, text):
    model = make_tiny_model(tmp_path / "other", **other)
    with pytest.raises(UsageError, match=text) as caught:
        plan_of(model, rows[0])
    assert "data.use_sampled_ids=false" in caught.value.hint
    assert plan_of(model, rows[0], use_sampled_ids=False)["rows"] == 10


def test_ids_that_say_something_else_than_their_row_are_refused_even_without_marks(rows, model, tmp_path):
    path = copy_rows(rows[0], tmp_path)
    found = [json.loads(line) for line in tokens_path(path).read_text().splitlines()]
    for one in found:
        one["marks"] = None
    tokens_path(path).write_text("".join(json.dumps(one) + "\n" for one in found))
    assert plan_of(model, path)["sampled_rows"] == len(found)
    at = found[1]["samples"][0]["turns"][0][0]
    (found[1]["samples"][0]["ids"][at],) = load_turn_template(model).codec.encode("Z")
    tokens_path(path).write_text("".join(json.dumps(one) + "\n" for one in found))
    with pytest.raises(UsageError, match=r"do not read as messages\[1\] of row 1 with the tokenizer"):
        plan_of(model, path)
    found[1]["samples"][0]["turns"].pop()
    tokens_path(path).write_text("".join(json.dumps(one) + "\n" for one in found))
    with pytest.raises(UsageError, match="does not have every trained message of row 1 once"):
        plan_of(model, path)


def test_a_damaged_file_of_ids_is_named_with_its_line(rows, model, tmp_path):
    path = copy_rows(rows[0], tmp_path)
    with tokens_path(path).open("a") as file:
        file.write('{"row_sha256": "ab", "marks"')
    with pytest.raises(UsageError, match=r"rl\.tokens\.jsonl:11 does not hold sampled token ids"):
        plan_of(model, path)


def test_a_run_before_marks_were_kept_gives_ids_without_them(rl, rows, store):
    marks = rl.run_dir / "calls/000.tokenizer.json"
    kept = marks.read_bytes()
    marks.unlink()
    try:
        converted = convert_runs(store, [rl.run_id], Choice(with_duplicates=True))
    finally:
        marks.write_bytes(kept)
    assert {row.marks for row in converted.tokens} == {None}
    assert [row.samples for row in converted.tokens] == [row.samples for row in rows[1].tokens]


def test_convert_on_the_command_line_writes_the_same_files_and_says_how_many(
    rl, rows, store, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("CASTFORM_HOME", str(store.home))
    target = tmp_path / "rl.jsonl"
    words = ["sft", "convert", "--run", rl.run_id, "--with-duplicates", "--output", str(target)]
    assert main(words) == 0
    out = capsys.readouterr()
    assert "18 = 10 used + 8 left out" in out.out
    assert "10, 10 of them with the token ids that were sampled" in out.out
    assert f"wrote 10 rows to {target}, their token ids to {tmp_path / 'rl.tokens.jsonl'}" in out.err
    assert target.read_bytes() == rows[0].read_bytes()
    assert tokens_path(target).read_bytes() == tokens_path(rows[0]).read_bytes()


def test_dry_run_and_result_say_how_many_rows_are_trained_on_sampled_ids(
    rows, model, store, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("CASTFORM_HOME", str(store.home))
    words = ["-m", str(model), "--set", "model.device=cpu", "--set", "run.threads=1", "--steps", "1"]
    assert main(["sft", "train", str(rows[0]), *words, "--dry-run"]) == 0
    assert re.search(r"sampled ids +all 10 rows", capsys.readouterr().out)
    lines = rows[0].read_bytes().splitlines(keepends=True)
    path = copy_rows(rows[0], tmp_path, [lines[0], lines[1].replace(b"and?", b"or?")])
    assert main(["sft", "train", str(path), *words]) == 0
    assert (
        "sampled token ids: 1 of 2 rows; the other 1 are not as they were converted"
        in capsys.readouterr().err
    )
