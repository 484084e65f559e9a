"""OpenAI's SDK on the Responses API against the real server: tools, stored turns, streams, retries, errors."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.calls import ModelCall
from castform_trainer.engines.contract import Generation
from castform_trainer.gateway.chat import Answer
from castform_trainer.gateway.dialects.responses.events import make_events
from castform_trainer.gateway.dialects.responses.reply import make_response
from castform_trainer.gateway.fake_tokenizer import MERGED_RESULTS, STRIPS_THINKING, TOOLS
from castform_trainer.gateway.request import make_request
from castform_trainer.gateway.sampling import AskedSampling

FIND = [
    {"type": "function", "name": "find", "strict": False, "parameters": {"type": "object", "properties": {}}}
]
CALL = '<tool_call>\n{"name": "find", "arguments": {"w": "ä \\"q\\"", "n": 1.0}}\n</tool_call>'


def connect(grant, **options):
    options.setdefault("max_retries", 0)
    return openai.AsyncOpenAI(base_url=grant.base_url, api_key=grant.api_key, **options)


def give_results(reply):
    """Return the outputs of every call of a reply."""
    return [
        {"type": "function_call_output", "call_id": item.call_id, "output": "4"}
        for item in reply.output
        if item.type == "function_call"
    ]


@pytest.mark.parametrize(
    ("template", "way"),
    [
        (TOOLS, "echoed"),
        (MERGED_RESULTS, "referenced"),
        (STRIPS_THINKING, "echoed"),
        (STRIPS_THINKING, "stored"),
    ],
    ids=["plain-echoed", "merged-referenced", "thinking-echoed", "thinking-stored"],
)
async def test_a_tool_loop_of_four_turns_trains_what_the_engine_sampled(make_bench, template, way):
    think = "<think>\nhm\n</think>\n\n" if template == STRIPS_THINKING else ""
    texts = [f"{think}hello\n{CALL}\n{CALL}", f"{think}{CALL}", f"{think}sun\n{CALL}", "sunflower " * 9]
    bench = await make_bench(texts, template=template)
    bench.log_engine()
    grant = await bench.open(model_aliases=("gpt-*",))
    items, last = [{"role": "user", "content": "go"}], None
    async with connect(grant) as client:
        for turn in range(4):
            about = {"model": "gpt-x", "tools": FIND, "instructions": "be brief", "store": way != "echoed"}
            if way == "stored" and last is not None:
                about["previous_response_id"] = last.id
            async with client.responses.stream(input=items, **about) as stream:
                last = await stream.get_final_response()
            if turn == 3:
                break
            assert last.status == "completed" and last.model == "gpt-x"
            assert bool(think) == (last.output[0].type == "reasoning")
            results = give_results(last)
            echo = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in last.output]
            if way == "referenced":
                echo = [{"type": "item_reference", "id": item.id} for item in last.output]
            items = results if way == "stored" else [*items, *echo, *results]
    assert last.output_text == "sunflower " * 9
    calls = await bench.calls()
    assert [call.splice for call in calls] == ["first", "spliced", "spliced", "spliced"]
    assert {call.dialect for call in calls} == {"responses"}
    assert calls[0].overrides[0] == "model=gpt-x->fake"
    bench.check_trained(calls)


async def test_the_plain_client_in_a_thread_reads_counts_lists_and_deletes(make_bench):
    bench = await make_bench([f"hello\n{CALL}", "sun"])
    grant = await bench.open()

    def talk():
        with openai.OpenAI(base_url=grant.base_url, api_key=grant.api_key, max_retries=0) as client:
            one = client.responses.create(model="fake", input="go", tools=FIND)
            more = {"previous_response_id": one.id, "input": give_results(one), "tools": FIND}
            count = client.responses.input_tokens.count(model="fake", **more)
            two = client.responses.create(
                model="fake", max_output_tokens=2, include=["message.output_text.logprobs"], **more
            )
            assert client.responses.retrieve(two.id).output == two.output
            listed = client.responses.input_items.list(two.id).data
            client.responses.delete(two.id)
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(two.id)
            with pytest.raises(openai.BadRequestError, match="is not stored"):
                client.responses.create(model="fake", previous_response_id=two.id, input="x")
            return count, two, listed

    count, two, listed = await asyncio.to_thread(talk)
    calls = await bench.calls()
    assert count.input_tokens == two.usage.input_tokens == len(calls[1].prompt_ids)
    assert (two.status, two.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert [entry.logprob for entry in two.output[0].content[0].logprobs] == list(calls[1].logprobs)
    assert [item.type for item in listed] == ["function_call_output"]


async def test_a_stream_sends_the_events_in_the_order_of_the_api(make_bench):
    bench = await make_bench([f"hello\n{CALL}"])
    grant = await bench.open()
    async with connect(grant) as client:
        stream = await client.responses.create(model="fake", input="go", tools=FIND, stream=True)
        events = [event async for event in stream]
    names = [event.type.removeprefix("response.") for event in events]
    assert names == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done"),
        *("output_item.done", "completed"),
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.output_index for event in events[2:-1]] == [0] * 6 + [1] * 4
    assert events[0].response.output == [] and events[-1].response.usage.output_tokens > 0
    assert events[8].item.arguments == "" and events[11].item == events[-1].response.output[1]


async def test_a_slow_reply_keeps_its_stream_alive_with_events_that_go_on_in_order(make_bench, monkeypatch):
    monkeypatch.setattr("castform_trainer.gateway.client_routes.KEEP_ALIVE_SECONDS", 0.01)
    gate = asyncio.Event()
    bench = await make_bench(["hello"], gate=gate)
    grant = await bench.open()

    async def open_gate():
        gate.set()

    events = []
    async with connect(grant) as client:
        async with client.responses.stream(model="fake", input="go") as stream:
            async for event in stream:
                events.append(event)
                if len(events) == 4:
                    await bench.gateway.submit(open_gate())
            final = await stream.get_final_response()
    names = [event.type.removeprefix("response.") for event in events]
    assert names[:4] == ["created", *["in_progress"] * 3] and names.count("created") == 1
    assert [event.sequence_number for event in events] == list(range(len(events)))
    ids = {event.response.id for event in events if hasattr(event, "response")}
    assert ids == {final.id} and final.output_text == "hello"


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
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    bench = await make_bench(engine=FlakyEngine(2))
    grant = await bench.open()
    async with connect(grant, max_retries=2) as client:
        answer = await client.responses.create(model="fake", input="go", stream=stream)
        if stream:
            assert [event.type async for event in answer][-1] == "response.completed"
    (call,) = await bench.calls()
    assert bench.engine.count == 3 and call.error is None and call.finish_reason == "stop"


REFUSED = {
    "forced-any": ({"tools": FIND, "tool_choice": "required"}, "unsupported_model_control"),
    "forced-tool": (
        {"tools": FIND, "tool_choice": {"type": "function", "name": "find"}},
        "unsupported_model_control",
    ),
    "schema": (
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}},
        "unsupported_model_control",
    ),
    "background": ({"background": True}, "unsupported_model_control"),
    "search-alone": ({"tools": [{"type": "web_search"}]}, "unsupported_tool"),
    "computer": ({"tools": [{"type": "computer"}, *FIND]}, "unsupported_tool"),
    "image": (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
        "unsupported_content",
    ),
    "prefill": ({"input": [{"role": "assistant", "content": "He"}]}, "invalid_messages"),
    "empty": ({"input": []}, "invalid_messages"),
    "temperature": ({"temperature": "hot"}, "invalid_parameter"),
    "long": ({"input": "x" * 4000}, "context_length_exceeded"),
}


async def test_what_cannot_be_done_is_a_bad_request(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open(max_context_tokens=2000)
    async with connect(grant) as client:
        for name, (body, code) in REFUSED.items():
            with pytest.raises(openai.BadRequestError) as caught:
                await client.responses.create(**{"model": "fake", "input": "go", **body})
            assert caught.value.code == code, name
    assert await bench.calls() == []


async def test_a_prompt_that_is_too_long_fails_inside_a_stream(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open(max_context_tokens=100)
    async with connect(grant) as client:
        stream = await client.responses.create(model="fake", input="x" * 400, stream=True)
        events = [event async for event in stream]
    assert [event.type for event in events] == ["response.created", "response.in_progress", "response.failed"]
    failed = events[2].response
    assert (failed.status, failed.error.code) == ("failed", "context_length_exceeded")
    assert await bench.calls() == []


@settings(max_examples=25, deadline=None)
@given(
    content=st.none() | st.text(max_size=120),
    reasoning=st.text(max_size=60),
    calls=st.lists(st.dictionaries(st.text(max_size=4), st.text(max_size=80), max_size=3), max_size=3),
)
def test_deltas_spell_the_items_they_come_from(content, reasoning, calls):
    reply = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    reply["tool_calls"] = [
        {"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": json.dumps(value)}}
        for i, value in enumerate(calls)
    ]
    request = make_request(
        b"{}",
        dialect="responses",
        model="m",
        messages=[{"role": "user", "content": "x"}],
        tools=[],
        asked=AskedSampling(),
        notes=(),
        stream=True,
        calls=(),
        details={"body": {}, "kinds": {}, "seals": True},
    )
    call = ModelCall(call_id="s/0/0", session_id="s", index=0, messages=(), reply=reply, finish_reason="stop")
    answer = Answer(choices=((call, None),), request=request, digest="d", created=0, stop_texts=(None,))
    events = [json.loads(event.split(b"data: ")[1]) for event in make_events(answer, 0)]
    items = make_response(answer)["output"]
    assert events[-1]["response"]["output"] == items
    for place, item in enumerate(items):
        pieces = [e["delta"] for e in events if e.get("output_index") == place and "delta" in e]
        whole = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        assert "".join(pieces) == whole
        (done,) = [e for e in events if e["type"].endswith("item.done") and e["output_index"] == place]
        assert done["item"] == item
