"""Requests with something wrong in a random place: they are read, or refused with a reason."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from castform.calls import ModelCall
from castform.endpoint import SessionSpec
from castform_trainer.gateway.dialects import ANTHROPIC, CHAT, RESPONSES, Dialect
from castform_trainer.gateway.dialects.contract import Waiting
from castform_trainer.gateway.dialects.responses.store import keep_response
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.sessions import Session

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}
MESSAGES = {
    "model": "m",
    "max_tokens": 5,
    "temperature": 1.0,
    "stop_sequences": ["x"],
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "thinking": {"type": "enabled", "budget_tokens": 5},
    "output_config": {"effort": "high"},
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "tools": [
        {"name": "f", "description": "d", "input_schema": SCHEMA},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1.0}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "r"}],
                },
                {"type": "document", "title": "t", "source": {"type": "text", "data": "d"}},
            ],
        },
    ],
}
ITEMS = {
    "model": "m",
    "max_output_tokens": 5,
    "instructions": "i",
    "tool_choice": "auto",
    "reasoning": {"effort": "high"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "include": ["x"],
    "previous_response_id": "resp_1",
    "tools": [
        {"type": "function", "name": "f", "parameters": SCHEMA},
        {"type": "custom", "name": "p", "format": {"type": "grammar"}},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "x"}]},
        {"type": "local_shell"},
        {"type": "web_search"},
    ],
    "input": [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "x"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1.0}'},
        {"type": "custom_tool_call", "call_id": "c2", "name": "p", "input": "x"},
        {"type": "local_shell_call", "call_id": "c3", "action": {"type": "exec", "command": ["x"]}},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "item_reference", "id": "m9"},
        {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
    ],
}
CALLS = {
    "model": "m",
    "stop": ["x"],
    "stream_options": {"include_usage": True},
    "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
    ],
}


def nest(depth: int) -> Any:
    value: Any = "x"
    for place in range(depth):
        value = [value] if place % 2 else {"a": value}
    return value


ODD = (
    *(None, True, 0, -1, 1.5, 10**400, float("nan"), "", "x", "\ud800", [], {}, [None], [[]], ["", {}]),
    *({"type": None}, {"type": 5}, [{"type": "text"}], {"type": "text", "text": 5}, {"role": "user"}),
    *({"id": ["x"]}, nest(300), nest(900)),
)


def list_places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(p for key, each in inner for p in list_places(each, (*path, key)))]


def open_session() -> Session:
    session = Session(spec=SessionSpec(session_id="s", model_aliases=("*",)), key="k")
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]
    reply = {"role": "assistant", "content": "", "tool_calls": calls}
    call = ModelCall(call_id="a", session_id="s", index=0, messages=(), reply=reply, finish_reason="stop")
    session.calls.append(call)
    stored = {
        "type": "message",
        "id": "m9",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "x"}],
    }
    response = {"id": "resp_1", "previous_response_id": None, "output": [stored]}
    keep_response(session, response, [{"role": "user", "content": "x"}])
    return session


@pytest.mark.parametrize(
    ("dialect", "body"),
    [(ANTHROPIC, MESSAGES), (RESPONSES, ITEMS), (CHAT, CALLS)],
    ids=["anthropic", "responses", "chat"],
)
def test_a_request_that_is_wrong_anywhere_is_refused_in_words(dialect: Dialect, body: dict[str, Any]) -> None:
    rng, session, refused = random.Random(7), open_session(), 0
    dialect.read(json.dumps(body).encode(), session, "m")
    for path in list_places(body):
        for odd in rng.sample(ODD, 5):
            wrong = copy.deepcopy(body)
            place = wrong
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = odd
            try:
                request = dialect.read(json.dumps(wrong).encode(), session, "m")
                assert dialect.keep_alive(request, Waiting(digest="d", created=0, beats=0))
            except ApiError as error:
                refused += 1
                assert error.status in (400, 404) and error.message
                assert json.dumps(dialect.describe_error(error))
    assert refused > 50


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
@pytest.mark.parametrize("dialect", [ANTHROPIC, RESPONSES, CHAT], ids=["anthropic", "responses", "chat"])
def test_a_number_that_no_json_can_hold_is_refused_wherever_it_stands(dialect: Dialect, number: str) -> None:
    body = {**MESSAGES, "input": "x", "metadata": {"a": "HERE"}}
    data = json.dumps(body).replace('"HERE"', number).encode()
    with pytest.raises(ApiError) as refused:
        dialect.read(data, open_session(), "m")
    assert refused.value.code == "invalid_json"
