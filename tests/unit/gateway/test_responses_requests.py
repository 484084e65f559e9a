"""What Responses requests are read as, and tools that are no plain functions."""

from __future__ import annotations

import asyncio

import pytest

from castform_trainer.gateway.dialects.responses.items import read_items, seal_reasoning
from castform_trainer.gateway.dialects.responses.tools import read_tools
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.messages import normalize_messages

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "4"}


def read(items, instructions=None):
    return normalize_messages(read_items(items, instructions=instructions, find_item=lambda _: None))


def part(text, kind="input_text"):
    return {"type": kind, "text": text}


def said(role, *parts, **more):
    return {"type": "message", "role": role, "content": list(parts), **more}


PLAIN = [
    {"role": "user", "content": "go\nnow"},
    {"role": "assistant", "content": "ok"},
    CALL,
    OUTPUT,
    {"role": "user", "content": "next"},
]
SAME = {
    "typed, with ids": [
        said("user", part("go"), part("now"), id="m1", status="completed"),
        said("assistant", part("o", "output_text"), part("k", "output_text"), id="m2"),
        {**CALL, "id": "fc1", "status": "completed", "arguments": '{ "a":1 }'},
        {**OUTPUT, "id": "o1", "output": [part("4")]},
        said("user", part("next")),
    ],
    "several messages": [said("user", part("go")), said("user", part("now")), *PLAIN[1:]],
    "reasoning by id": [PLAIN[0], {"type": "reasoning", "id": "rs", "summary": []}, *PLAIN[1:]],
    "reasoning sealed elsewhere": [
        PLAIN[0],
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAAA="},
        *PLAIN[1:],
    ],
}


@pytest.mark.parametrize("name", SAME)
def test_one_conversation_in_other_words_is_the_same(name):
    assert read(SAME[name]) == read(PLAIN)


def test_items_become_turns_that_every_template_takes():
    found = read(
        [
            said("developer", part("two")),
            said("user", part("go")),
            said("developer", part("rules changed")),
            {"type": "reasoning", "summary": [], "encrypted_content": seal_reasoning("hm")},
            said("assistant", part("ok", "output_text")),
            {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"},
            {
                "type": "local_shell_call",
                "call_id": "c2",
                "action": {"type": "exec", "command": ["ls"], "env": {}, "user": None},
            },
            {**CALL, "call_id": "c3", "name": "spawn", "namespace": "agents"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
            {"type": "local_shell_call_output", "id": "c2", "output": "a.txt"},
            {**OUTPUT, "call_id": "c3"},
        ],
        instructions="one",
    )
    names = ["patch", "local_shell", "agents__spawn"]
    arguments = [{"input": "*** Begin"}, {"command": ["ls"]}, {"a": 1}]
    assert found == [
        {"role": "system", "content": "one\ntwo"},
        {"role": "user", "content": "go\n<system>\nrules changed\n</system>"},
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [
                {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": value}}
                for i, (name, value) in enumerate(zip(names, arguments, strict=True), start=1)
            ],
            "reasoning_content": "hm",
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "tool", "tool_call_id": "c2", "content": "a.txt"},
        {"role": "tool", "tool_call_id": "c3", "content": "4"},
    ]


@pytest.mark.parametrize(
    ("item", "status"),
    [
        ({"type": "message", "role": "wizard", "content": "x"}, 400),
        ({"role": "user", "content": 5}, 400),
        ({"role": "user", "content": [{"type": "input_file"}]}, 400),
        ({"type": "function_call", "call_id": "c", "name": "f"}, 400),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, 400),
        ({"type": "function_call_output", "output": "x"}, 400),
        ({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": {}}, 400),
        ({"type": "local_shell_call", "call_id": "c"}, 400),
        ({"type": "compaction", "encrypted_content": "x"}, 400),
        ({"type": "item_reference", "id": "nope"}, 404),
        ({"id": "nope"}, 404),
        ({}, 400),
    ],
    ids=str,
)
def test_an_item_that_is_wrong_is_named(item, status):
    with pytest.raises(ApiError) as caught:
        read([item])
    assert caught.value.status == status and caught.value.param


@pytest.mark.parametrize(
    "tools",
    [
        "x",
        ["x"],
        [{"type": "function"}],
        [{"type": "function", "name": "f", "parameters": "x"}],
        [{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "x"}]}],
        [{"type": "namespace", "tools": []}],
        [{"type": "custom"}],
        [{"type": "shell"}],
        [{"type": None}],
        [{"type": "mcp"}],
    ],
    ids=str,
)
def test_tools_that_are_wrong_or_cannot_be_run_are_refused(tools):
    with pytest.raises(ApiError) as caught:
        read_tools(tools)
    assert caught.value.status == 400 and caught.value.code in ("invalid_tools", "unsupported_tool")


OWN = [
    {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
    {"type": "local_shell"},
    {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
    {"type": "namespace", "name": "mcp__files", "tools": [{"type": "function", "name": "read__all"}]},
    {"type": "function", "name": "not__a_space", "strict": True},
    {"type": "web_search", "external_web_access": True},
]


def tool_call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


CALLS = [
    tool_call("patch", '{"input": "*** Begin Patch\\n"}'),
    tool_call("local_shell", '{"command": ["ls"], "timeout_ms": 5, "env": {}}'),
    tool_call("agents__spawn", '{"x": 1}'),
    tool_call("mcp__files__read__all", "{}"),
    tool_call("not__a_space", "{}"),
]


async def post(bench, grant, body, *, path="/responses"):
    headers = {"Authorization": f"Bearer {grant.api_key}"}
    async with bench.http.post(grant.base_url + path, json=body, headers=headers) as reply:
        return reply.status, await reply.json()


async def test_calls_come_in_the_form_of_their_tools_and_their_echo_is_spliced(make_bench):
    bench = await make_bench(["\n".join(CALLS), "sun"])
    grant = await bench.open()
    about = {"model": "fake", "tools": OWN, "store": False}
    asked = [{"role": "user", "content": "go"}]
    status, one = await post(bench, grant, {**about, "input": asked})
    assert status == 200, one
    custom, shell, spawn, read_all, plain = one["output"]
    assert (custom["type"], custom["name"], custom["input"]) == (
        "custom_tool_call",
        "patch",
        "*** Begin Patch\n",
    )
    assert shell["type"] == "local_shell_call"
    assert shell["action"] == {"type": "exec", "env": {}, "command": ["ls"], "timeout_ms": 5}
    assert (spawn["type"], spawn["namespace"], spawn["name"]) == ("function_call", "agents", "spawn")
    assert (read_all["namespace"], read_all["name"]) == ("mcp__files", "read__all")
    assert (plain["name"], plain.get("namespace")) == ("not__a_space", None)
    outputs = [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "ok"}
        for item in one["output"]
    ]
    status, two = await post(bench, grant, {**about, "input": [*asked, *one["output"], *outputs]})
    assert status == 200, two
    calls = await bench.calls()
    assert [call.splice for call in calls] == ["first", "spliced"]
    assert calls[0].overrides == (
        "tools=web_search->left out",
        "tools.patch.format=grammar->text",
        "tools.not__a_space.strict=True->ignored",
    )
    assert bench.gateway.sessions.find("s").stored == {}


async def test_an_empty_reply_is_an_item_that_can_be_sent_back(make_bench):
    bench = await make_bench(["", "sun"])
    grant = await bench.open()
    asked = [{"role": "user", "content": "go"}]
    _, one = await post(bench, grant, {"model": "fake", "input": asked})
    assert [item["content"][0]["text"] for item in one["output"]] == [""]
    more = [*asked, *one["output"], {"role": "user", "content": "again"}]
    await post(bench, grant, {"model": "fake", "input": more})
    assert [call.splice for call in await bench.calls()] == ["first", "spliced"]


async def test_what_is_accepted_and_not_done_is_in_the_record_and_in_the_reply(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open()
    body = {
        "model": "fake",
        "input": "go",
        "top_p": 0.5,
        "metadata": {"a": "b"},
        "client_metadata": {"c": "d"},
        "prompt_cache_key": "k",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "parallel_tool_calls": False,
        "truncation": "auto",
        "turbo": True,
    }
    _, reply = await post(bench, grant, body)
    expected = [
        "turbo=True->ignored",
        "parallel_tool_calls=False->ignored",
        "truncation=auto->disabled",
        "reasoning.effort=high->ignored",
        "text.verbosity=low->ignored",
        "top_p=0.5->1",
    ]
    (call,) = await bench.calls()
    assert list(call.overrides) == reply["castform"]["overrides"] == expected
    assert (reply["top_p"], reply["reasoning"]["effort"]) == (1.0, "high")


async def test_a_response_of_another_session_is_not_found(make_bench):
    bench = await make_bench(["hello"])
    one, two = await bench.open("one"), await bench.open("two")
    _, reply = await post(bench, one, {"model": "fake", "input": "go"})
    headers = {"Authorization": f"Bearer {two.api_key}"}
    async with bench.http.get(f"{two.base_url}/responses/{reply['id']}", headers=headers) as found:
        assert (found.status, (await found.json())["error"]["code"]) == (404, "response_not_found")
    status, _ = await post(bench, two, {"model": "fake", "input": "x", "previous_response_id": reply["id"]})
    assert status == 400


async def test_a_slow_reply_that_fails_ends_its_stream_with_the_error(make_bench, monkeypatch):
    monkeypatch.setattr("castform_trainer.gateway.client_routes.KEEP_ALIVE_SECONDS", 0.01)
    bench = await make_bench(["hello"], gate=asyncio.Event())
    grant = await bench.open()
    for path, body in (
        ("/responses", {"input": "go"}),
        ("/chat/completions", {"messages": [{"role": "user", "content": "go"}]}),
    ):
        headers = {"Authorization": f"Bearer {grant.api_key}"}
        ask = {**body, "model": "fake", "stream": True}
        async with bench.http.post(grant.base_url + path, json=ask, headers=headers) as reply:
            first = await reply.content.readuntil(b"\n\n")
            assert first.startswith(b"event: response.created" if path == "/responses" else b": waiting")
            await bench.gateway.submit(bench.gateway.service.abort(bench.gateway.sessions.find("s")))
            rest = await reply.read()
        word = b'"type":"response.failed"' if path == "/responses" else b'data: {"error": '
        assert word in rest and (b"server_error" in rest)
