"""Environments of a plugin that is installed isolated run there, and do what they do here."""

from __future__ import annotations

import dataclasses
import json

import pytest

from castform.calls import Sampling
from castform.cli.main import main
from castform.environments import load_examples
from castform.errors import ConfigError, RunFailedError, UsageError
from castform.isolation.build import describe_plugins
from castform.plugins.environments import load_environment
from castform.plugins.loader import load_registry
from castform.rollouts import run_group
from castform.scripted_endpoint import ScriptedEndpoint
from castform.seeds import derive_seed


def answer(request):
    """Right for every second sibling."""
    a, b = (int(word.strip("?")) for word in request.messages[-1]["content"].split()[2::2])
    return f"<answer>{a + b + int(request.session_id[-1]) % 2}</answer>"


async def play(loaded):
    """Two groups of four, as plain data without times, and the pin."""
    endpoint = ScriptedEndpoint(answer)
    try:
        examples = await load_examples(loaded.environment, "train", loaded.base_dir, limit=2)
        groups = [
            await run_group(
                loaded.environment,
                example,
                endpoint=endpoint,
                split="train",
                group_id=f"g{place}",
                size=4,
                sampling=Sampling(temperature=1.0, max_new_tokens=8),
                seed=derive_seed(5, place),
                weights={},
                timeout_seconds=30.0,
            )
            for place, example in enumerate(examples)
        ]
    finally:
        await endpoint.aclose()
        await loaded.environment.aclose()
    rollouts = [dataclasses.asdict(rollout) for group in groups for rollout in group.rollouts]
    for rollout in rollouts:
        rollout["calls"] = [(call["messages"], call["reply"], call["sampling"]) for call in rollout["calls"]]
        del rollout["seconds"]
    return rollouts, loaded.with_examples(train=examples).pin


@pytest.mark.slow
async def test_trajectories_are_the_same_in_process_in_a_worker_and_isolated(arith_home, home, monkeypatch):
    args = {"seed": 3}
    here, pin = await play(load_environment("arith/add", args))
    in_worker, worker_pin = await play(load_environment("arith/add", args, workers=1))
    monkeypatch.setenv("CASTFORM_HOME", str(arith_home))
    isolated, isolated_pin = await play(load_environment("arith/add", args))
    assert here == in_worker == isolated
    assert {rollout["score"] for rollout in here} == {1.0, 2.0}
    assert pin == worker_pin
    assert pin == dataclasses.replace(isolated_pin, version="0.1.0")
    assert isolated_pin.version == "7.0"


def test_a_plugin_that_is_not_isolated_has_no_interpreter_of_its_own(home):
    assert load_registry().load("arith").interpreter is None


def test_listing_and_showing_one_need_its_own_environment_alone(arith_home, monkeypatch, capsys):
    monkeypatch.setenv("CASTFORM_HOME", str(arith_home))
    plugin = load_registry().load("Arith")
    assert (plugin.name, plugin.entry.version) == ("arith", "7.0")
    assert main(["env", "list", "arith"]) == 0
    assert "arith/subtract" in capsys.readouterr().out
    assert main(["env", "show", "arith/add", "-a", "seed=2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["id"], shown["version"], shown["sizes"]["train"]) == ("arith/add", "7.0", 55)
    assert "seed" in {argument["name"] for argument in shown["arguments"]}
    assert shown["seen_rewards"] == {"format": 1.0, "correct": 1.0}


def test_wrong_arguments_and_versions_are_errors_as_they_are_here(arith_home, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(arith_home))
    with pytest.raises(ConfigError, match="unknown argument"):
        load_environment("arith/add", {"sed": 2})
    with pytest.raises(UsageError, match=r"asks for version 6\.0, but castform-env-arith 7\.0 is installed"):
        load_environment("arith/add@6.0")
    with pytest.raises(UsageError) as caught:
        load_environment("arith/ad")
    assert caught.value.hint == "did you mean 'arith/add'?"


def test_what_is_no_plugin_is_told_before_it_counts(arith_home, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(arith_home))
    interpreter = load_registry().load("arith").interpreter
    assert interpreter is not None
    with pytest.raises(RunFailedError, match="pluggy has no entry point in the group 'castform'") as caught:
        describe_plugins(interpreter.python.parents[1], "pluggy")
    assert "nothing was installed" in str(caught.value.hint)
