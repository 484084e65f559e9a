"""A gateway on a fake engine, opened and closed around each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from transformers import PreTrainedTokenizerFast

from castform.calls import ModelCall, Sampling
from castform.endpoint import SessionGrant, SessionSpec
from castform_trainer.engines.fake import FakeEngine
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.gateway.fake_tokenizer import TOOLS, make_fake_tokenizer
from castform_trainer.gateway.fidelity import check_fidelity, count_fidelity
from castform_trainer.gateway.trajectory import build_segments

END = 2


@dataclass
class Bench:
    """A started gateway with one HTTP client."""

    gateway: Gateway
    endpoint: GatewayEndpoint
    engine: Any
    tokenizer: PreTrainedTokenizerFast
    http: aiohttp.ClientSession
    log_path: Path
    engine_log: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)

    async def open(self, session_id: str = "s", **spec: Any) -> SessionGrant:
        spec.setdefault("sampling", Sampling(max_new_tokens=500))
        return await self.endpoint.open_session(SessionSpec(session_id=session_id, **spec))

    async def chat(
        self, grant: SessionGrant, body: dict[str, Any], *, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        every = {"Authorization": f"Bearer {grant.api_key}", **(headers or {})}
        async with self.http.post(f"{grant.base_url}/chat/completions", json=body, headers=every) as reply:
            return reply.status, await reply.json()

    async def say(self, grant: SessionGrant, messages: list[dict[str, Any]], **body: Any) -> dict[str, Any]:
        """Ask, expect an answer, return the first message."""
        status, answer = await self.chat(grant, {"messages": messages, **body})
        assert status == 200, answer
        return answer["choices"][0]["message"]

    async def calls(self, session_id: str = "s") -> list[ModelCall]:
        return list(await self.endpoint.collect(session_id))

    def log_engine(self) -> None:
        """Let the engine write down what it is given and samples, apart from the gateway's records."""
        generate = self.engine.generate

        async def log(prompt_ids: Any, sampling: Any, **options: Any) -> Any:
            generation = await generate(prompt_ids, sampling, **options)
            self.engine_log.append((tuple(prompt_ids), tuple(generation.ids)))
            return generation

        self.engine.generate = log

    def check_trained(self, calls: list[ModelCall]) -> None:
        """Assert that every id sampled in these answered calls is trained, as the engine's own log has it."""
        log = {call.call_id: entry for call, entry in zip(calls, self.engine_log, strict=True)}
        segments = build_segments(calls)
        check_fidelity(segments, log)
        counts = count_fidelity(calls)
        assert counts.trained_tokens == sum(len(sampled) for _, sampled in self.engine_log) > 0
        assert sum(sum(segment.mask) for segment in segments) == counts.trained_tokens
        assert counts.broken_calls == 0

    def text(self, ids: Any) -> str:
        return str(self.tokenizer.decode(list(ids)))


MakeBench = Callable[..., Any]


def spell(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """Return ids that spell a text one character at a time: never the ids that encoding it gives."""
    return [i for char in text for i in tokenizer.encode(char, add_special_tokens=False)]


def script_texts(tokenizer: PreTrainedTokenizerFast, texts: list[str], *, end: bool = True) -> Any:
    """Return a script that answers with these texts in turn, spelled awkwardly; the last one repeats."""
    place = iter(range(10**9))

    def script(prompt: Any, sampling: Any) -> list[int]:
        text = texts[min(next(place), len(texts) - 1)]
        return spell(tokenizer, text) + ([END] if end else [])

    return script


@pytest.fixture
async def make_bench(tmp_path: Path) -> AsyncIterator[MakeBench]:
    benches: list[Bench] = []

    async def make(
        texts: list[str] | None = None,
        *,
        template: str = TOOLS,
        end: bool = True,
        engine: Any = None,
        grace: float = 0.0,
        **engine_options: Any,
    ) -> Bench:
        tokenizer = make_fake_tokenizer(template)
        script = script_texts(tokenizer, texts, end=end) if texts is not None else None
        engine = engine or FakeEngine(script=script, decode=tokenizer.decode, **engine_options)
        log_path = tmp_path / f"calls-{len(benches)}.jsonl"
        gateway = Gateway(
            engine, tokenizer, log_path=log_path, model_name="fake", retry_grace_seconds=grace
        ).start()
        bench = Bench(
            gateway=gateway,
            endpoint=GatewayEndpoint(gateway),
            engine=engine,
            tokenizer=tokenizer,
            http=aiohttp.ClientSession(),
            log_path=log_path,
        )
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        await bench.http.close()
        await bench.endpoint.aclose()
