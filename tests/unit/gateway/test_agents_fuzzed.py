"""Agents of every dialect at random, several at once in one session: what they sampled is what is trained.

Each talks raw JSON, has tools or none, compacts its conversation, runs sub-agents, asks again for a
reply it has, and sends its past back in one of the ways that its dialect has.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict

import pytest

from castform.calls import Sampling
from castform_trainer.engines.fake import FakeEngine
from castform_trainer.gateway.fake_tokenizer import (
    MERGED_RESULTS,
    STRIPS_THINKING,
    TOOLS,
    make_fake_tokenizer,
)
from castform_trainer.gateway.fidelity import check_fidelity, count_fidelity
from castform_trainer.gateway.trajectory import build_segments

WORDS = ["hello", "sun", "flower", "the end", "é\u2028", "\U0001f33b", '{"a": 1}', "<b>", "  x"]
CALL = '<tool_call>\n{"name": "find", "arguments": {"w": "ä \\"q\\"", "n": 1.0}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "find", "arguments": {"a": 1}\n</tool_call>'
SCHEMA = {"type": "object", "properties": {"all": {"type": "boolean", "default": False}}}
UNTIMED = dict.fromkeys(("created", "created_at", "completed_at"))
"""The moment of an answer is that of its try."""
DIALECTS = ("chat", "anthropic", "responses")


def make_text(rng, thinks):
    """Return what the model says in one turn."""
    said = " ".join(rng.choices(WORDS, k=rng.randrange(4)))
    calls = rng.choice(["", "", f"\n{CALL}", f"\n{CALL}\n{CALL}", f"\n{BROKEN}"])
    think = "<think>\nhm\n</think>\n\n" if thinks and rng.random() < 0.7 else ""
    return f"{think}{said or 'so'}{calls}"


class Client:
    """What any agent's client does; its dialect's ways are the subclass's."""

    def __init__(self, bench, grant, name, rng):
        self.bench, self.grant, self.name, self.rng = bench, grant, name, rng
        self.has_tools = rng.random() < 0.8
        self.history = []
        self.way = rng.choice(self.ways)

    async def ask(self):
        """Ask once, or again for the same reply, and take it into the history. Returns the calls' ids."""
        body = {"model": "fake", **self.make_body()}
        reply = await self.post(body, {})
        if self.rng.random() < 0.2:
            again = await self.post(body, {"x-stainless-retry-count": "1"})
            assert {**again, **UNTIMED} == {**reply, **UNTIMED}
        return self.take(reply)

    async def post(self, body, headers):
        every = {
            "Authorization": f"Bearer {self.grant.api_key}",
            "X-Castform-Lineage": self.name,
            **headers,
        }
        async with self.bench.http.post(
            f"{self.grant.base_url}/{self.route}", json=body, headers=every
        ) as reply:
            answer = await reply.json()
            assert reply.status == 200, answer
        return answer


class ChatClient(Client):
    route = "chat/completions"
    ways = ("echoed", "respelt")

    def make_body(self):
        tools = [{"type": "function", "function": {"name": "find", "parameters": SCHEMA}}]
        return {"messages": self.history, **({"tools": tools} if self.has_tools else {})}

    def say(self, text):
        self.history = [*self.history, {"role": "user", "content": text}]

    def take(self, reply):
        message = reply["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        if self.way == "respelt":
            message = {
                "role": "assistant",
                "content": [{"type": "text", "text": message["content"] or ""}],
                **({"reasoning_content": r} if (r := message.get("reasoning_content")) else {}),
                "tool_calls": [
                    {
                        **call,
                        "function": {
                            "name": call["function"]["name"],
                            "arguments": json.dumps(json.loads(call["function"]["arguments"]), indent=1),
                        },
                    }
                    for call in calls
                ],
            }
        self.history = [*self.history, message]
        return [call["id"] for call in calls]

    def give(self, ids):
        self.history = [
            *self.history,
            *({"role": "tool", "tool_call_id": each, "content": "4"} for each in ids),
        ]

    def restart(self, text):
        self.history = []
        self.say(text)


class AnthropicClient(ChatClient):
    route = "messages"
    ways = ("echoed", "plain")

    def make_body(self):
        tools = [{"name": "find", "input_schema": SCHEMA}]
        return {
            "messages": self.history,
            "max_tokens": 400,
            "system": [{"type": "text", "text": "be brief"}],
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            **({"tools": tools} if self.has_tools else {}),
        }

    def take(self, reply):
        content = reply["content"]
        if self.way == "plain" and [block["type"] for block in content] == ["text"]:
            content = content[0]["text"]
        self.history = [*self.history, {"role": "assistant", "content": content}]
        return [block["id"] for block in reply["content"] if block["type"] == "tool_use"]

    def give(self, ids):
        results = [{"type": "tool_result", "tool_use_id": each, "content": "4"} for each in ids]
        more = [{"type": "text", "text": "and now?"}] if self.rng.random() < 0.5 else []
        self.history = [*self.history, {"role": "user", "content": [*results, *more]}]


class ResponsesClient(ChatClient):
    route = "responses"
    ways = ("echoed", "referenced", "stored")
    last = None

    def make_body(self):
        tools = [{"type": "function", "name": "find", "strict": False, "parameters": SCHEMA}]
        return {
            "input": self.history,
            "instructions": "be brief",
            "store": self.way != "echoed",
            **({"tools": tools} if self.has_tools else {}),
            **({"previous_response_id": self.last} if self.way == "stored" and self.last else {}),
        }

    def take(self, reply):
        output = reply["output"]
        self.last = reply["id"]
        if self.way == "stored":
            self.history = []
        elif self.way == "referenced":
            references = [{"type": "item_reference", "id": item["id"]} for item in output]
            self.history = [*self.history, *references]
        else:
            self.history = [*self.history, *output]
        return [item["call_id"] for item in output if item["type"] == "function_call"]

    def give(self, ids):
        outputs = [{"type": "function_call_output", "call_id": each, "output": "4"} for each in ids]
        self.history = [*self.history, *outputs]

    def restart(self, text):
        self.last = None
        super().restart(text)


CLIENTS = {"chat": ChatClient, "anthropic": AnthropicClient, "responses": ResponsesClient}


async def run_agent(bench, grant, name, rng, starts, *, turns, depth=0):
    """Run one agent to its end. `starts` counts by name how often a conversation began."""
    agent = CLIENTS[rng.choice(DIALECTS)](bench, grant, name, rng)
    agent.restart(f"you are {name}")
    starts[name] = 1
    for turn in range(turns):
        ids = await agent.ask()
        if turn == turns - 1:
            return
        if depth < 2 and rng.random() < 0.4:
            async with asyncio.TaskGroup() as group:
                for number in range(rng.randint(2, 3)):
                    child = random.Random(f"{rng.random()} {number}")
                    below = f"{name}/{turn}.{number}"
                    group.create_task(
                        run_agent(
                            bench, grant, below, child, starts, turns=rng.randint(1, 3), depth=depth + 1
                        )
                    )
        if rng.random() < 0.2:
            agent.restart(f"{name} so far: {turn}")
            starts[name] += 1
        elif ids:
            agent.give(ids)
        else:
            agent.say(f"and now? {turn}")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "template", [TOOLS, MERGED_RESULTS, STRIPS_THINKING], ids=["plain", "merged", "thinking"]
)
async def test_whatever_agents_do_the_engines_own_ids_are_trained_once(make_bench, template, seed):
    thinks = template == STRIPS_THINKING
    tokenizer = make_fake_tokenizer(template)
    sampled = {}

    def script(prompt, sampling):
        text = make_text(random.Random(sampling.seed), thinks)
        awkward = [i for char in text for i in tokenizer.encode(char, add_special_tokens=False)]
        ids = [*awkward, tokenizer.eos_token_id]
        assert sampling.seed not in sampled
        sampled[sampling.seed] = (tuple(prompt), tuple(ids))
        return ids

    engine = FakeEngine(script=script, decode=tokenizer.decode, max_context_tokens=100_000)
    bench = await make_bench(template=template, engine=engine)
    starts = {"one": {}, "two": {}}
    async with asyncio.TaskGroup() as group:
        for number, name in enumerate(starts):
            grant = await bench.open(name, sampling=Sampling(max_new_tokens=900, seed=10 * seed + number))
            rng = random.Random(f"{seed} {name}")
            group.create_task(run_agent(bench, grant, name, rng, starts[name], turns=6))
    found = 0
    for name, began in starts.items():
        calls = await bench.calls(name)
        found += len(calls)
        log = {call.call_id: sampled[call.sampling.seed] for call in calls}
        segments = build_segments(calls)
        check_fidelity(segments, log)
        counts = count_fidelity(calls)
        assert counts.broken_calls == 0
        assert counts.trained_tokens == sum(len(ids) for _, ids in log.values())
        assert counts.trained_tokens == sum(sum(segment.mask) for segment in segments)
        chains = defaultdict(list)
        for call in calls:
            chains[call.lineage].append(call.splice)
        assert set(chains) == set(began)
        if not thinks:  # the template takes thinking out of the past, so that a new user turn forks
            assert {n: splices.count("first") for n, splices in chains.items()} == began
            assert not any("forked" in splices for splices in chains.values())
    assert found == len(sampled) > 20
