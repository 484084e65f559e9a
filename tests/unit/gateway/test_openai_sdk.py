"""The official SDK against the real server: plain, streamed, n, tools, retries."""

from __future__ import annotations

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform_trainer.engines.contract import Generation
from castform_trainer.gateway.completion import make_chunks, merge_stream
from castform_trainer.gateway.trajectory import build_segments

FIND = [
    {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
]
CALLS = '<tool_call>\n{"name": "find", "arguments": {"w": "ä \\"q\\""}}\n</tool_call>'
GO = [{"role": "user", "content": "go"}]


def connect(grant, **options):
    return openai.AsyncOpenAI(base_url=grant.base_url, api_key=grant.api_key, **options)


async def test_a_tool_loop_with_the_sdks_own_message_objects(make_bench):
    bench = await make_bench([f"hello\n{CALLS}\n{CALLS}", "sunflower"])
    grant = await bench.open()
    async with connect(grant) as client:
        messages = list(GO)
        first = await client.chat.completions.create(model="fake", messages=messages, tools=FIND)
        reply = first.choices[0].message
        assert first.choices[0].finish_reason == "tool_calls" and reply.content == "hello"
        assert [c.function.name for c in reply.tool_calls] == ["find", "find"]
        assert len({c.id for c in reply.tool_calls}) == 2
        messages.append(reply)
        messages += [{"role": "tool", "tool_call_id": c.id, "content": "4"} for c in reply.tool_calls]
        second = await client.chat.completions.create(
            model="fake", messages=messages, tools=FIND, logprobs=True
        )
    assert second.choices[0].message.content == "sunflower"
    calls = await bench.calls()
    assert [p.logprob for p in second.choices[0].logprobs.content] == list(calls[1].logprobs)
    assert "".join(p.token for p in second.choices[0].logprobs.content) == "sunflower<|im_end|>"
    assert second.usage.prompt_tokens == len(calls[1].prompt_ids)
    assert [c.splice for c in calls] == ["first", "spliced"] and len(build_segments(calls)) == 1


async def test_a_stream_spells_the_message_that_is_recorded(make_bench):
    bench = await make_bench([f"hello\n{CALLS}", "sunflower " * 20])
    grant = await bench.open()
    async with connect(grant) as client:
        chunks = []
        async with client.chat.completions.stream(model="fake", messages=GO, tools=FIND) as stream:
            async for event in stream:
                if event.type == "chunk":
                    chunks.append(event.chunk.model_dump(exclude_none=True))
            final = (await stream.get_final_completion()).choices[0]
        recorded = (await bench.calls())[0].reply
        assert merge_stream(chunks) == recorded
        assert final.finish_reason == "tool_calls"
        assert (
            final.message.tool_calls[0].function.arguments
            == recorded["tool_calls"][0]["function"]["arguments"]
        )
        pieces = await client.chat.completions.create(
            model="fake", messages=GO, stream=True, n=3, stream_options={"include_usage": True}
        )
        seen = [chunk async for chunk in pieces]
    assert seen[-1].choices == [] and seen[-1].usage.completion_tokens > 0
    calls = await bench.calls()
    for choice in range(3):
        text = merge_stream([c.model_dump(exclude_none=True) for c in seen], choice=choice)["content"]
        assert text == "sunflower " * 20 == calls[1 + choice].reply["content"]


async def test_n_choices_are_n_records(make_bench):
    bench = await make_bench(["hello", "sun", "flower"])
    grant = await bench.open()
    async with connect(grant) as client:
        answer = await client.chat.completions.create(model="fake", messages=GO, n=3)
    assert [c.message.content for c in answer.choices] == ["hello", "sun", "flower"]
    assert [c.choice for c in await bench.calls()] == [0, 1, 2]


class FlakyEngine:
    name = "flaky"
    max_context_tokens = 1000
    eos_token_ids = (2,)

    def __init__(self):
        self.count = 0

    async def generate(self, prompt_ids, sampling, *, version=None):
        self.count += 1
        if self.count == 1:
            raise RuntimeError("hiccup")
        return Generation(ids=(74, 2), logprobs=(-0.5, -0.25), finish_reason="stop", version=0)


async def test_the_sdks_own_retry_after_a_server_error_leaves_one_record(make_bench):
    bench = await make_bench(engine=FlakyEngine())
    grant = await bench.open()
    async with connect(grant, max_retries=2) as client:
        answer = await client.chat.completions.create(model="fake", messages=GO)
    assert answer.choices[0].finish_reason == "stop"
    assert bench.engine.count == 2 and len(await bench.calls()) == 1


async def test_errors_arrive_as_the_sdks_own_types_with_our_codes(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open(max_context_tokens=40)
    async with connect(grant, max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(
                model="fake", messages=[{"role": "user", "content": "x" * 100}]
            )
        assert caught.value.code == "context_budget_exceeded"
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(
                model="fake", messages=GO, tools=FIND, tool_choice="required"
            )
        assert (caught.value.code, caught.value.param) == ("unsupported_model_control", "tool_choice")
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="wrong").chat.completions.create(model="fake", messages=GO)
        assert [m.id async for m in client.models.list()] == ["fake"]


TEXT = st.text(max_size=120)


@settings(deadline=None)
@given(
    content=st.none() | TEXT,
    reasoning=st.text(max_size=60),
    calls=st.lists(st.tuples(st.text(min_size=1, max_size=9), TEXT), max_size=3),
)
def test_streaming_a_message_and_merging_it_gives_it_back(content, reasoning, calls):
    import json
    from dataclasses import replace

    from castform.calls import ModelCall

    reply = {"role": "assistant", "content": content}
    if reasoning:
        reply["reasoning_content"] = reasoning
    if calls:
        reply["tool_calls"] = [
            {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": text}}
            for i, (name, text) in enumerate(calls)
        ]
    call = ModelCall(call_id="s/0/0", session_id="s", index=0, messages=(), reply=reply, finish_reason="stop")
    events = make_chunks(
        [(replace(call, choice=1, reply={"role": "assistant", "content": "other"}), None), (call, None)],
        completion_id="x",
        model="m",
        created=0,
        usage=True,
    )
    lines = [event.removeprefix(b"data: ").strip() for event in events]
    assert lines[-1] == b"[DONE]"
    assert merge_stream([json.loads(line) for line in lines[:-1]]) == reply
