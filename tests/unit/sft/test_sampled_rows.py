"""What a gateway recorded becomes rows whose ids are trained as they were sampled, whatever the template."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path

import pytest

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.sft import SftDataset
from castform.calls import Sampling
from castform.errors import UsageError
from castform.rollouts import run_group
from castform.runs import RunStore
from castform.sft.from_runs import Choice, convert_runs, write_rows
from castform.sft.from_runs.tokens import (
    TokenRow,
    TokenSample,
    TokenTurn,
    encode_token_row,
    row_digest,
    tokens_path,
)
from castform_trainer.engines.fake import FakeEngine
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.gateway.trajectory import build_segments
from castform_trainer.sft.masking import TurnTemplate, mask_row
from castform_trainer.sft.sampled_rows import SampledRows
from castform_trainer.testing import make_tiny_tokenizer

sys.path.insert(0, str(Path(__file__).parent))
from mask_rows import list_end_ids, make_tokenizer

THINKS = {"qwen3", "glm"}
TEMPLATES = ("chatml", "qwen25", "qwen3", "hermes", "smollm2", "mistral", "llama3", "glm", "deepseek")


class Search(BaseEnv):
    """Three turns with a tool, then talk."""

    max_turns = 5

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset([])

    async def list_tools(self):
        parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
        return [
            {
                "type": "function",
                "function": {"name": "find", "description": "Finds.", "parameters": parameters},
            }
        ]

    async def run_tool(self, rollout_id, tool_name, /, **arguments):
        return f"found {arguments}"

    async def next_messages(self, rollout):
        return [{"role": "user", "content": "and?"}] if len(rollout.messages) < 6 else None

    async def compute_reward(self, rollout):
        return {"length": float(len(rollout.messages))}


def make_replies(name, template):
    """Return replies as ids: words, words in other tokens than the tokenizer's, thinking, and calls of a tool."""
    ends = list_end_ids(name, template._tokenizer)
    encode = template.codec.encode
    pieces = [i for char in "the model answers" for i in encode(char)]
    replies = [(*pieces, ends[-1]), (*pieces, ends[-1]), (*encode("ü 🙂"), ends[-1])]
    if name in THINKS:
        replies += [(*encode("<think>\nhm, 1 < 2\n</think>\n\nin Bern"), ends[-1])]
    row = {
        "messages": [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "abcdefghi",
                        "type": "function",
                        "function": {"name": "find", "arguments": '{"city": "Bern"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "abcdefghi", "content": "r"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "find", "parameters": {"type": "object", "properties": {}}},
            }
        ],
    }
    sample = mask_row(template, row)[0]
    start, end = sample.turns[0]
    return [*replies, sample.ids[start:end], sample.ids[start:end]]


def record(name, template, store, seed=1):
    """Let a scripted engine answer a group of rollouts behind a gateway and store it as a run."""
    replies = make_replies(name, template)
    tokenizer = make_tokenizer(name)
    ends = list_end_ids(name, tokenizer)

    def script(prompt_ids, sampling):
        return random.Random(f"{seed} {sampling.seed}").choice(replies)

    run = store.create_run(kind="eval", name=name, config={})
    engine = FakeEngine(script=script, eos_token_ids=ends, vocabulary=400)
    gateway = Gateway(engine, tokenizer, log_path=run.run_dir / "calls/000.jsonl", model_name=name).start()
    endpoint = GatewayEndpoint(gateway)

    async def work():
        try:
            return await run_group(
                Search(),
                Example(
                    id="e", payload={"prompt_messages": [{"role": "user", "content": "hello the model"}]}
                ),
                endpoint=endpoint,
                split="train",
                group_id="g",
                size=6,
                sampling=Sampling(max_new_tokens=400),
                seed=seed,
                weights={},
                timeout_seconds=60,
            )
        finally:
            await endpoint.aclose()

    group = asyncio.run(work())
    store.add_rollouts(run.run_id, [group], mode="eval", step=0, calls_path="calls/000.jsonl")
    store.set_status(run.run_id, "finished")
    return run.run_id, group


def ends_of(ids, mask):
    """Return, for every trained reply, the ids from the beginning to its end, and how many of them are its own."""
    found, own = [], 0
    for place, trained in enumerate([*mask, 0]):
        if not trained and own:
            found.append((tuple(ids[:place]), own))
        own = own + 1 if trained else 0
    return found


@pytest.mark.parametrize("name", TEMPLATES)
def test_recorded_conversations_are_trained_on_their_own_ids(name, tmp_path):
    tokenizer = make_tokenizer(name)
    template = TurnTemplate(tokenizer, name=name, end_ids=list_end_ids(name, tokenizer))
    path = tmp_path / "rows.jsonl"
    with RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db") as store:
        run_id, group = record(name, template, store)
        converted = convert_runs(store, [run_id], Choice(with_duplicates=True))
    write_rows(converted, path)
    calls = {rollout.rollout_id: rollout.calls for rollout in group.rollouts}
    sampled = SampledRows(path, template)
    dataset = SftDataset.from_jsonl(path)
    assert len(dataset) == converted.report.sampled_rows == 6
    rendered_otherwise = 0
    for number, (row, line) in enumerate(zip(dataset, dataset.iterate_jsonl_bytes(), strict=True)):
        samples = sampled.find(number, line, row)
        recorded = calls[row["metadata"]["rollout"]]
        trained = [found for sample in samples for found in ends_of(sample.ids, sample.weights)]
        expected = [((*call.prompt_ids, *call.sampled_ids), len(call.sampled_ids)) for call in recorded]
        assert sorted(trained) == sorted(expected)
        segments = build_segments(recorded)
        assert sorted(trained) == sorted(
            e for segment in segments for e in ends_of(segment.ids, segment.mask)
        )
        rendered_otherwise += [each.ids for each in mask_row(template, row)] != [each.ids for each in samples]
    assert sampled.used == 6
    assert rendered_otherwise  # one reply at least is in other tokens than its text has


def test_rows_with_thinking_give_a_sample_for_each_context(tmp_path):
    tokenizer = make_tokenizer("qwen3")
    template = TurnTemplate(tokenizer, name="qwen3", end_ids=list_end_ids("qwen3", tokenizer))
    with RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db") as store:
        run_id, _ = record("qwen3", template, store)
        converted = convert_runs(store, [run_id], Choice())
    assert max(len(row.samples) for row in converted.tokens) > 1
    texts = [m["content"] or "" for row in converted.rows for m in json.loads(row)["messages"]]
    assert "<think>\nhm, 1 < 2\n</think>\n\nin Bern" in texts


def test_ids_of_a_call_with_true_are_not_those_of_a_row_with_1(tmp_path):
    template = TurnTemplate(make_tiny_tokenizer(), name="tiny", end_ids=(2,))
    path = tmp_path / "rows.jsonl"
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}

    def make(arguments):
        call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": arguments}}
        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "2"},
            {"role": "assistant", "content": "two", "weight": 0},
        ]
        (row,) = SftDataset.from_rows([{"messages": messages, "tools": [tool]}])
        return row

    def find(arguments):
        row, line = make('{"n": 1}'), SftDataset.from_rows([make('{"n": 1}')]).to_jsonl_bytes()
        (other,) = mask_row(template, make(arguments))
        turn = TokenTurn(start=other.turns[0][0], end=other.turns[0][1], message=1)
        tokens = TokenRow(
            row_sha256=row_digest(line), marks=None, samples=(TokenSample(ids=other.ids, turns=(turn,)),)
        )
        tokens_path(path).write_bytes(encode_token_row(tokens))
        return SampledRows(path, template).find(0, line, row)

    (sample,) = find('{"n": 1.0}')
    assert sample.last_message == 1
    with pytest.raises(UsageError, match=r"do not read as messages\[1\] of row 0"):
        find('{"n": true}')
