"""What Messages requests are read as, and what clients that are no SDK rely on."""

from __future__ import annotations

import asyncio
import json

import pytest

from castform_trainer.gateway.dialects.anthropic.blocks import read_conversation
from castform_trainer.gateway.dialects.anthropic.tools import read_tools
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.messages import normalize_messages

MARK = {"cache_control": {"type": "ephemeral"}}
USE = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "4"}


def text(value, **more):
    return {"type": "text", "text": value, **more}


PLAIN = {
    "system": "be brief\nand kind",
    "messages": [
        {"role": "user", "content": "go\nnow"},
        {"role": "assistant", "content": [text("ok"), USE]},
        {"role": "user", "content": [RESULT, text("next")]},
    ],
}
SAME = {
    "blocks": {
        "system": [text("be brief", **MARK), text("and kind")],
        "messages": [
            {"role": "user", "content": [text("go"), text("now", **MARK)]},
            {"role": "assistant", "content": [text("ok"), {**USE, **MARK}]},
            {
                "role": "user",
                "content": [{**RESULT, "content": [text("4")], "is_error": False}, text("next", **MARK)],
            },
        ],
    },
    "split turns": {
        "system": PLAIN["system"],
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "user", "content": "now"},
            {"role": "assistant", "content": "ok"},
            {"role": "assistant", "content": [USE]},
            {"role": "user", "content": [RESULT]},
            {"role": "user", "content": "next"},
        ],
    },
    "text before the result": {
        "system": PLAIN["system"],
        "messages": [*PLAIN["messages"][:2], {"role": "user", "content": [text("next"), RESULT]}],
    },
    "billing line": {
        "system": [text("x-anthropic-billing-header: cc_version=2.1;"), text("be brief"), text("and kind")],
        "messages": PLAIN["messages"],
    },
    "billing line in front of the rest": {
        "system": "x-anthropic-billing-header: cc_version=2.1;\nbe brief\nand kind",
        "messages": PLAIN["messages"],
    },
    "redacted and empty thinking": {
        "system": PLAIN["system"],
        "messages": [
            PLAIN["messages"][0],
            {
                "role": "assistant",
                "content": [
                    {"type": "redacted_thinking", "data": "zz"},
                    {"type": "thinking", "thinking": "", "signature": "s"},
                    text("ok"),
                    USE,
                ],
            },
            PLAIN["messages"][2],
        ],
    },
}


@pytest.mark.parametrize("name", SAME)
def test_one_conversation_in_other_words_is_the_same(name):
    assert normalize_messages(read_conversation(SAME[name])) == normalize_messages(read_conversation(PLAIN))


def test_a_conversation_becomes_turns_that_every_template_takes():
    found = normalize_messages(
        read_conversation(
            {
                "system": [text("one")],
                "messages": [
                    {"role": "system", "content": "two"},
                    {"role": "user", "content": [text("go")]},
                    {"role": "system", "content": "tools changed"},
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "thinking", "thinking": "hm", "signature": "s"},
                            USE,
                            {**USE, "id": "c2"},
                        ],
                    },
                    {
                        "role": "user",
                        "content": [
                            {**RESULT, "tool_use_id": "c2", "content": [], "is_error": True},
                            {**RESULT, "content": "Exit: no", "is_error": True},
                            {"type": "document", "title": "t", "source": {"type": "text", "data": "body"}},
                        ],
                    },
                ],
            }
        )
    )
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    assert found == [
        {"role": "system", "content": "one\ntwo"},
        {"role": "user", "content": "go\n<system>\ntools changed\n</system>"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", **call}, {"id": "c2", **call}],
            "reasoning_content": "hm",
        },
        {"role": "tool", "tool_call_id": "c2", "content": "Error: "},
        {"role": "tool", "tool_call_id": "c1", "content": "Error: Exit: no"},
        {"role": "user", "content": "t\nbody"},
    ]


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        (None, "messages"),
        ([], "messages"),
        (["x"], "messages.0.role"),
        ([{"role": "tool", "content": "x"}], "messages.0.role"),
        ([{"role": "user", "content": 5}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages.0.content.0.text"),
        ([{"role": "user", "content": [{"type": "tool_result"}]}], "messages.0.content.0.tool_use_id"),
        ([{"role": "assistant", "content": [{**USE, "input": "x"}]}], "messages.0.content.0.input"),
        ([{"role": "assistant", "content": [{**USE, "id": None}]}], "messages.0.content.0"),
        ([{"role": "assistant", "content": [RESULT]}], "messages.0.content.0"),
        (
            [{"role": "user", "content": [{**RESULT, "content": [{"type": "image"}]}]}],
            "messages.0.content.0.content.0",
        ),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "messages"),
    ],
)
def test_a_message_that_is_wrong_is_named(messages, where):
    with pytest.raises(ApiError) as caught:
        read_conversation({"messages": messages})
    assert (caught.value.status, caught.value.param) == (400, where)


def test_hosted_tools_are_left_out_beside_others_and_known_ones_get_their_schema():
    own = {"name": "f", "input_schema": {"type": "object"}, "strict": True}
    tools, notes = read_tools(
        [
            {"type": "web_search_20250305", "name": "web_search"},
            own,
            {"type": "bash_20250124", "name": "bash"},
        ]
    )
    assert [tool["function"]["name"] for tool in tools] == ["f", "bash"]
    assert tools[1]["function"]["parameters"]["properties"].keys() == {"command", "restart"}
    assert notes == ("tools=web_search_20250305->left out", "tools.f.strict=True->ignored")
    for wrong in ([{"name": "f"}], ["x"], {}, [{"type": 5}], [{"type": "memory_20250818", "name": "memory"}]):
        with pytest.raises(ApiError):
            read_tools(wrong)


async def post(bench, grant, body, *, path="/messages?beta=true", **headers):
    every = {"x-api-key": grant.api_key, "anthropic-version": "2023-06-01", **headers}
    async with bench.http.post(grant.base_url + path, json=body, headers=every) as reply:
        return reply.status, await reply.json()


ASK = {"model": "m", "max_tokens": 200, "messages": [{"role": "user", "content": "go"}]}
EDIT = {
    "name": "Edit",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "all": {"type": "boolean", "default": False}},
    },
}
EDITS = '<tool_call>\n{"name": "Edit", "arguments": {"path": "a", "line": 3.0}}\n</tool_call>'


@pytest.mark.parametrize(
    ("echoed", "splice"),
    [
        ({"all": False, "path": "a", "line": 3}, "spliced"),
        ({"path": "a", "line": 3.0}, "spliced"),
        ({"path": "a ", "line": 3}, "forked"),
        ({"path": "a", "line": 3, "all": True}, "forked"),
        ({"path": "a", "line": True}, "forked"),
        ({}, "forked"),
    ],
    ids=str,
)
async def test_a_call_that_comes_back_with_defaults_filled_in_is_the_one_that_was_served(
    make_bench, echoed, splice
):
    bench = await make_bench([EDITS, "sun"])
    grant = await bench.open(model_aliases=("m",))
    _, reply = await post(bench, grant, {**ASK, "tools": [EDIT]})
    (use,) = reply["content"]
    more = [
        *ASK["messages"],
        {"role": "assistant", "content": [{**use, "input": echoed}]},
        {"role": "user", "content": [{**RESULT, "tool_use_id": use["id"]}]},
    ]
    status, _ = await post(bench, grant, {**ASK, "tools": [EDIT], "messages": more})
    assert status == 200
    assert [call.splice for call in await bench.calls()] == ["first", splice]


async def test_what_a_client_finds_before_it_asks_anything(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open(model_aliases=("small", "big-*"))
    root = grant.base_url.removesuffix("/v1")
    for url in (root, root + "/", grant.base_url, grant.base_url + "/"):
        async with bench.http.head(url) as reply:
            assert reply.status == 200
        async with bench.http.get(url) as reply:
            assert (reply.status, await reply.text()) == (200, "{}")
    status, listed = None, None
    async with bench.http.get(root + "/v1/models", headers={"x-api-key": grant.api_key}) as reply:
        status, listed = reply.status, await reply.json()
    assert status == 200 and [m["id"] for m in listed["data"]] == ["fake", "small"]
    for name, expected in (("big-1", 200), ("huge", 404)):
        async with bench.http.get(
            f"{grant.base_url}/models/{name}", headers={"x-api-key": grant.api_key}
        ) as reply:
            assert reply.status == expected
    status, reply = await post(bench, grant, {**ASK, "model": "big-1"}, path="/v1/messages")
    assert (status, reply["model"]) == (200, "big-1")


async def test_a_session_opened_over_http_serves_the_aliases_it_is_given(make_bench):
    bench = await make_bench(["hello"])
    url, admin = (
        f"{bench.gateway.root_url}/sessions/h",
        {"Authorization": f"Bearer {bench.gateway.admin_key}"},
    )
    for wrong in ("x", [5]):
        async with bench.http.put(url, json={"model_aliases": wrong}, headers=admin) as reply:
            assert (reply.status, (await reply.json())["error"]["param"]) == (400, "model_aliases")
    async with bench.http.put(url, json={"model_aliases": ["claude-*"]}, headers=admin) as reply:
        grant = await reply.json()
    for model, expected in (("claude-x", 200), ("gpt-x", 404)):
        headers = {"x-api-key": grant["session_key"]}
        ask = {**ASK, "model": model}
        async with bench.http.post(grant["base_url"] + "/messages", json=ask, headers=headers) as reply:
            assert reply.status == expected


async def test_the_record_says_which_agent_of_a_program_asked(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open(model_aliases=("m",))
    for headers in ({}, {"X-Claude-Code-Agent-Id": "a1"}, {"thread-id": "t1"}):
        await post(bench, grant, ASK, **headers)
    assert [call.lineage for call in await bench.calls()] == [None, "a1", "t1"]


async def test_errors_outside_the_api_have_its_shape_too(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open()
    status, wrong = await post(bench, grant, ASK, **{"x-api-key": "wrong"})
    assert (status, wrong["type"], wrong["error"]["type"]) == (401, "error", "authentication_error")
    status, wrong = await post(bench, grant, ASK, path="/messages/batches")
    assert (status, wrong["error"]["type"]) == (404, "not_found_error")
    for depth in range(880, 1000, 3):  # where decoding it still works and writing it no longer does
        deep = "[" * depth + "]" * depth
        tool = f'{{"name": "f", "input_schema": {{"deep": {deep}}}}}'
        data = json.dumps({**ASK, "model": "fake", "tools": [0]}).replace("[0]", f"[{tool}]")
        headers = {"x-api-key": grant.api_key}
        async with bench.http.post(grant.base_url + "/messages", data=data, headers=headers) as reply:
            assert reply.status == 400
    status, wrong = await post(bench, grant, {**ASK, "model": "fake", "max_tokens": None})
    assert (status, wrong["error"]["message"]) == (400, "max_tokens: Field required")


async def test_what_is_accepted_and_not_done_is_in_the_record_and_in_the_reply(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open()
    body = {
        **ASK,
        "model": "fake",
        "temperature": 0.3,
        "metadata": {"user_id": "u"},
        "context_management": {"edits": []},
        "output_config": {"effort": "high"},
        "thinking": {"type": "enabled", "budget_tokens": 5},
        "tools": [EDIT],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }
    _, reply = await post(bench, grant, body)
    expected = [
        "context_management={'edits': []}->ignored",
        "tool_choice.disable_parallel_tool_use=True->ignored",
        "thinking.budget_tokens=5->ignored",
        "output_config.effort=high->ignored",
        "temperature=0.3->1",
    ]
    (call,) = await bench.calls()
    assert list(call.overrides) == reply["castform"]["overrides"] == expected


async def test_a_slow_reply_keeps_its_stream_alive_and_an_error_ends_it(make_bench, monkeypatch):
    monkeypatch.setattr("castform_trainer.gateway.client_routes.KEEP_ALIVE_SECONDS", 0.01)
    gate = asyncio.Event()
    bench = await make_bench(["hello"], gate=gate)
    grant = await bench.open()
    ask, headers = {**ASK, "model": "fake", "stream": True}, {"x-api-key": grant.api_key}

    async def open_gate():
        gate.set()

    async with bench.http.post(grant.base_url + "/messages", json=ask, headers=headers) as reply:
        assert await reply.content.readuntil(b"\n\n") == b'event: ping\ndata: {"type": "ping"}\n\n'
        await bench.gateway.submit(open_gate())
        rest = await reply.read()
    kinds = [line for line in rest.split(b"\n") if line.startswith(b"event: ") and line != b"event: ping"]
    assert kinds[0] == b"event: message_start" and kinds[-1] == b"event: message_stop"

    async def close_gate():
        gate.clear()

    await bench.gateway.submit(close_gate())
    async with bench.http.post(grant.base_url + "/messages", json=ask, headers=headers) as reply:
        await reply.content.readuntil(b"\n\n")
        await bench.gateway.submit(bench.engine.close())
        last = (await reply.read()).split(b"\n\n")[-2]
    assert last.startswith(b"event: error\n")
    error = json.loads(last.split(b"data: ")[1])
    assert (error["type"], error["error"]["type"]) == ("error", "overloaded_error")


@pytest.mark.parametrize(
    ("dialect", "path", "body"),
    [
        ("anthropic", "/messages", ASK),
        ("responses", "/responses", {"input": "go"}),
        ("chat", "/chat/completions", {"messages": [{"role": "user", "content": "go"}]}),
    ],
    ids=["anthropic", "responses", "chat"],
)
async def test_a_client_that_leaves_its_stream_is_recorded_as_aborted(
    make_bench, monkeypatch, dialect, path, body
):
    monkeypatch.setattr("castform_trainer.gateway.client_routes.KEEP_ALIVE_SECONDS", 0.01)
    bench = await make_bench(["hello"], gate=asyncio.Event())
    grant = await bench.open()
    ask, headers = {**body, "model": "fake", "stream": True}, {"Authorization": f"Bearer {grant.api_key}"}
    reply = await bench.http.post(grant.base_url + path, json=ask, headers=headers)
    await reply.content.readuntil(b"\n\n")
    reply.close()
    while not (calls := await bench.calls()):  # noqa: ASYNC110 - the gateway's thread records it
        await asyncio.sleep(0.01)
    assert [(call.finish_reason, call.dialect) for call in calls] == [("abort", dialect)]
