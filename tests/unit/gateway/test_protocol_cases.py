"""Cases C1, C2, C4, C6 and C7 from the field, as every dialect of the gateway answers them to its own SDK."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

DIALECTS = ("chat", "responses", "anthropic")
SCHEMA = {"type": "object", "properties": {}}
NAMES = ("city", "hour")


def spell(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


TWO = spell("city", '{"city": "Oslo"}') + "\n" + spell("hour", '{"h": 9}')
Calls = list[tuple[str, str, Any]]


async def ask_chat(grant: Any, history: list[Any], **options: Any) -> tuple[Calls, str, str]:
    tools = [
        {"type": "function", "function": {"name": n, "description": "d", "parameters": SCHEMA}} for n in NAMES
    ]
    async with (
        openai.AsyncOpenAI(base_url=grant.base_url, api_key=grant.api_key, max_retries=0) as client,
        client.chat.completions.stream(model="fake", messages=history, tools=tools, **options) as stream,
    ):
        choice = None
        async for event in stream:
            if event.type == "chunk" and event.snapshot.choices:
                choice = event.snapshot.choices[0]
    assert choice is not None
    calls = [
        (c.id, c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls or ()
    ]
    return calls, choice.message.content or "", choice.finish_reason or ""


async def ask_responses(grant: Any, history: list[Any], **options: Any) -> tuple[Calls, str, str]:
    tools = [{"type": "function", "name": n, "description": "d", "parameters": SCHEMA} for n in NAMES]
    if "max_tokens" in options:
        options["max_output_tokens"] = options.pop("max_tokens")
    async with (
        openai.AsyncOpenAI(base_url=grant.base_url, api_key=grant.api_key, max_retries=0) as client,
        client.responses.stream(model="fake", input=history, tools=tools, **options) as stream,
    ):
        answer = None
        async for event in stream:
            if event.type in ("response.completed", "response.incomplete"):
                answer = event.response
    assert answer is not None
    calls = [(i.call_id, i.name, json.loads(i.arguments)) for i in answer.output if i.type == "function_call"]
    details = answer.incomplete_details
    return calls, answer.output_text, details.reason if details else answer.status or ""


async def ask_anthropic(grant: Any, history: list[Any], **options: Any) -> tuple[Calls, str, str]:
    tools = [{"name": n, "description": "d", "input_schema": SCHEMA} for n in NAMES]
    options.setdefault("max_tokens", 400)
    root = grant.base_url.removesuffix("/v1")
    async with (
        anthropic.AsyncAnthropic(base_url=root, api_key=grant.api_key, max_retries=0) as client,
        client.messages.stream(model="fake", messages=history, tools=tools, **options) as stream,
    ):
        answer = await stream.get_final_message()
    calls = [(b.id, b.name, b.input) for b in answer.content if b.type == "tool_use"]
    text = "".join(b.text for b in answer.content if b.type == "text")
    return calls, text, answer.stop_reason or ""


ASK = {"chat": ask_chat, "responses": ask_responses, "anthropic": ask_anthropic}
CUT = {"chat": "length", "responses": "max_output_tokens", "anthropic": "max_tokens"}
DONE = {"chat": "stop", "responses": "completed", "anthropic": "end_turn"}
CALLED = {"chat": "tool_calls", "responses": "completed", "anthropic": "tool_use"}
GO = [{"role": "user", "content": "go"}]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_c6_streamed_calls_are_merged_into_those_that_are_recorded(make_bench, dialect):
    bench = await make_bench([f"hello\n{TWO}"])
    grant = await bench.open(model_aliases=("fake",))
    calls, text, finish = await ASK[dialect](grant, GO)
    assert [(name, arguments) for _, name, arguments in calls] == [
        ("city", {"city": "Oslo"}),
        ("hour", {"h": 9}),
    ]
    assert text.strip() == "hello" and finish == CALLED[dialect]
    (recorded,) = await bench.calls()
    assert [c["function"]["name"] for c in recorded.reply["tool_calls"]] == ["city", "hour"]
    assert len({id for id, _, _ in calls}) == 2 and recorded.dialect == dialect


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_c4_the_calls_decide_and_a_call_that_was_cut_is_no_call(make_bench, dialect):
    bench = await make_bench([TWO, "the end"])
    grant = await bench.open(model_aliases=("fake",))
    calls, _, finish = await ASK[dialect](grant, GO, max_tokens=60)
    assert (calls, finish) == ([], CUT[dialect])
    calls, text, finish = await ASK[dialect](grant, GO)
    assert (calls, text, finish) == ([], "the end", DONE[dialect])


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_c2_a_call_without_arguments_has_an_empty_object(make_bench, dialect):
    bench = await make_bench([spell("city", "{}")])
    grant = await bench.open(model_aliases=("fake",))
    ((_, name, arguments),), _, _ = await ASK[dialect](grant, GO)
    assert (name, arguments) == ("city", {})


def history(dialect: str, arguments: str, result: Any) -> list[Any]:
    """Return a conversation with one call that this gateway did not sample, and its result."""
    if dialect == "chat":
        call = {"id": "c1", "type": "function", "function": {"name": "city", "arguments": arguments}}
        return [
            *GO,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
        ]
    return [
        *GO,
        {"type": "function_call", "call_id": "c1", "name": "city", "arguments": arguments},
        {"type": "function_call_output", "call_id": "c1", "output": result},
    ]


@pytest.mark.parametrize("arguments", ["", "{}", '{"city": "Os', '"{}"', "[1]"])
@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_c1_odd_arguments_in_the_history_do_not_brick_the_session(make_bench, dialect, arguments):
    bench = await make_bench(["fine"])
    grant = await bench.open(model_aliases=("fake",))
    _, text, _ = await ASK[dialect](grant, history(dialect, arguments, "4"))
    assert text == "fine" and "4" in bench.text((await bench.calls())[0].prompt_ids)


@pytest.mark.parametrize("result", [[], [{"a": 1}], {"temp": 4}, 5], ids=str)
@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_c7_a_result_that_is_no_text_is_refused_by_name_or_read_as_none(make_bench, dialect, result):
    bench = await make_bench(["fine"])
    grant = await bench.open(model_aliases=("fake",))
    path, field = ("chat/completions", "messages") if dialect == "chat" else ("responses", "input")
    body = {"model": "fake", field: history(dialect, "{}", result)}
    headers = {"Authorization": f"Bearer {grant.api_key}"}
    async with bench.http.post(f"{grant.base_url}/{path}", json=body, headers=headers) as reply:
        answer = await reply.json()
    if result == []:
        assert reply.status == 200
    else:
        assert reply.status == 400 and "2" in answer["error"]["message"]
        assert not await bench.calls()
