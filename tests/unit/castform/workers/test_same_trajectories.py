"""An environment does the same in worker processes as in this one, byte for byte."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

from castform.calls import Sampling
from castform.environments import load_examples
from castform.evaluate import evaluate
from castform.plugins import load_environment
from castform.runs.records import to_json
from castform.scripted_endpoint import ScriptedEndpoint
from castform.scripted_replies import Fault, Reply, ToolUse

DIALOGUE = str(Path(__file__).parent / "dialogue.py")


class Unrecorded(ScriptedEndpoint):
    """A server that keeps no record: the calls are what the environment's client saw."""

    async def collect(self, session_id):
        return ()


def reply(request):
    """Decide by what was said and by the session's place among its siblings: every kind of turn comes up."""
    text = json.dumps(request.body["messages"], sort_keys=True) + request.session_id[-1:]
    choice = hashlib.sha256(text.encode()).digest()[0] % 12
    if choice < 6:
        arguments = {"number": choice} if choice else {"numbre": "x"}
        return Reply(tool_calls=(ToolUse(name="guess", arguments=arguments, call_id=f"call_{len(text)}"),))
    if choice == 6:
        return "crash"
    if choice == 7:
        return Fault(status=400)
    return "x" * choice + "\u00e9\ud83d\ude00"


def bytes_of(rollout):
    plain = dataclasses.asdict(rollout)
    del plain["seconds"]
    plain["calls"] = [{**call, "seconds": 0.0} for call in plain["calls"]]
    return to_json(plain)


async def run(endpoint_class, payloads, workers):
    loaded = load_environment(DIALOGUE, {"payloads": payloads, "seed": 3}, workers=workers)
    endpoint = endpoint_class(reply)
    try:
        examples = await load_examples(loaded.environment, "train", loaded.base_dir)
        loaded = loaded.with_examples(train=examples)
        groups = []
        await evaluate(
            loaded.environment,
            examples,
            endpoint=endpoint,
            samples=4,
            sampling=Sampling(),
            seed=11,
            split="train",
            on_group=groups.append,
            enforce_sampling=True,
        )
        golds = [str(loaded.environment.gold(example)) for example in examples]
    finally:
        await endpoint.aclose()
        await loaded.environment.aclose()
    groups.sort(key=lambda group: group.group_id)
    return loaded, groups, golds, examples


@pytest.mark.parametrize(
    ("endpoint_class", "payloads"), [(ScriptedEndpoint, "plain"), (Unrecorded, "objects")]
)
async def test_transcripts_rewards_ids_seeds_and_pins_are_the_same(endpoint_class, payloads):
    here, groups_here, golds_here, examples_here = await run(endpoint_class, payloads, 0)
    there, groups_there, golds_there, examples_there = await run(endpoint_class, payloads, 2)
    rollouts_here = [bytes_of(r) for group in groups_here for r in group.rollouts]
    rollouts_there = [bytes_of(r) for group in groups_there for r in group.rollouts]
    assert rollouts_there == rollouts_here
    assert [(g.group_id, g.example_id) for g in groups_there] == [
        (g.group_id, g.example_id) for g in groups_here
    ]
    assert there.pin == here.pin and there.pin.digest() == here.pin.digest()
    assert there.pin.details == here.pin.details
    assert (there.id, there.base_dir) == (here.id, here.base_dir)
    assert golds_there == golds_here
    check_every_kind_of_end(groups_there)
    if payloads == "plain":
        assert examples_there == examples_here
        assert [type(e.payload["tags"]) for e in examples_there] == [tuple] * 6


def check_every_kind_of_end(groups):
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert {r.termination_reason for r in rollouts} >= {"finished", "model_error", "reward_error"}
    assert any(len(r.messages) > 4 for r in rollouts)
    assert any(m["role"] == "tool" and "numbre" in m["content"] for r in rollouts for m in r.messages)
