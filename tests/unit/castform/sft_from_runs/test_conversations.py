"""The conversations in a rollout's calls: continued, rewritten, tried again, aborted."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from castform.sft.from_runs.conversations import find_conversations
from castform.sft.from_runs.messages import UnfitError, is_failed_result, row_message, row_tools

sys.path.insert(0, str(Path(__file__).parent))
from stored_runs import TOOL, make_call, make_talk, result, says, tool_call, user


def turns_of(conversation):
    return {place: call.call_id for place, call in sorted(conversation.turns.items())}


def test_calls_that_continue_each_other_are_one_conversation():
    calls = make_talk(user("a"), says("b"), user("c"), says("d"))
    (one,) = find_conversations(calls).found
    assert [m["content"] for m in one.messages] == ["a", "b", "c", "d"]
    assert turns_of(one) == {1: "g-0/0/0", 3: "g-0/1/0"}


def test_replies_of_the_prompt_are_no_turns_of_the_run():
    calls = [make_call([user("a"), says("shown"), user("b")], says("c"))]
    (one,) = find_conversations(calls).found
    assert turns_of(one) == {3: "g-0/0/0"}


@pytest.mark.parametrize(
    "echo",
    [
        says("", tool_call(arguments='{"b": 2,  "a": 1}')),
        says(None, tool_call(arguments='{"a":1,"b":2}')),
        {**says(None, tool_call(arguments='{"a":1,"b":2}')), "refusal": None},
        says([{"type": "text", "text": ""}], tool_call(arguments='{"a":1,"b":2}')),
    ],
)
def test_an_echo_that_is_spelled_otherwise_continues_the_reply_as_it_was_served(echo):
    reply = says(None, tool_call(arguments='{"a": 1, "b": 2}'), reasoning_content="hm")
    first = make_call([user("a")], reply, tools=[TOOL], finish="tool_calls")
    second = make_call([user("a"), echo, result("r")], says("d"), index=1, tools=[TOOL])
    (one,) = find_conversations([first, second]).found
    assert turns_of(one) == {1: "g-0/0/0", 3: "g-0/1/0"}
    assert one.messages[1]["content"] == "<think>\nhm\n</think>\n\n"
    assert one.messages[1]["tool_calls"][0]["function"]["arguments"] == '{"a": 1, "b": 2}'


def test_a_rewritten_history_gives_a_conversation_for_each_context_and_each_turn_once():
    first, second = make_talk(user("a"), says("b"), user("c"), says("d"))
    third = make_call([user("so far: a b c d"), user("e")], says("f"), index=2)
    found = find_conversations([first, second, third]).found
    assert [turns_of(one) for one in found] == [{1: "g-0/0/0", 3: "g-0/1/0"}, {2: "g-0/2/0"}]


def test_branches_share_their_beginning_which_is_trained_in_the_longest():
    first, second = make_talk(user("a"), says("b"), user("c"), says("d"))
    other = make_call([user("a"), says("b"), user("x"), says("shown"), user("y")], says("z"), index=2)
    longest, shorter = find_conversations([first, second, other]).found
    assert turns_of(longest) == {1: "g-0/0/0", 5: "g-0/2/0"}
    assert turns_of(shorter) == {3: "g-0/1/0"}


def test_other_tools_make_another_conversation():
    first = make_call([user("a")], says("b"))
    second = make_call([user("a"), says("b"), user("c")], says("d"), index=1, tools=[TOOL])
    found = find_conversations([first, second]).found
    assert [(turns_of(one), len(one.tools)) for one in found] == [({3: "g-0/1/0"}, 1), ({1: "g-0/0/0"}, 0)]


def test_of_tries_at_one_request_the_one_that_went_on_or_is_shown_or_came_last_counts():
    bad, good = make_call([user("a")], says("bad")), make_call([user("a")], says("good"), index=1)
    found = find_conversations([bad, good])
    assert [one.messages[1]["content"] for one in found.found] == ["good"]
    assert found.left_out == {"thrown away for another try": 1}
    shown = find_conversations([bad, good], [user("a"), says("bad")])
    assert [one.messages[1]["content"] for one in shown.found] == ["bad"]
    on = make_call([user("a"), says("bad"), user("c")], says("d"), index=2)
    (one,) = find_conversations([bad, good, on]).found
    assert turns_of(one) == {1: "g-0/0/0", 3: "g-0/2/0"}


def test_of_several_replies_to_one_request_none_counts_unless_it_is_continued_or_shown():
    both = [make_call([user("a")], says(text), choice=i) for i, text in enumerate("xy")]
    assert find_conversations(both).found == ()
    (one,) = find_conversations(both, [user("a"), says("y")]).found
    assert turns_of(one) == {1: "g-0/0/1"}


def test_aborted_replies_are_in_no_conversation():
    calls = [make_call([user("a")], says("x"), finish="abort"), make_call([user("a")], says("y"), index=1)]
    found = find_conversations(calls)
    assert [turns_of(one) for one in found.found] == [{1: "g-0/1/0"}]
    assert found.left_out == {"aborted": 1}
    assert find_conversations(calls[:1]).found == ()


def test_results_behind_the_last_reply_come_from_the_transcript_and_nothing_else_does():
    calls = [make_call([user("a")], says(None, tool_call()), tools=[TOOL], finish="tool_calls")]
    transcript = [user("a"), says(None, tool_call()), result("done"), user("late"), result("x", "c2")]
    (one,) = find_conversations(calls, transcript).found
    assert [m["role"] for m in one.messages] == ["user", "assistant", "tool"]
    (other,) = find_conversations(calls, [user("b"), *transcript[1:]]).found
    assert [m["role"] for m in other.messages] == ["user", "assistant"]


def test_what_a_row_cannot_say_is_counted():
    changes = Counter()
    message = row_message(
        {"role": "developer", "content": [{"type": "text", "text": "a"}], "name": "n"}, changes
    )
    assert message == {"role": "system", "content": "a"}
    called = row_message(says("", tool_call(arguments={"ä": 1}), tool_call("c2", arguments="")), changes)
    assert [c["function"]["arguments"] for c in called["tool_calls"]] == ['{"ä": 1}', "{}"]
    assert called["content"] is None
    tool = {"type": "function", "function": {"name": "f", "strict": True, "description": None}}
    assert row_tools([tool], changes) == [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    ]
    assert changes == {
        "`name` of a message left out": 1,
        "arguments that were an object written as text": 1,
        "empty arguments written as {}": 1,
        "`strict` of a tool left out": 1,
        "a tool without parameters written as one that takes none": 1,
    }


def test_content_that_is_no_text_is_refused():
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
    with pytest.raises(UnfitError, match="type 'image_url', which is no text"):
        find_conversations([make_call([image], says("a"))])


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Error: KeyError: 'x'", True),
        ("Invalid arguments for tool 'find': city is missing. Its parameters: city.", True),
        ("Invalid JSON tool arguments: Expecting value", True),
        ("Tool arguments must be a JSON object.", True),
        ("Unknown tool: fnd", True),
        ("Tool 'find' took longer than 3.0 seconds and was stopped.", True),
        ("Tool 'find' is in the third drawer", False),
        ("No errors: all is well", False),
        ("", False),
    ],
)
def test_a_failed_call_is_known_by_its_result(text, failed):
    assert is_failed_result(result(text)) is failed
