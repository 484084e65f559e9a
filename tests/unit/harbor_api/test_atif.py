"""Recorded calls become ATIF and come back; what is no ATIF is refused with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.calls import ModelCall
from castform.errors import UsageError
from castform_harbor.atif import VERSIONS, parse_atif, read_atif, write_atif
from castform_harbor.atif_calls import make_trajectory, read_calls, read_messages

TOOLS = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]


def call_of(index, messages, reply, **changes):
    fields = {
        "call_id": f"c{index}",
        "session_id": "r-1",
        "index": index,
        "messages": messages,
        "reply": reply,
        "finish_reason": "tool_calls" if reply.get("tool_calls") else "stop",
        "prompt_ids": [1, 2, 3 + index],
        "sampled_ids": [7, 8],
        "logprobs": [-0.25, -0.5],
        "version": 3,
    }
    return ModelCall(**{**fields, **changes})


def user(text):
    return {"role": "user", "content": text}


def said(text, *calls):
    message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": "run", "arguments": arguments}}
            for id, arguments in calls
        ]
    return message


def tool(id, text):
    return {"role": "tool", "tool_call_id": id, "content": text}


ASKED = [{"role": "system", "content": "Be brief."}, user("List the files.")]
CALLED = said(None, ("a", '{"c": "ls"}'), ("b", "{}"))
GONE_ON = [*ASKED, CALLED, tool("b", "two"), tool("a", "one")]
CALLS = [call_of(0, ASKED, CALLED, tools=TOOLS), call_of(1, GONE_ON, said("There are two."), tools=TOOLS)]


def test_a_rollout_becomes_steps_with_its_tokens():
    made = make_trajectory(CALLS, session_id="r-1", model_name="tiny")
    assert [step.source for step in made.steps] == ["system", "user", "agent", "agent"]
    third = made.steps[2]
    assert [(r.source_call_id, r.content) for r in third.observation.results] == [("b", "two"), ("a", "one")]
    assert third.metrics.prompt_token_ids == [1, 2, 3] and third.metrics.completion_token_ids == [7, 8]
    assert third.metrics.logprobs == [-0.25, -0.5] and third.metrics.prompt_tokens == 3
    assert made.agent.tool_definitions == TOOLS and made.final_metrics.total_completion_tokens == 4
    assert made.subagent_trajectories is None


def test_calls_come_back_with_their_histories_and_tokens():
    document = json.loads(json.dumps(make_trajectory(CALLS, session_id="r-1").as_document()))
    back = read_calls(parse_atif(document, where="it"))
    for call, known in zip(back, CALLS, strict=True):
        assert (call.prompt_ids, call.sampled_ids, call.logprobs) == (
            known.prompt_ids,
            known.sampled_ids,
            known.logprobs,
        )
        assert list(call.messages) == list(known.messages) and call.reply == known.reply
        assert (call.call_id, call.finish_reason, call.version) == (
            known.call_id,
            known.finish_reason,
            known.version,
        )


def test_a_history_that_was_rewritten_is_a_trajectory_of_its_own():
    summary = [user("So far: there are two files."), user("Go on.")]
    other = [user("You are a sub-agent.")]
    calls = [*CALLS, call_of(2, other, said("Yes.")), call_of(3, summary, said("Done."))]
    made = make_trajectory(calls, session_id="r-1")
    assert len(made.steps) == 4 and [len(sub.steps) for sub in made.subagent_trajectories] == [2, 3]
    assert [sub.trajectory_id for sub in made.walk()] == ["r-1/0", "r-1/1", "r-1/2"]
    assert len(read_calls(made)) == 4


def test_context_that_is_copied_into_another_history_is_not_counted_twice():
    branch = [*ASKED, CALLED, tool("a", "other"), tool("b", "two")]
    made = make_trajectory([*CALLS, call_of(2, branch, said("One."))], session_id="r-1")
    copied = made.subagent_trajectories[0].steps
    assert [step.is_copied_context for step in copied] == [None, None, True, None]
    assert [call.reply["content"] for call in read_calls(made)] == [None, "There are two.", "One."]


def test_arguments_that_are_no_object_are_kept_as_they_were_written():
    reply = said("", ("a", "{bad"), ("b", "[1]"), ("c", '{"x":1}'))
    made = make_trajectory([call_of(0, ASKED, reply)], session_id="r-1")
    assert [call.arguments for call in made.steps[-1].tool_calls] == [{}, {}, {"x": 1}]
    back = read_messages(made)[-1]["tool_calls"]
    assert [call["function"]["arguments"] for call in back] == ["{bad", "[1]", '{"x":1}']


@pytest.mark.parametrize(
    "arguments", ['{"x": NaN}', '{"x": 1e999}', r'{"x": "\ud800"}'], ids=["nan", "inf", "half"]
)
def test_what_other_readers_of_json_do_not_take_is_kept_as_text(tmp_path, arguments):
    made = make_trajectory([call_of(0, ASKED, said("\udcff half", ("a", arguments)))], session_id="r")
    write_atif(made, tmp_path / "t.json")
    json.loads((tmp_path / "t.json").read_bytes(), parse_constant=pytest.fail)
    back = read_messages(read_atif(tmp_path / "t.json"))[-1]
    assert back["content"] == "\udcff half" and back["tool_calls"][0]["function"]["arguments"] == arguments


@pytest.mark.parametrize("url", ["data:image/svg+xml;base64,AA", "data:audio/wav;base64,AA", "data:,x"])
def test_an_image_that_atif_has_no_kind_for_is_kept_as_text(url):
    part = {"type": "image_url", "image_url": {"url": url}}
    made = make_trajectory([call_of(0, [user([part])], said("A dot."))], session_id="r")
    assert json.loads(made.steps[0].message[0].text) == part


@pytest.mark.parametrize("version", ["abc", None, [1], {"a": 1}])
def test_what_another_program_keeps_beside_its_metrics_is_its_own(version):
    extra = {"version": version, "call_id": 5, "finish_reason": ["x"]}
    step = {"step_id": 1, "source": "agent", "message": "hi", "metrics": {"extra": extra}}
    (call,) = read_calls(parse_atif(minimal(steps=[step]), where="it"))
    assert call.version == 0 and isinstance(call.call_id, str)


def test_calls_without_a_reply_are_left_out_and_none_at_all_is_an_error():
    failed = call_of(2, ASKED, {}, finish_reason="error", prompt_ids=None, sampled_ids=None, logprobs=None)
    assert len(read_calls(make_trajectory([*CALLS, failed], session_id="r"))) == 2
    with pytest.raises(ValueError, match="no model call"):
        make_trajectory([failed], session_id="r")


def test_an_image_keeps_its_place():
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,AA"}},
    ]
    made = make_trajectory([call_of(0, [user(parts)], said("A dot."))], session_id="r")
    assert made.steps[0].message[1].source.media_type == "image/gif"
    assert read_messages(made)[0] == user(parts)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
turns = st.lists(st.tuples(texts, texts.filter(str.strip)), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None)
@given(turns)
def test_any_dialogue_comes_back_word_for_word(turns):
    history, calls = [], []
    for index, (asked, answered) in enumerate(turns):
        history = [*history, user(asked)]
        calls.append(call_of(index, history, said(answered)))
        history = [*history, said(answered)]
    made = make_trajectory(calls, session_id="r")
    assert read_messages(parse_atif(made.as_document(), where="it")) == history
    assert [call.index for call in read_calls(made)] == list(range(len(turns)))


def minimal(**changes):
    step = {"step_id": 1, "source": "user", "message": "hi"}
    return {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "steps": [step], **changes}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_read(version):
    assert parse_atif(minimal(schema_version=version), where="it").schema_version == version


@pytest.mark.parametrize(
    "changes, place",
    [
        ({"schema_version": "ATIF-v2.0"}, "schema_version"),
        ({"steps": []}, "steps"),
        ({"unknown": 1}, "unknown"),
        ({"agent": {"name": "a"}}, "agent.version"),
        ({"steps": [{"step_id": 2, "source": "user", "message": "x"}]}, "step_id"),
        ({"steps": [{"step_id": 1, "source": "user", "message": "x", "metrics": {}}]}, "metrics"),
        ({"steps": [{"step_id": 1, "source": "agent", "message": "x", "timestamp": "noon"}]}, "timestamp"),
        (
            {
                "steps": [
                    {
                        "step_id": 1,
                        "source": "agent",
                        "message": "x",
                        "observation": {"results": [{"source_call_id": "z"}]},
                    }
                ]
            },
            "'z'",
        ),
        ({"subagent_trajectories": [minimal()]}, "trajectory_id"),
        ({"steps": [{"step_id": 1, "source": "user", "message": [{"type": "image", "text": "x"}]}]}, "image"),
    ],
)
def test_what_is_no_atif_is_refused_with_its_place(changes, place):
    with pytest.raises(UsageError, match="is no ATIF trajectory") as caught:
        parse_atif(minimal(**changes), where="it")
    assert place in str(caught.value)


def test_files_are_written_whole_and_read_with_a_reason(tmp_path):
    write_atif(make_trajectory(CALLS, session_id="r"), tmp_path / "t.json")
    assert len(read_atif(tmp_path / "t.json").steps) == 4 and len(list(tmp_path.iterdir())) == 1
    (tmp_path / "bad.json").write_text("{")
    for name, reason in (("bad.json", "no JSON"), ("gone.json", "cannot be read")):
        with pytest.raises(UsageError, match=reason):
            read_atif(tmp_path / name)
