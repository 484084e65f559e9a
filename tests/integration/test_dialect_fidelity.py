"""Tool rollouts in Responses and Anthropic Messages: clients that word history anew, and what would be trained."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from transformers import AutoTokenizer

from castform.calls import ModelCall, Sampling
from castform.endpoint import SessionGrant, SessionSpec
from castform_trainer.engines.contract import Generation
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.gateway.fake_tokenizer import MERGED_RESULTS, PLAIN, TOOLS, make_fake_tokenizer
from castform_trainer.gateway.fidelity import Fidelity, check_fidelity, count_fidelity
from castform_trainer.gateway.trajectory import build_segments

SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string"}, "all": {"type": "boolean", "default": False}},
}
WORDS = ("hello", "sunflower", "the tool", "100", "ä", "<|im_end|>", '{"x": [1, true]}', "a\n\nb", " end ")


class SpellingEngine:
    """Samples scripted texts in a random spelling, and keeps its own log of what it did, by seed."""

    name = "spelling"
    max_context_tokens = 8192

    def __init__(self, tokenizer: Any) -> None:
        self.eos_token_ids = (tokenizer.convert_tokens_to_ids("<|im_end|>"),)
        self.log: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._encode = cache(lambda text: tokenizer.encode(text, add_special_tokens=False))

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, version: int | None = None
    ) -> Generation:
        rng = random.Random(sampling.seed)
        await asyncio.sleep(0)
        text, ids = self._write(rng), []
        while text:
            size = rng.randint(1, 6)
            ids += self._encode(text[:size])
            text = text[size:]
        ids = [*ids, *self.eos_token_ids]
        reason = "stop" if len(ids) <= sampling.max_new_tokens else "length"
        ids = ids[: sampling.max_new_tokens]
        self.log[sampling.seed] = (tuple(prompt_ids), tuple(ids))
        logprobs = tuple(-rng.random() for _ in ids)
        return Generation(ids=tuple(ids), logprobs=logprobs, finish_reason=reason, version=1)

    def _write(self, rng: random.Random) -> str:
        call = f'<tool_call>\n{{"arguments": {{"n": 2.0, "word":  {json.dumps(rng.choice(WORDS[:5]))}}}, "name": "find"}}\n</tool_call>'
        kind = rng.random()
        if kind < 0.6:
            return rng.choice(["", "hello the tool\n"]) + call * rng.randint(1, 2)
        if kind < 0.7:
            return '<tool_call>\n{"name": "find", "arguments": {"word": }}\n</tool_call>'
        return rng.choice(["", "hello, the answer is "]) + rng.choice(WORDS)


class Client:
    """One rollout. Keeps the conversation as its API has it."""

    def __init__(self, http: aiohttp.ClientSession, grant: SessionGrant, seed: int) -> None:
        self.http, self.grant, self.rng = http, grant, random.Random(seed)

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask, now and then as a stream, and twice when the first answer is said to be lost."""
        stream = self.rng.random() < 0.4
        answers = []
        for count in range(self.rng.choice([1, 1, 2])):
            headers = {"Authorization": f"Bearer {self.grant.api_key}", "x-stainless-retry-count": str(count)}
            async with self.http.post(
                self.grant.base_url + path, json={**body, "stream": stream}, headers=headers
            ) as reply:
                assert reply.status == 200, await reply.text()
                answers.append(self.merge(await reply.read()) if stream else await reply.json())
        assert len({answer["id"] for answer in answers}) == 1
        return answers[-1]


class Anthropic(Client):
    """Sends numbers and defaults in the manner of JavaScript, and cuts its turns at random."""

    tools = ({"name": "find", "input_schema": SCHEMA},)

    async def play(self) -> None:
        messages: list[Any] = [{"role": "user", "content": f"go {self.rng.choice(WORDS)}"}]
        for _ in range(4):
            limit = 7 if self.rng.random() < 0.15 else 400
            body = {
                "model": "x",
                "max_tokens": limit,
                "messages": messages,
                "tools": self.tools,
                "system": "s",
            }
            reply = await self.post("/messages", body)
            messages += self.echo(reply["content"])
            results: list[Any] = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": self.rng.choice(WORDS)}
                for block in reply["content"]
                if block["type"] == "tool_use"
            ]
            text = {"type": "text", "text": self.rng.choice(WORDS), "cache_control": {"type": "ephemeral"}}
            messages += self.rng.choice(
                [
                    [{"role": "user", "content": [*results, text]}],
                    [{"role": "user", "content": [block]} for block in (*results, text)],
                ]
            )

    def echo(self, blocks: list[Any]) -> list[Any]:
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = {"all": False, **block["input"], "n": 2}
        if len(blocks) > 1 and self.rng.random() < 0.5:
            return [{"role": "assistant", "content": [block]} for block in blocks]
        return [{"role": "assistant", "content": blocks}]

    def merge(self, data: bytes) -> dict[str, Any]:
        message: dict[str, Any] = {}
        for event in list_events(data):
            if event["type"] == "message_start":
                message = event["message"]
            elif event["type"] == "content_block_start":
                message["content"].append({**event["content_block"], "json": ""})
            elif event["type"] == "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                if delta["type"] == "text_delta":
                    block["text"] += delta["text"]
                else:
                    block["json"] += delta["partial_json"]
        for block in message["content"]:
            text = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(text)
        return message


class Responses(Client):
    """Sends turns back whole, without ids, or by the id of the response."""

    tools = ({"type": "function", "name": "find", "parameters": SCHEMA},)

    async def play(self) -> None:
        items: list[Any] = [{"role": "user", "content": f"go {self.rng.choice(WORDS)}"}]
        about: dict[str, Any] = {"model": "x", "tools": self.tools, "instructions": "s"}
        way = self.rng.choice(["whole", "bare", "stored"])
        for _ in range(4):
            limit = 7 if self.rng.random() < 0.15 else 400
            reply = await self.post("/responses", {**about, "input": items, "max_output_tokens": limit})
            more: list[Any] = [
                {"type": "function_call_output", "call_id": item["call_id"], "output": self.rng.choice(WORDS)}
                for item in reply["output"]
                if item["type"] == "function_call"
            ]
            more.append({"role": "user", "content": [{"type": "input_text", "text": self.rng.choice(WORDS)}]})
            if way == "stored":
                about["previous_response_id"], items = reply["id"], more
                continue
            echo = reply["output"]
            if way == "bare":
                echo = [{k: v for k, v in item.items() if k not in ("id", "status")} for item in echo]
            items = [*items, *echo, *more]

    def merge(self, data: bytes) -> dict[str, Any]:
        last = list_events(data)[-1]
        assert last["type"] in ("response.completed", "response.incomplete")
        return dict(last["response"])


def list_events(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(part.split(b"data: ")[1]) for part in data.strip().split(b"\n\n")]


async def run_rollouts(tokenizer: Any, kind: type[Client], count: int) -> Fidelity:
    """Play rollouts one beside the other; check that exactly what was sampled would be trained."""
    engine = SpellingEngine(tokenizer)
    gateway = Gateway(engine, tokenizer, log_path=None, model_name="m").start()
    endpoint = GatewayEndpoint(gateway)

    async def one(number: int) -> list[ModelCall]:
        sampling = Sampling(max_new_tokens=400, seed=number)
        spec = SessionSpec(session_id=f"r{number}", sampling=sampling, model_aliases=("*",))
        grant = await endpoint.open_session(spec)
        await kind(http, grant, number).play()  # type: ignore[attr-defined]  # each kind has its own
        return list(await endpoint.collect(spec.session_id))

    try:
        async with aiohttp.ClientSession() as http:
            rollouts = await asyncio.gather(*(one(number) for number in range(count)))
    finally:
        await endpoint.aclose()
    total = Fidelity()
    for calls in rollouts:
        assert len(calls) == 4  # a retry is no call
        (segment,) = build_segments(calls)
        check_fidelity([segment], {call.call_id: engine.log[call.sampling.seed] for call in calls})
        assert sum(segment.mask) == sum(len(call.sampled_ids) for call in calls)
        total += count_fidelity(calls)
    assert total.broken_calls == 0 and len(engine.log) == 4 * count
    return total


@pytest.mark.parametrize("kind", [Anthropic, Responses], ids=["anthropic", "responses"])
@pytest.mark.parametrize("template", [TOOLS, PLAIN, MERGED_RESULTS], ids=["tools", "plain", "merged"])
async def test_every_turn_is_spliced_however_the_client_words_the_history(
    template: str, kind: type[Client]
) -> None:
    total = await run_rollouts(make_fake_tokenizer(template), kind, 6)
    assert (total.first_calls, total.spliced_calls, total.forked_calls) == (6, 18, 0)


MODEL = Path(os.environ.get("CASTFORM_HOME", "~/.castform")).expanduser() / "models" / "smollm2-135m"


@pytest.mark.real
@pytest.mark.skipif(not MODEL.is_dir(), reason="castform model pull smollm2-135m has not run")
@pytest.mark.parametrize("kind", [Anthropic, Responses], ids=["anthropic", "responses"])
async def test_every_turn_is_spliced_with_the_real_smollm2_tokenizer(kind: type[Client]) -> None:
    total = await run_rollouts(AutoTokenizer.from_pretrained(MODEL), kind, 20)
    assert (total.first_calls, total.spliced_calls, total.forked_calls) == (20, 60, 0)
