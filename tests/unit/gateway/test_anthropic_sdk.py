"""Anthropic's own SDK against the real server: tools, thinking, streams, counts, retries, errors."""

from __future__ import annotations

import asyncio

import anthropic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.calls import ModelCall
from castform_trainer.engines.contract import Generation
from castform_trainer.gateway.dialects.anthropic.reply import _empty, _list_deltas, list_blocks
from castform_trainer.gateway.fake_tokenizer import MERGED_RESULTS, STRIPS_THINKING, TOOLS

FIND = [
    {
        "name": "find",
        "description": "x",
        "input_schema": {"type": "object", "properties": {"all": {"type": "boolean", "default": False}}},
    }
]
CALL = '<tool_call>\n{"name": "find", "arguments": {"w": "ä \\"q\\"", "n": 1.0}}\n</tool_call>'
GO = [{"role": "user", "content": "go"}]


def connect(grant, **options):
    options.setdefault("max_retries", 0)
    return anthropic.AsyncAnthropic(
        base_url=grant.base_url.removesuffix("/v1"), api_key=grant.api_key, **options
    )


def give_results(reply):
    """Return the user's turn that answers every call of a reply."""
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": [{"type": "text", "text": "4"}]}
        for block in reply.content
        if block.type == "tool_use"
    ]
    return {"role": "user", "content": [*results, {"type": "text", "text": "and now?"}]}


@pytest.mark.parametrize(
    "template", [TOOLS, MERGED_RESULTS, STRIPS_THINKING], ids=["plain", "merged", "thinking"]
)
async def test_a_tool_loop_of_four_turns_trains_what_the_engine_sampled(make_bench, template):
    think = "<think>\nhm\n</think>\n\n" if template == STRIPS_THINKING else ""
    texts = [f"{think}hello\n{CALL}\n{CALL}", f"{think}{CALL}", f"{think}sun\n{CALL}", "sunflower " * 9]
    bench = await make_bench(texts, template=template)
    bench.log_engine()
    grant = await bench.open(model_aliases=("claude-*",))
    messages = list(GO)
    async with connect(grant) as client:
        about = {"model": "claude-x", "max_tokens": 400, "tools": FIND, "system": "be brief"}
        for turn in range(4):
            async with client.messages.stream(
                messages=messages, thinking={"type": "enabled", "budget_tokens": 1024}, **about
            ) as stream:
                reply = await stream.get_final_message()
            if turn < 3:
                assert reply.stop_reason == "tool_use" and reply.model == "claude-x"
                assert bool(think) == (reply.content[0].type == "thinking")
                messages += [{"role": "assistant", "content": reply.content}, give_results(reply)]
    assert reply.content[-1].text == "sunflower " * 9 and reply.stop_reason == "end_turn"
    calls = await bench.calls()
    rewritten = template == STRIPS_THINKING  # each user turn takes the thinking before it out of the prompt
    kinds = ["first", *(["forked"] * 3 if rewritten else ["spliced"] * 3)]
    assert [call.splice for call in calls] == kinds
    assert {call.dialect for call in calls} == {"anthropic"}
    assert "model=claude-x->fake" in calls[0].overrides
    bench.check_trained(calls)


async def test_the_plain_client_in_a_thread_and_a_count_that_is_exact(make_bench):
    bench = await make_bench([f"hello\n{CALL}", "sun"])
    grant = await bench.open()

    def talk():
        with anthropic.Anthropic(base_url=grant.base_url, auth_token=grant.api_key, api_key=None) as client:
            about = {"model": "fake", "tools": FIND, "system": [{"type": "text", "text": "s"}]}
            one = client.messages.create(messages=GO, max_tokens=300, **about)
            more = [*GO, {"role": "assistant", "content": one.content}, give_results(one)]
            count = client.messages.count_tokens(messages=more, **about)
            two = client.messages.create(messages=more, max_tokens=300, **about)
            return one, count, two

    one, count, two = await asyncio.to_thread(talk)
    calls = await bench.calls()
    assert one.content[1].input == {"w": 'ä "q"', "n": 1.0} and one.usage.output_tokens == len(
        calls[0].sampled_ids
    )
    assert count.input_tokens == two.usage.input_tokens == len(calls[1].prompt_ids)
    assert [call.splice for call in calls] == ["first", "spliced"]


async def test_a_stream_sends_the_events_in_the_order_of_the_api(make_bench):
    bench = await make_bench([f"hello\n{CALL}"])
    grant = await bench.open()
    async with connect(grant) as client:
        stream = await client.messages.create(
            model="fake", max_tokens=300, messages=GO, tools=FIND, stream=True
        )
        events = [event async for event in stream]
    assert [event.type for event in events] == [
        "message_start",
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    assert [event.index for event in events[1:7]] == [0, 0, 0, 1, 1, 1]
    assert events[0].message.content == [] and events[0].message.usage.input_tokens > 0
    assert events[4].content_block.input == {} and events[5].delta.type == "input_json_delta"
    assert events[7].delta.stop_reason == "tool_use" and events[7].usage.output_tokens > 0


async def test_stop_sequences_and_limits_are_told_apart(make_bench):
    bench = await make_bench(["hello sunflower"])
    grant = await bench.open()
    async with connect(grant) as client:
        ask = {"model": "fake", "messages": GO}
        stopped = await client.messages.create(max_tokens=99, stop_sequences=["zz", " sun"], **ask)
        cut = await client.messages.create(max_tokens=4, **ask)
        whole = await client.messages.create(max_tokens=99, stop_sequences=["zz"], **ask)
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " sun")
    assert stopped.content[0].text == "hello"
    assert (cut.stop_reason, cut.stop_sequence, cut.usage.output_tokens) == ("max_tokens", None, 4)
    assert (whole.stop_reason, whole.stop_sequence) == ("end_turn", None)


class FlakyEngine:
    name = "flaky"
    max_context_tokens = 1000
    eos_token_ids = (2,)

    def __init__(self, failures: int) -> None:
        self.count, self.failures = 0, failures

    async def generate(self, prompt_ids, sampling, *, version=None):
        self.count += 1
        if self.count <= self.failures:
            raise RuntimeError("hiccup")
        return Generation(ids=(74, 2), logprobs=(-0.5, -0.25), finish_reason="stop", version=0)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_the_sdks_own_retries_after_server_errors_leave_one_record(make_bench, stream, monkeypatch):
    monkeypatch.setattr("anthropic._base_client.INITIAL_RETRY_DELAY", 0.01)
    bench = await make_bench(engine=FlakyEngine(2))
    grant = await bench.open()
    async with connect(grant, max_retries=2) as client:
        answer = await client.messages.create(model="fake", max_tokens=9, messages=GO, stream=stream)
        if stream:
            assert [event.type async for event in answer][-1] == "message_stop"
    (call,) = await bench.calls()
    assert bench.engine.count == 3 and call.error is None and call.finish_reason == "stop"


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
REFUSED = {
    "forced-any": ({"tools": FIND, "tool_choice": {"type": "any"}}, "unsupported_model_control"),
    "forced-tool": (
        {"tools": FIND, "tool_choice": {"type": "tool", "name": "find"}},
        "unsupported_model_control",
    ),
    "schema": (
        {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
        "unsupported_model_control",
    ),
    "image": ({"messages": [{"role": "user", "content": [IMAGE]}]}, "unsupported_content"),
    "prefill": ({"messages": [*GO, {"role": "assistant", "content": "He"}]}, "invalid_messages"),
    "search-alone": (
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "unsupported_tool",
    ),
    "computer": (
        {"tools": [{"type": "computer_20250124", "name": "computer", "display_width_px": 1}, *FIND]},
        "unsupported_tool",
    ),
    "temperature": ({"extra_body": {"temperature": "hot"}}, "invalid_parameter"),
    "long": ({"messages": [{"role": "user", "content": "x" * 4000}]}, "context_budget_exceeded"),
}


async def test_what_cannot_be_done_is_a_bad_request_in_the_apis_words(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open(max_context_tokens=2000)
    async with connect(grant) as client:
        for name, (body, code) in REFUSED.items():
            with pytest.raises(anthropic.BadRequestError) as caught:
                await client.messages.create(**{"model": "fake", "max_tokens": 9, "messages": GO, **body})
            error = caught.value.body["error"]
            told = (caught.value.body["type"], error["type"], error["code"])
            assert told == ("error", "invalid_request_error", code), name
            if name == "long":
                assert error["message"].startswith("prompt is too long: 40")
                assert error["message"].endswith(" > 1999 maximum")
    assert await bench.calls() == []


async def test_other_errors_arrive_as_the_sdks_own_types(make_bench):
    bench = await make_bench(engine=FlakyEngine(9))
    grant = await bench.open()
    async with connect(grant) as client:
        ask = {"max_tokens": 9, "messages": GO}
        with pytest.raises(anthropic.AuthenticationError):
            await client.with_options(api_key="wrong").messages.create(model="fake", **ask)
        with pytest.raises(anthropic.NotFoundError, match="serves 'fake', not 'claude-x'"):
            await client.messages.create(model="claude-x", **ask)
        with pytest.raises(anthropic.InternalServerError, match="hiccup"):
            await client.messages.create(model="fake", **ask)
        assert [m.id async for m in client.models.list()] == ["fake"]
        assert (await client.models.retrieve("fake")).display_name == "fake"


@settings(max_examples=25, deadline=None)
@given(
    content=st.none() | st.text(max_size=120),
    reasoning=st.text(max_size=60),
    calls=st.lists(
        st.dictionaries(st.text(max_size=4), st.text(max_size=80) | st.integers(), max_size=3), max_size=3
    ),
)
def test_deltas_spell_the_blocks_they_come_from(content, reasoning, calls):
    import json

    reply = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    reply["tool_calls"] = [
        {"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": json.dumps(value)}}
        for i, value in enumerate(calls)
    ]
    call = ModelCall(call_id="s/0/0", session_id="s", index=0, messages=(), reply=reply, finish_reason="stop")
    for block in list_blocks(call, shows_thinking=True):
        built, text = _empty(block), ""
        for delta in _list_deltas(block):
            if delta["type"] == "input_json_delta":
                text += delta["partial_json"]
            for key in ("text", "thinking", "signature"):
                built[key] = built.get(key, "") + delta.get(key, "") if key in delta else built.get(key)
        if block["type"] == "tool_use":
            built["input"] = json.loads(text)
        assert {key: value for key, value in built.items() if value is not None} == block
