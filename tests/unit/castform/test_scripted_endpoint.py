"""The scripted server is a real OpenAI-compatible one, and breaks in the ways that it is told to."""

from __future__ import annotations

import json

import aiohttp
import httpx
import openai
import pytest
from environments import Sums, make_example

from benchmax.envs import BaseEnv, Dataset
from castform.endpoint import SessionSpec
from castform.scripted_endpoint import ScriptedEndpoint
from castform.testing import FakeModel, Fault, Reply, ToolUse

MESSAGES = [{"role": "user", "content": "hello there"}]


@pytest.fixture
def serve():
    """Give an openai client to a scripted session; the server ends with the test."""
    endpoints = []

    def start(answer):
        endpoint = ScriptedEndpoint(answer if callable(answer) else lambda request: answer)
        endpoints.append(endpoint)
        grant = endpoint.add_session("s")
        return endpoint, openai.OpenAI(base_url=grant.base_url, api_key=grant.api_key, max_retries=0)

    yield start
    for endpoint in endpoints:
        endpoint.close()


def test_a_reply_reads_like_any_servers(serve):
    endpoint, client = serve(
        Reply(content="hi", tool_calls=[ToolUse(name="add", arguments={"a": 1})], reasoning="hm")
    )
    done = client.chat.completions.create(model="scripted", messages=MESSAGES)
    [choice] = done.choices
    assert (choice.message.content, choice.finish_reason) == ("hi", "tool_calls")
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"a": 1}
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (2, 4)
    assert endpoint.requests("s")[0]["messages"] == MESSAGES
    assert client.models.list().data[0].id == "scripted"


def test_each_of_n_choices_is_asked_for_and_recorded(serve):
    _, client = serve(lambda request: f"reply {request.index}.{request.choice}")
    client.chat.completions.create(model="m", messages=MESSAGES)
    done = client.chat.completions.create(model="m", messages=MESSAGES, n=3)
    assert [c.message.content for c in done.choices] == ["reply 1.0", "reply 1.1", "reply 1.2"]


async def test_collected_calls_show_place_and_choice(serve):
    endpoint, client = serve(lambda request: Reply(content="x", finish_reason="length"))
    client.chat.completions.create(model="m", messages=MESSAGES, n=2)
    calls = await endpoint.collect("s")
    assert [(c.index, c.choice, c.finish_reason, c.sampled_ids) for c in calls] == [
        (0, 0, "length", None),
        (0, 1, "length", None),
    ]


def test_a_stream_adds_up_to_the_reply(serve):
    text = "forty-two is the answer to everything"
    _, client = serve(Reply(content=text, tool_calls=[ToolUse(name="f", arguments='{"x": [1, 2]}')]))
    stream = client.chat.completions.create(
        model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    pieces, arguments, finish, usage = [], "", None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            finish = choice.finish_reason or finish
            for call in choice.delta.tool_calls or ():
                arguments += call.function.arguments
    assert ("".join(pieces), arguments, finish) == (text, '{"x": [1, 2]}', "tool_calls")
    assert usage.completion_tokens == 10


def test_a_stream_can_break_off(serve):
    _, client = serve(Reply(content="x" * 200, cut_after_bytes=500))
    got = []
    with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)):
        for chunk in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
            got.append(chunk)
    assert got


async def test_a_body_can_be_cut_short():
    endpoint = ScriptedEndpoint(lambda request: Reply(content="x" * 200, cut_after_bytes=20))
    grant = endpoint.add_session("s")
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {grant.api_key}"}) as http:
        async with http.post(f"{grant.base_url}/chat/completions", json={"messages": MESSAGES}) as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()
    await endpoint.aclose()


def test_a_fault_has_its_status_code_and_retry_header(serve):
    _, client = serve(Fault(status=429, message="slow down", code="rate_limit", retry_after_seconds=3))
    with pytest.raises(openai.RateLimitError, match="slow down") as caught:
        client.chat.completions.create(model="m", messages=MESSAGES)
    assert caught.value.code == "rate_limit"
    assert caught.value.response.headers["retry-after"] == "3"


def test_a_reply_can_be_late(serve):
    _, client = serve(Reply(content="x", latency_seconds=0.2))
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.05).chat.completions.create(model="m", messages=MESSAGES)
    assert client.chat.completions.create(model="m", messages=MESSAGES).choices[0].message.content == "x"


def test_a_wrong_key_gets_nothing(serve):
    endpoint, client = serve("secret")
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").chat.completions.create(model="m", messages=MESSAGES)
    assert endpoint.requests("s") == ()


def test_a_script_that_raises_is_a_500_and_is_kept(serve):
    endpoint, client = serve(lambda request: 1 / 0)
    with pytest.raises(openai.InternalServerError, match="ZeroDivisionError"):
        client.chat.completions.create(model="m", messages=MESSAGES)
    assert isinstance(endpoint.script_errors[0], ZeroDivisionError)


async def test_a_session_ends_and_its_name_is_free_again():
    endpoint = ScriptedEndpoint(lambda request: "x")
    await endpoint.open_session(SessionSpec(session_id="s"))
    with pytest.raises(ValueError, match="open already"):
        await endpoint.open_session(SessionSpec(session_id="s"))
    await endpoint.close_session("s")
    await endpoint.close_session("s")
    await endpoint.open_session(SessionSpec(session_id="s"))
    await endpoint.aclose()
    await endpoint.aclose()


class Adder(BaseEnv):
    """Has a tool, so that a conversation takes turns."""

    max_turns = 3

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset([make_example(1)])

    async def list_tools(self):
        number = {"type": "integer"}
        parameters = {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}
        return [{"type": "function", "function": {"name": "add", "parameters": parameters}}]

    async def run_tool(self, rollout_id, tool_name, **args):
        return args["a"] + args["b"]

    async def compute_reward(self, rollout):
        return {"correct": float(rollout.messages[-1]["content"] == rollout.example_args["answer"])}


async def test_a_fake_model_plays_its_replies_to_each_sibling():
    replies = [Reply(tool_calls=[ToolUse(name="add", arguments={"a": 1, "b": 1})]), "2"]
    async with FakeModel(replies) as model:
        group = await model.run_group(Adder(), make_example(1), size=2)
    assert [r.rewards for r in group.rollouts] == [{"correct": 1.0}] * 2
    assert len(model.requests) == 4
    assert model.requests[-1].messages[-1]["role"] == "tool"
    assert model.requests[-1].messages[-1]["content"] == "2"


async def test_a_fake_model_gives_requests_for_single_rollouts():
    with FakeModel(["6"]) as model:
        attempt = await Sums().run_rollout(model.request(make_example(3)))
        assert attempt.rewards == {"correct": 1.0}


async def test_a_fake_model_without_a_reply_left_says_so():
    async with FakeModel([Reply(tool_calls=[ToolUse(name="add", arguments={"a": 1, "b": 1})])]) as model:
        group = await model.run_group(Adder(), make_example(1))
    [rollout] = group.rollouts
    assert rollout.termination_reason == "model_error"
    assert "request 2 of a conversation, but the script has 1 replies" in rollout.error
