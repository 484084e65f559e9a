"""Cases C6, F1, F7 and F8 from the field, bound to the real gateway."""

# ruff: noqa: E702, E741, RUF005, RUF012, BLE001 - the cases keep the wording they came with

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from castform.calls import Sampling
from castform.endpoint import SessionSpec
from castform_trainer.engines.contract import Generation
from castform_trainer.gateway import Gateway as RealGateway
from castform_trainer.gateway.completion import merge_stream
from castform_trainer.gateway.trajectory import build_segments, rollout_mask

VOCABULARY = {1: "sun", 2: "flower", 3: "sunflower", 8: "[q]", 9: "[tool]"}


def u(t):
    return {"role": "user", "content": t}


def a(t, **k):
    return {"role": "assistant", "content": t, **k}


def rejected(f):
    try:
        f()
    except Exception as e:
        return str(e)
    raise AssertionError("was accepted")


class ToyTokenizer:
    """Six words; a reply has no closer; text of new turns is encoded by `encode_new`."""

    chat_template = "toy, knows tools"
    all_special_tokens: list[str] = []

    def __init__(self, encode_new: Callable[[list[Any]], list[int]] | None) -> None:
        self._words = {text: [i] for i, text in VOCABULARY.items()}
        if encode_new is not None:
            self._words["[tool]"] = encode_new([])

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> str:
        shown = {"user": "[q]", "tool": "[tool]"}
        return "".join(shown.get(m["role"], m["content"]) for m in conversation)

    def encode(self, text: str, **options: Any) -> list[int]:
        ids: list[int] = []
        while text:
            word = max((w for w in self._words if text.startswith(w)), key=len)
            ids += self._words[word]
            text = text[len(word) :]
        return ids

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        return "".join(VOCABULARY.get(i, "") for i in token_ids)  # the end id 0 is no word

    def convert_tokens_to_ids(self, tokens: Any) -> None:
        return None


class UpstreamEngine:
    """Passes each prompt to the case's function and returns what it says, right or wrong."""

    name = "upstream"
    max_context_tokens = 100
    eos_token_ids = (0,)

    def __init__(self, upstream: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._upstream = upstream
        self.body: dict[str, Any] = {}
        self.answer: dict[str, Any] = {}

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, version: int | None = None
    ) -> Generation:
        self.answer = self._upstream({**self.body, "prompt_ids": list(prompt_ids)})
        return Generation(
            ids=self.answer["token_ids"], logprobs=self.answer["logprobs"], finish_reason="stop", version=0
        )


class CaseGateway:
    """The adapter that the cases call `Gateway`: every chat goes over HTTP to the real one."""

    started: list[RealGateway] = []

    def __init__(self, upstream: Any, encode_new: Any = None) -> None:
        self._engine = UpstreamEngine(upstream)
        self._gateway = RealGateway(
            self._engine, ToyTokenizer(encode_new), log_path=None, model_name="toy"
        ).start()
        self.started.append(self._gateway)
        self._grants: dict[str, Any] = {}
        self._lost_prompts = False

    def chat(self, session: str, body: dict[str, Any]) -> dict[str, Any]:
        if session not in self._grants:
            self._grants[session] = self._run(self._gateway.open_session(SessionSpec(session_id=session)))
        grant = self._grants[session]
        self._engine.body = body
        reply = httpx.post(
            f"{grant.base_url}/chat/completions",
            json=body,
            headers={"Authorization": f"Bearer {grant.api_key}"},
        ).json()
        if "error" in reply:
            raise ValueError(reply["error"]["message"])
        self._lost_prompts |= self._engine.answer["prompt_ids"] is None
        return reply["choices"][0]["message"]

    def segments(self, session: str, strict: bool = True) -> list[dict[str, Any]]:
        calls = self._run(self._gateway.collect(session))
        if self._lost_prompts:
            calls = [replace(call, prompt_ids=None) for call in calls]
        return [
            {"ids": list(s.ids), "mask": list(s.mask), "logprobs": list(s.logprobs)}
            for s in build_segments(calls)
        ]

    def _run(self, work: Any) -> Any:
        async def wait() -> Any:
            return await self._gateway.submit(work)

        return asyncio.run(wait())


Gateway = CaseGateway


@pytest.fixture(autouse=True)
def close_gateways() -> Iterator[None]:
    yield
    while CaseGateway.started:
        CaseGateway.started.pop().close()


def test_c6_streamed_tool_calls_are_merged_by_index():
    d = lambda *t: {"choices": [{"index": 0, "delta": {"tool_calls": list(t)}, "finish_reason": None}]}  # noqa: E731
    # fmt: off
    ch = [d({"index": 0, "id": "c1", "type": "function", "function": {"name": "city", "arguments": ""}}, {"index": 0, "function": {"arguments": '{"ci'}}),
          d({"index": 1, "id": "c2", "type": "function", "function": {"name": "hour", "arguments": '{"h'}}),
          d({"index": 0, "function": {"arguments": 'ty": "Oslo"'}}, {"index": 1, "function": {"arguments": '": 9}'}}),
          d({"index": 0, "function": {"arguments": "}"}}), {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
    tc = merge_stream(ch)["tool_calls"]
    assert [(x["id"], x["function"]["name"], json.loads(x["function"]["arguments"])) for x in tc] == [("c1", "city", {"city": "Oslo"}), ("c2", "hour", {"h": 9})]
    # fmt: on


def test_f1_the_next_prompt_holds_the_sampled_ids_not_their_text():
    # fmt: off
    def up(body): return {"prompt_ids": body.get("prompt_ids") or [8], "token_ids": [1, 2] if len(body["messages"]) == 1 else [3], "logprobs": [-0.1, -0.2] if len(body["messages"]) == 1 else [-0.3], "content": "sunflower"}
    g = Gateway(up, encode_new=lambda msgs: [9])
    m = [u("q")]; x = g.chat("s", {"messages": m}); m = m + [a(x["content"]), {"role": "tool", "tool_call_id": "k", "content": "t"}]
    g.chat("s", {"messages": m})
    s, = g.segments("s")
    assert s["ids"] == [8, 1, 2, 9, 3] and s["mask"] == [0, 1, 1, 0, 1]
    assert [l for l, k in zip(s["logprobs"], s["mask"]) if k] == [-0.1, -0.2, -0.3]
    # fmt: on


def eos_labels(ids, attn, pad, eos):
    """Labels of a padded reply: what was really there was sampled, what fills it up was appended."""
    assert pad == eos
    real = sum(attn)
    ids, mask = rollout_mask([("sampled", ids[:real]), ("appended", ids[real:])])
    return [i if k else -100 for i, k in zip(ids, mask)]


def test_f7_only_sampled_positions_are_trained():
    # fmt: off
    assert eos_labels([5, 6, 0, 0, 0], [1, 1, 1, 0, 0], pad=0, eos=0) == [5, 6, 0, -100, -100]
    ids, mask = rollout_mask([("prompt", [7, 8]), ("gen_prompt", [9]), ("sampled", [4, 5]), ("appended", [2]), ("template", [3])])
    assert ids == [7, 8, 9, 4, 5, 2, 3] and mask == [0, 0, 0, 1, 1, 0, 0]
    # fmt: on


def test_f8_records_that_do_not_add_up_are_refused_by_name():
    # fmt: off
    base = {"prompt_ids": [8], "token_ids": [1, 2], "logprobs": [-0.1, -0.2], "content": "x"}
    def try_(**k):
        g = Gateway(lambda b: {**base, **k}); g.chat("s", {"messages": [u("q")]}); return g.segments("s", strict=True)
    assert try_()[0]["ids"] == [8, 1, 2]
    for k, word in (({"logprobs": [-0.1, -0.2, -0.3]}, "logprob"), ({"logprobs": None}, "logprob"), ({"prompt_ids": None}, "prompt"), ({"token_ids": None}, "token"), ({"logprobs": [-0.1, float("nan")]}, "logprob")):
        assert word in rejected(lambda: try_(**k)).lower()
    # fmt: on
