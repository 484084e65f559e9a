"""The splice rule, over HTTP: what was sampled is reused as ids, whatever the client echoes."""

from __future__ import annotations

import json

import pytest

from castform_trainer.gateway.fake_tokenizer import MERGED_RESULTS, PLAIN, STRIPS_THINKING, TOOLS
from castform_trainer.gateway.fidelity import count_fidelity
from castform_trainer.gateway.trajectory import build_segments

CALL_TEXT = '<tool_call>\n{"arguments": {"b":  true, "a": 1}, "name": "find"}\n</tool_call>'
FIND = [
    {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
]


def user(text):
    return {"role": "user", "content": text}


def result(call, text):
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


def is_prefix(calls):
    first, second = calls
    held = (*first.prompt_ids, *first.sampled_ids)
    return tuple(second.prompt_ids[: len(held)]) == held


@pytest.mark.parametrize("template", [TOOLS, PLAIN, MERGED_RESULTS, STRIPS_THINKING])
async def test_a_tool_loop_is_spliced_though_every_byte_of_the_call_renders_otherwise(make_bench, template):
    bench = await make_bench([f"hello\n{CALL_TEXT}", "sunflower"], template=template)
    grant = await bench.open()
    messages = [user("go")]
    reply = await bench.say(grant, messages, tools=FIND)
    messages += [reply, result(reply["tool_calls"][0], "the tool said 100")]
    await bench.say(grant, messages, tools=FIND)
    calls = await bench.calls()
    assert [c.splice for c in calls] == ["first", "spliced"]
    assert is_prefix(calls)
    tail = bench.text(calls[1].prompt_ids[len(calls[0].prompt_ids) + len(calls[0].sampled_ids) :])
    assert tail.startswith("\n<|im_start|>") and "the tool said 100" in tail
    assert tail.endswith("<|im_end|>\n<|im_start|>assistant\n") and CALL_TEXT not in tail


async def test_an_echo_that_only_differs_in_spelling_is_the_same(make_bench):
    bench = await make_bench([CALL_TEXT, "hello"])
    grant = await bench.open()
    reply = await bench.say(grant, [user("go")], tools=FIND)
    call = reply["tool_calls"][0]
    respelled = {**call, "function": {"name": "find", "arguments": json.dumps({"a": 1, "b": True}, indent=2)}}
    echo = {"role": "assistant", "content": "", "tool_calls": [respelled], "refusal": None, "annotations": []}
    parts = [{"type": "text", "text": "go"}]
    await bench.say(
        grant, [{"role": "user", "content": parts, "name": None}, echo, result(call, "4")], tools=FIND
    )
    assert [c.splice for c in await bench.calls()] == ["first", "spliced"]


async def test_a_reply_cut_by_length_gets_the_closer_as_unsampled_text(make_bench):
    bench = await make_bench(["hello hello hello"], end=False)
    grant = await bench.open()
    reply = await bench.say(grant, [user("go")], max_tokens=5)
    assert reply["content"] == "hello"
    await bench.say(grant, [user("go"), reply, user("more")], max_tokens=5)
    calls = await bench.calls()
    assert calls[0].finish_reason == "length" and 2 not in calls[0].sampled_ids
    assert calls[1].splice == "spliced" and is_prefix(calls)
    (segment,) = build_segments(calls)
    end = len(calls[0].prompt_ids) + 5
    assert segment.ids[end] == 2 and segment.mask[end] == 0


async def test_a_reply_cut_by_a_stop_text_keeps_the_tokens_that_spell_it(make_bench):
    bench = await make_bench(["hello END and more"])
    grant = await bench.open()
    reply = await bench.say(grant, [user("go")], stop=["END"])
    assert reply["content"] == "hello "
    await bench.say(grant, [user("go"), reply, user("more")])
    calls = await bench.calls()
    assert bench.text(calls[0].sampled_ids) == "hello END"
    assert calls[0].sampling.stop == ("END",)
    assert [c.splice for c in calls] == ["first", "spliced"] and is_prefix(calls)


async def test_an_edited_echo_forks_and_what_was_sampled_is_still_trained_once(make_bench):
    bench = await make_bench(["hello", "sunflower"])
    grant = await bench.open()
    reply = await bench.say(grant, [user("go")])
    await bench.say(grant, [user("go"), {**reply, "content": "HELLO!"}, user("more")])
    calls = await bench.calls()
    assert [c.splice for c in calls] == ["first", "forked"]
    assert "HELLO!" in bench.text(calls[1].prompt_ids)
    segments = build_segments(calls)
    assert sum(sum(s.mask) for s in segments) == sum(len(c.sampled_ids) for c in calls)
    assert len(segments) == 2


async def test_thinking_stripped_by_the_template_forks_but_a_tool_loop_does_not(make_bench):
    thought = "<think>\nhello\n</think>\n\n"
    bench = await make_bench(
        [thought + CALL_TEXT, thought + "sunflower", "the end"], template=STRIPS_THINKING
    )
    grant = await bench.open()
    messages = [user("go")]
    reply = await bench.say(grant, messages, tools=FIND)
    assert reply["reasoning_content"] == "hello" and reply["content"] is None
    # Most clients send back role, content and tool calls only.
    messages += [
        {"role": "assistant", "content": "", "tool_calls": reply["tool_calls"]},
        result(reply["tool_calls"][0], "4"),
    ]
    reply = await bench.say(grant, messages, tools=FIND)
    messages += [{"role": "assistant", "content": reply["content"]}, user("and then?")]
    await bench.say(grant, messages, tools=FIND)
    calls = await bench.calls()
    assert [c.splice for c in calls] == ["first", "spliced", "forked"]
    assert "<think>" not in bench.text(calls[2].prompt_ids)
    assert is_prefix(calls[:2]) and not is_prefix(calls[1:])


async def test_parallel_branches_continue_the_call_they_came_from(make_bench):
    bench = await make_bench(["hello", "flower", "sun", "tool", "the end"])
    grant = await bench.open()
    one = await bench.say(grant, [user("one")])
    two = await bench.say(grant, [user("two")])
    await bench.say(grant, [user("one"), one, user("x")])
    await bench.say(grant, [user("two"), two, user("x")])
    await bench.say(grant, [user("one"), one, user("y")])
    calls = await bench.calls()
    assert [c.splice for c in calls] == ["first", "first", "spliced", "spliced", "spliced"]
    assert is_prefix([calls[0], calls[2]]) and is_prefix([calls[1], calls[3]])
    assert is_prefix([calls[0], calls[4]])
    counts = count_fidelity(calls)
    assert counts.trained_tokens == counts.sampled_tokens and counts.spliced_calls == 3


async def test_turns_that_were_never_sampled_are_not_forks(make_bench):
    bench = await make_bench(["hello", "hello"])
    grant = await bench.open()
    shots = [user("1"), {"role": "assistant", "content": "hello"}, user("2")]
    await bench.say(grant, shots)
    await bench.say(grant, [*shots[:2], user("3")])
    assert [c.splice for c in await bench.calls()] == ["first", "first"]


async def test_a_kept_reply_behind_a_compacted_history_forks(make_bench):
    bench = await make_bench([CALL_TEXT, "hello"])
    grant = await bench.open()
    reply = await bench.say(grant, [user("a long story")], tools=FIND)
    await bench.say(
        grant, [user("summary"), reply, result(reply["tool_calls"][0], "4"), user("on")], tools=FIND
    )
    assert [c.splice for c in await bench.calls()] == ["first", "forked"]


async def test_the_chosen_one_of_n_replies_is_continued_and_the_others_are_masked(make_bench):
    bench = await make_bench(["hello", "flower", "sun", "the end"])
    grant = await bench.open()
    status, answer = await bench.chat(grant, {"messages": [user("go")], "n": 3})
    assert status == 200 and [c["index"] for c in answer["choices"]] == [0, 1, 2]
    chosen = answer["choices"][1]["message"]
    await bench.say(grant, [user("go"), chosen, user("more")])
    calls = await bench.calls()
    assert [(c.index, c.choice) for c in calls] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert len({c.sampling.seed for c in calls}) == 4
    assert is_prefix([calls[1], calls[3]])
    (segment,) = build_segments(calls)
    assert sum(segment.mask) == len(calls[1].sampled_ids) + len(calls[3].sampled_ids)
    assert len(build_segments(calls, unchosen="train")) == 3
    counts = count_fidelity(calls)
    assert counts.unchosen_tokens == len(calls[0].sampled_ids) + len(calls[2].sampled_ids)


async def test_other_tools_make_another_prompt_and_no_splice(make_bench):
    bench = await make_bench(["hello", "sun"])
    grant = await bench.open()
    reply = await bench.say(grant, [user("go")], tools=FIND)
    await bench.say(grant, [user("go"), reply, user("more")])
    calls = await bench.calls()
    assert calls[1].splice == "forked" and not is_prefix(calls)
