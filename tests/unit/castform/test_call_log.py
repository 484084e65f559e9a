"""Calls are found again by their ids, and played back where they were made."""

from __future__ import annotations

import json

import pytest

from castform.call_log import CallIndex, append_calls, read_calls
from castform.calls import ModelCall
from castform.errors import RunFailedError
from castform.playback import conversation_key, script_of_calls
from castform.scripted_replies import Fault, ScriptedRequest, make_reply


def make_call(call_id: str, *, index: int = 0, choice: int = 0, ask: str = "hi", say: str = "") -> ModelCall:
    return ModelCall(
        call_id=call_id,
        session_id="s",
        index=index,
        choice=choice,
        messages=({"role": "user", "content": ask},),
        reply={"role": "assistant", "content": say or call_id},
        finish_reason="stop",
        prompt_ids=(1, 2),
    )


def test_calls_come_back_in_the_order_that_is_asked_for(tmp_path):
    path = tmp_path / "calls.jsonl"
    first = [make_call("a", say="é \ud800"), make_call("b")]
    append_calls(path, first)
    append_calls(path, [make_call("c")])
    assert [call.call_id for call in read_calls(path)] == ["a", "b", "c"]
    index = CallIndex(path)
    assert index.read(["c", "a"]) == (make_call("c"), first[0])
    assert index.read([]) == ()
    assert index.read(["a", "nowhere"]) is None


def test_a_log_that_is_not_there_has_no_calls(tmp_path):
    assert CallIndex(tmp_path / "none.jsonl").read(["a"]) is None


def test_a_torn_last_line_is_no_call(tmp_path):
    path = tmp_path / "calls.jsonl"
    append_calls(path, [make_call("a"), make_call("b")])
    path.write_bytes(path.read_bytes()[:-1])
    assert CallIndex(path).read(["a"]) == (make_call("a"),)
    assert CallIndex(path).read(["b"]) is None


@pytest.mark.parametrize("line", [b"[]", b"7", b"null", b"{}", b"[" * 100_000, b"\xff"])
def test_a_line_that_is_no_call_is_named(tmp_path, line):
    path = tmp_path / "calls.jsonl"
    append_calls(path, [make_call("a")])
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(RunFailedError, match=r"calls.jsonl:2 is not a recorded call"):
        CallIndex(path)


@pytest.mark.parametrize("damage", [{"reply": None}, {"reply": "hi"}, {"messages": [3]}, {"messages": None}])
def test_a_call_whose_messages_are_no_objects_is_named(tmp_path, damage):
    path = tmp_path / "calls.jsonl"
    append_calls(path, [make_call("a")])
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}) + "\n")
    with pytest.raises(RunFailedError, match=r"calls.jsonl:1 is not a recorded call"):
        CallIndex(path)


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(RunFailedError, match="cannot record model calls"):
        append_calls(tmp_path / "no" / "calls.jsonl", [make_call("a")])
    with pytest.raises(RunFailedError, match="cannot read the call log"):
        list(read_calls(tmp_path / "no" / "calls.jsonl"))


def ask(script, index: int = 0, choice: int = 0, text: str = "hi"):
    body = {"messages": [{"role": "user", "content": text}]}
    answer = script(ScriptedRequest(session_id="s", index=index, choice=choice, body=body))
    return answer if isinstance(answer, Fault) else make_reply(answer).content


def test_each_of_several_replies_to_a_request_is_given_once():
    script = script_of_calls([make_call("a"), make_call("b", choice=1)], "finished")
    assert [ask(script), ask(script, choice=1)] == ["a", "b"]


def test_a_request_that_was_not_made_gets_the_reply_of_its_place():
    calls = [make_call("a"), make_call("b", choice=1), make_call("c", index=1, ask="more")]
    script = script_of_calls(calls, "finished")
    assert ask(script, index=1, text="else") == "c"
    assert ask(script, index=0, choice=1, text="else") == "b"
    end = ask(script, index=2, text="else")
    assert (end.status, end.code) == (400, None)
    assert ask(script_of_calls([], "context_exceeded")).code == "context_budget_exceeded"


def test_conversations_differ_by_what_was_said_and_by_nothing_else():
    plain = [{"role": "assistant", "content": "x"}]
    assert conversation_key(plain) == conversation_key(
        [{"content": "x", "role": "assistant", "refusal": None, "annotations": [], "tool_calls": None}]
    )
    others = [
        [{"role": "user", "content": "x"}],
        [{"role": "assistant", "content": "y"}],
        [{"role": "assistant", "content": "x", "tool_calls": [{"id": "1"}]}],
        [{"role": "assistant", "content": "x", "reasoning_content": "hm"}],
        [{"role": "assistant", "content": "x", "tool_call_id": "1"}],
        [{"role": "assistant", "content": "x", "name": "n"}],
        [*plain, *plain],
    ]
    assert len({conversation_key(messages) for messages in [plain, *others]}) == 8
