"""200 tool rollouts: what would be trained is, byte for byte, what the engine sampled."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import openai
import pytest
from transformers import AutoTokenizer

from castform.calls import ModelCall, Sampling
from castform.endpoint import SessionSpec
from castform_trainer.engines.contract import Generation
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.gateway.completion import merge_stream
from castform_trainer.gateway.fake_tokenizer import (
    MERGED_RESULTS,
    PLAIN,
    STRIPS_THINKING,
    TOOLS,
    make_fake_tokenizer,
)
from castform_trainer.gateway.fidelity import Fidelity, check_fidelity, count_fidelity, count_reencoded
from castform_trainer.gateway.record import read_calls
from castform_trainer.gateway.trajectory import build_segments

FIND = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Look a word up.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
        },
    }
]
WORDS = (
    "hello",
    "sunflower",
    "the tool",
    "an ending",
    "100",
    "ä",
    "<|im_end|>",
    '{"x": [1, true]}',
    "a\n\nb",
)


class LoggingEngine:
    """Samples scripted texts in a random spelling, and keeps its own log of what it did, by seed."""

    name = "logging"
    max_context_tokens = 8192

    def __init__(self, tokenizer: Any, *, thinks: bool = False) -> None:
        self.eos_token_ids = (tokenizer.convert_tokens_to_ids("<|im_end|>"),)
        self.log: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._encode = cache(lambda text: tokenizer.encode(text, add_special_tokens=False))
        self._thinks = thinks

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, version: int | None = None
    ) -> Generation:
        rng = random.Random(sampling.seed)
        await asyncio.sleep(0)
        ids = [*self._spell(self._write(rng), rng), *self.eos_token_ids]
        reason = "stop" if len(ids) <= sampling.max_new_tokens else "length"
        ids = ids[: sampling.max_new_tokens]
        self.log[sampling.seed] = (tuple(prompt_ids), tuple(ids))
        logprobs = tuple(-rng.random() for _ in ids)
        return Generation(ids=tuple(ids), logprobs=logprobs, finish_reason=reason, version=1)

    def _write(self, rng: random.Random) -> str:
        thought = f"<think>\n{rng.choice(WORDS)}\n</think>\n\n" if self._thinks else ""
        kind = rng.random()
        if kind < 0.6:
            gap = rng.choice(["", " ", "\n"])
            call = f'<tool_call>\n{{"arguments":{gap}{{"word":{gap} "{rng.choice(WORDS[:6])}"}},{gap}"name": "find"}}\n</tool_call>'
            return thought + rng.choice(["", "hello the tool\n"]) + call
        if kind < 0.7:
            return thought + '<tool_call>\n{"name": "find", "arguments": {"word": }}\n</tool_call>'
        return thought + "hello, the answer is " + rng.choice(WORDS)

    def _spell(self, text: str, rng: random.Random) -> list[int]:
        """Encode in random pieces: a spelling that encoding the whole text rarely gives."""
        ids: list[int] = []
        while text:
            size = rng.randint(1, 6)
            ids += self._encode(text[:size])
            text = text[size:]
        return ids


async def play(client: openai.AsyncOpenAI, number: int) -> None:
    """One rollout: four turns; now and then streamed, with two replies, or with a cut reply."""
    rng = random.Random(number)
    messages: list[Any] = [{"role": "user", "content": f"go {number} {rng.choice(WORDS)}"}]
    for _ in range(4):
        kind = rng.choice(["plain", "plain", "stream", "two", "short"])
        options: dict[str, Any] = {"model": "m", "messages": messages, "tools": FIND}
        if kind == "stream":
            chunks = await client.chat.completions.create(**options, stream=True)
            reply = merge_stream([c.model_dump(exclude_none=True) async for c in chunks])
        else:
            extra = {"two": {"n": 2}, "short": {"max_tokens": 7}}.get(kind, {})
            answer = await client.chat.completions.create(**options, **extra)
            reply = answer.choices[-1].message.model_dump(exclude_none=True)
        messages.append(reply)
        if reply.get("tool_calls"):
            messages += [
                {"role": "tool", "tool_call_id": c["id"], "content": rng.choice(WORDS)}
                for c in reply["tool_calls"]
            ]
        else:
            messages.append({"role": "user", "content": rng.choice(WORDS)})


async def run_rollouts(
    tokenizer: Any, engine: LoggingEngine, log_path: Path, *, count: int = 200
) -> list[list[ModelCall]]:
    gateway = Gateway(engine, tokenizer, log_path=log_path, model_name="m").start()
    endpoint = GatewayEndpoint(gateway)
    slots = asyncio.Semaphore(32)

    shared = openai.AsyncOpenAI(api_key="-", http_client=openai.DefaultAioHttpClient())

    async def one(number: int) -> list[ModelCall]:
        async with slots:
            spec = SessionSpec(session_id=f"r{number}", sampling=Sampling(max_new_tokens=400, seed=number))
            grant = await endpoint.open_session(spec)
            await play(shared.with_options(base_url=grant.base_url, api_key=grant.api_key), number)
            calls = list(await endpoint.collect(spec.session_id))
            await endpoint.close_session(spec.session_id)
            return calls

    try:
        return await asyncio.gather(*(one(number) for number in range(count)))
    finally:
        await shared.close()
        await endpoint.aclose()


def check_rollouts(rollouts: list[list[ModelCall]], engine: LoggingEngine, log_path: Path) -> Fidelity:
    total = Fidelity()
    for calls in rollouts:
        said = {c.call_id: engine.log[c.sampling.seed] for c in calls}
        segments = build_segments(calls, unchosen="train")
        check_fidelity(segments, said)
        assert count_reencoded(build_segments(calls), said) == 0
        assert sum(sum(s.mask) for s in segments) == sum(len(ids) for _, ids in said.values())
        total += count_fidelity(calls)
    assert total.broken_calls == 0
    assert sum(len(calls) for calls in rollouts) == len(engine.log)
    by_id = {c.call_id: c for c in read_calls(log_path)}
    assert by_id == {c.call_id: c for calls in rollouts for c in calls}
    return total


@pytest.mark.parametrize(("template", "count"), [(TOOLS, 200), (PLAIN, 60), (MERGED_RESULTS, 60)])
async def test_every_turn_of_200_tool_rollouts_is_spliced(tmp_path: Path, template: str, count: int) -> None:
    tokenizer = make_fake_tokenizer(template)
    engine = LoggingEngine(tokenizer)
    rollouts = await run_rollouts(tokenizer, engine, tmp_path / "calls.jsonl", count=count)
    total = check_rollouts(rollouts, engine, tmp_path / "calls.jsonl")
    assert total.forked_calls == 0
    assert all(len(build_segments(calls)) == 1 for calls in rollouts)
    assert all(c.splice == ("first" if c.index == 0 else "spliced") for calls in rollouts for c in calls)
    respelled = [
        c
        for calls in rollouts
        for c in calls
        if list(c.sampled_ids) != tokenizer.encode(tokenizer.decode(c.sampled_ids), add_special_tokens=False)
    ]
    assert len(respelled) > count  # re-encoding would have gone wrong here


async def test_a_template_that_strips_thinking_forks_and_still_trains_only_what_was_sampled(
    tmp_path: Path,
) -> None:
    tokenizer = make_fake_tokenizer(STRIPS_THINKING)
    engine = LoggingEngine(tokenizer, thinks=True)
    rollouts = await run_rollouts(tokenizer, engine, tmp_path / "calls.jsonl", count=60)
    total = check_rollouts(rollouts, engine, tmp_path / "calls.jsonl")
    assert total.forked_calls > 0 and total.spliced_calls > 0


MODEL = Path(os.environ.get("CASTFORM_HOME", "~/.castform")).expanduser() / "models" / "smollm2-135m"


@pytest.mark.real
@pytest.mark.skipif(not MODEL.is_dir(), reason="castform model pull smollm2-135m has not run")
async def test_200_tool_rollouts_with_the_real_smollm2_tokenizer(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    engine = LoggingEngine(tokenizer)
    rollouts = await run_rollouts(tokenizer, engine, tmp_path / "calls.jsonl")
    total = check_rollouts(rollouts, engine, tmp_path / "calls.jsonl")
    assert total.forked_calls == 0 and total.spliced_calls > 200
