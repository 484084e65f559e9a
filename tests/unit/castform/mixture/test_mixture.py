"""Several environments in one run: order, names, scores, pins, faults."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.calls import Sampling
from castform.cli.main import main
from castform.config import load_config
from castform.environments import load_configured, load_examples
from castform.errors import ConfigError, UsageError
from castform.mixture.interleave import interleave
from castform.rollouts import run_group
from castform.scripted_endpoint import ScriptedEndpoint

MIX = """
[environment]
summary = "Sums and facts"

[[environment.mix]]
id = "arith/add"
weight = 2
args = { seed = 3 }
weights = { format = 0.0 }

[[environment.mix]]
id = "lookup"
weight = 1
"""
OTHER = '''
from benchmax.envs import BaseEnv, Dataset, Example


class Echo(BaseEnv):
    """Pays the word."""

    max_turns = 1
    reward_weights = {"long": 0.0}

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        words = ["red", "blue", "green"] if split == "train" else ["black"]
        return Dataset(
            [Example(w, {"prompt_messages": [{"role": "user", "content": w}], "answer": w}) for w in words][:max_examples]
        )

    async def compute_reward(self, rollout):
        text = rollout.messages[-1]["content"]
        return {"same": float(text == rollout.example_args["answer"]), "long": float(len(text))}
'''


def write(folder: Path, text: str, name: str = "mix.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def load(folder: Path, text: str):
    return load_configured(load_config(write(folder, text)).environment)


@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    weights=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    weighted=st.booleans(),
    limit=st.one_of(st.none(), st.integers(1, 20)),
)
@settings(deadline=None, max_examples=60)
def test_the_order_is_fair_complete_and_a_limit_cuts_it(sizes, weights, weighted, limit):
    shares = [float(w) for w in weights[: len(sizes)]] if weighted else None
    order = interleave(sizes, shares)
    assert interleave(sizes, shares, limit=limit) == order[:limit]
    if limit is not None:  # environments that were asked for no more give the same beginning
        assert interleave([min(size, limit) for size in sizes], shares, limit=limit) == order[:limit]
    for place in range(len(sizes)):  # each one's examples come whole and in order
        assert [number for chosen, number in order if chosen == place] == list(
            range(sum(chosen == place for chosen, _ in order))
        )
    if shares is None:
        assert len(order) == sum(sizes)
        return
    given_so_far = [0] * len(sizes)
    for done, (chosen, _) in enumerate(order, start=1):
        given_so_far[chosen] += 1
        for share, given_here in zip(shares, given_so_far, strict=True):
            assert abs(share / sum(shares) * done - given_here) < len(sizes)
    assert len(order) == sum(sizes) or any(
        given_here == size for given_here, size in zip(given_so_far, sizes, strict=True)
    )


def test_shares_and_turns_are_what_they_say():
    assert [chosen for chosen, _ in interleave([9, 9], [2.0, 1.0], limit=6)] == [0, 1, 0, 0, 1, 0]
    assert [chosen for chosen, _ in interleave([1, 3, 2])] == [0, 1, 2, 1, 2, 1]
    assert len(interleave([4, 100], [1.0, 1.0])) == 8
    assert interleave([0, 3], [1.0, 1.0]) == []
    assert interleave([]) == []


async def test_examples_go_to_their_environment_and_components_get_its_name(tmp_path):
    other = write(tmp_path, OTHER, "echo.py")
    loaded = load(tmp_path, f'[environment]\nmix = ["{other}", "arith/add"]\n')
    examples = await load_examples(loaded.environment, "train", loaded.base_dir)
    assert [example.id.partition(":")[0] for example in examples[:5]] == [
        "echo",
        "arith",
        "echo",
        "arith",
        "echo",
    ]
    assert len(examples) == 3 + 55
    assert loaded.environment.gold(examples[0]) == "red"
    assert loaded.environment.gold(examples[1]).startswith("<answer>")
    endpoint = ScriptedEndpoint(lambda request: "red")
    try:
        groups = [
            await run_group(
                loaded.environment,
                example,
                endpoint=endpoint,
                split="train",
                group_id=f"g{place}",
                size=2,
                sampling=Sampling(temperature=1.0, max_new_tokens=8),
                seed=1,
                weights={"arith/format": 5.0},
                timeout_seconds=30.0,
            )
            for place, example in enumerate(examples[:2])
        ]
    finally:
        await endpoint.aclose()
        await loaded.environment.aclose()
    echo, arith = groups
    assert [(r.score, r.rewards) for r in echo.rollouts] == [(1.0, {"echo/same": 1.0, "echo/long": 3.0})] * 2
    assert [(r.score, r.rewards) for r in arith.rollouts] == [
        (0.0, {"arith/format": 0.0, "arith/correct": 0.0})
    ] * 2
    with pytest.raises(ValueError, match="is of none of echo, arith"):
        loaded.environment.gold(examples[0].__class__("else:1", {}))


async def test_payloads_are_handed_on_as_they_are_and_the_limit_counts_all(tmp_path):
    loaded = load(tmp_path, MIX)
    examples = await load_examples(loaded.environment, "eval", loaded.base_dir, limit=9)
    assert [example.id.partition(":")[0] for example in examples].count("lookup") == 3
    whole = await load_examples(loaded.environment, "eval", loaded.base_dir)
    assert examples == whole[:9]
    from castform.plugins.environments import load_environment

    alone = load_environment("arith/add", {"seed": 3})
    theirs = await load_examples(alone.environment, "eval", alone.base_dir, limit=6)
    assert [e.payload for e in examples if e.id.startswith("arith:")] == [e.payload for e in theirs]


def test_the_pin_holds_every_environments_and_changes_with_any(tmp_path):
    loaded = load(tmp_path, MIX)
    mixed = loaded.pin.args["mix"]
    assert [(part["name"], part["id"], part["weight"]) for part in mixed] == [
        ("arith", "arith/add", 2.0),
        ("lookup", "lookup/places", 1.0),
    ]
    assert mixed[0]["weights"] == {"format": 0.0}
    assert {file.partition(": ")[0] for file in loaded.pin.details.files} == {"arith", "lookup"}
    digests = {
        load(tmp_path, text).pin.digest()
        for text in (
            MIX,
            MIX.replace("seed = 3", "seed = 4"),
            MIX.replace("weight = 1", "weight = 3"),
            MIX.replace("format = 0.0", "format = 0.5"),
        )
    }
    assert len(digests) == 4
    assert load(tmp_path, MIX).pin.digest() == loaded.pin.digest()


async def test_workers_of_the_run_are_workers_of_every_environment_that_names_none(tmp_path):
    text = MIX.replace("[environment]", "[environment]\nworkers = 1").replace(
        "weight = 1", "weight = 1\nworkers = 2"
    )
    for path in (write(tmp_path, text), write(tmp_path, text.replace("\nworkers = 1", ""), "file.toml")):
        section = load_config(path).environment
        if path.name == "file.toml":  # by the TOML's own name, workers from the command line
            section = load_config(None, environment__id=str(path), environment__workers=1).environment
        loaded = load_configured(section)
        try:
            await load_examples(loaded.environment, "train", loaded.base_dir, limit=2)
            pids = [len(part.loaded.environment.list_pids()) for part in loaded.environment.parts.values()]
        finally:
            await loaded.environment.aclose()
        assert pids == [1, 2]
        assert loaded.pin.digest() == load(tmp_path, MIX).pin.digest() or path.name == "file.toml"


def test_showing_a_mixture_lists_its_environments(tmp_path, capsys):
    assert main(["env", "show", str(write(tmp_path, MIX)), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["summary"] == "Sums and facts"
    assert [(part["kind"], part["id"], part["name"], part["weight"]) for part in shown["parts"]] == [
        ("environment", "arith/add", "arith", 2.0),
        ("environment", "lookup/places", "lookup", 1.0),
    ]
    assert shown["seen_rewards"] == {"arith/correct": 1.0, "arith/format": 1.0}


def test_every_fault_of_a_mixture_is_told_at_once(tmp_path):
    text = """
[[environment.mix]]
id = "arith/ad"
[[environment.mix]]
id = "arithh"
weight = 2
[[environment.mix]]
id = "arith/add"
name = "a:b"
args = { sed = 1 }
"""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    told = str(caught.value)
    for part in (
        "has no weight, and others have",
        "did you mean 'arith/add'?",
        "no plugin called 'arithh'",
        "'a:b' is no usable name",
        "sed: unknown argument",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[environment]\nid = "arith"\nmix = ["lookup"]\n', "give an id, or parts"),
        ('[environment]\nmix = ["lookup"]\nrewards = ["arith/correct"]\n', "has a mix and rewards"),
        ("[environment]\nmix = { lookup = 0 }\n", "greater than 0"),
        ("[environment]\nmix = { lookup = true }\n", "must be a number, not true or false"),
        ('[[environment.mix]]\nname = "x"\n', "is required"),
        ('[[environment.mix]]\nid = "lookup"\nworkers = 300\n', "less than or equal to 256"),
    ],
)
def test_a_section_that_cannot_be_meant_is_refused(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path, text))


def test_plugins_that_repeat_are_called_by_environment_and_the_same_twice_needs_names(tmp_path):
    two = load(tmp_path, '[environment]\nmix = { "arith/add" = 1, "arith/subtract" = 1 }\n')
    assert list(two.environment.parts) == ["arith-add", "arith-subtract"]
    assert two.id == "arith-add + arith-subtract"
    with pytest.raises(ConfigError, match="another environment is called 'arith-add' too"):
        load(tmp_path, '[environment]\nmix = ["arith/add", "arith/add"]\n')


async def test_what_one_environment_cannot_load_names_it(tmp_path):
    text = OTHER.replace('["black"]', "[]")
    other = write(tmp_path, text, "echo.py")
    loaded = load(tmp_path, f'[environment]\nmix = ["{other}", "arith/add"]\n')
    with pytest.raises(UsageError, match="echo: the eval dataset has no examples"):
        await load_examples(loaded.environment, "eval", loaded.base_dir)


async def test_closing_closes_all_of_them_whatever_one_raises(tmp_path):
    text = OTHER + "\n    async def aclose(self):\n        raise OSError('stuck')\n"
    first, second = write(tmp_path, text, "one.py"), write(tmp_path, text, "two.py")
    loaded = load(tmp_path, f'[environment]\nmix = ["{first}", "{second}"]\n')
    closed = []
    for name, part in loaded.environment.parts.items():
        own = part.loaded.environment.aclose

        async def close(name=name, own=own):
            closed.append(name)
            await own()

        part.loaded.environment.aclose = close
    with pytest.raises(OSError, match="stuck"):
        await loaded.environment.aclose()
    assert closed == ["one", "two"]


def test_shares_of_three_are_kept_to_within_one():
    for weights in itertools.permutations([1.0, 2.0, 5.0]):
        order = [chosen for chosen, _ in interleave([80, 80, 80], list(weights), limit=40)]
        assert [order.count(place) for place in range(3)] == [int(w * 5) for w in weights]


def test_a_mixture_that_leads_back_to_itself_is_told_before_anything_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = write(tmp_path, '[environment.mix]\n"two.toml" = 1\n"arith/add" = 1\n', "one.toml")
    write(tmp_path, '[[environment.mix]]\nid = "one.toml"\nworkers = 1\n', "two.toml")
    with pytest.raises(ConfigError) as caught:
        load_configured(load_config(one).environment)
    assert str(caught.value).splitlines()[1:] == [
        '  environment.mix."two.toml": two.toml mixes itself: two.toml > one.toml > two.toml'
    ]


def test_weights_of_a_mixture_in_a_file_are_in_force_and_in_its_pin(tmp_path):
    text = MIX.replace(
        'summary = "Sums and facts"', 'weights = { "arith/format" = 0.5, "lookup/exact" = 2.0 }'
    )
    id = str(write(tmp_path, text))
    loaded = load_configured(load_config(environment__id=id).environment)
    assert loaded.environment.reward_weights["arith/format"] == 0.5
    assert loaded.environment.reward_weights["lookup/exact"] == 2.0
    plain = load(tmp_path, MIX)
    assert plain.environment.reward_weights["arith/format"] == 0.0
    assert loaded.pin.args["weights"] == {"arith/format": 0.5, "lookup/exact": 2.0}
    assert "weights" not in plain.pin.args


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("max_turns = 3", "environment.max_turns is not for a mix: each environment in it has its own"),
        (
            "weights = { format = 1.0 }",
            'environment.weights."format": is of none of the environments; their components are called arith/…, lookup/…',
        ),
    ],
)
def test_what_only_a_composed_environment_has_is_refused_for_a_mixture(tmp_path, line, fault):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, MIX.replace('summary = "Sums and facts"', line))
    assert [each.strip() for each in str(caught.value).splitlines()[1:]] == [fault]


def test_a_fault_in_a_mix_is_told_without_words_about_parts(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "[[environment.mix]]\nweight = 1\n")
    assert [each.strip() for each in str(caught.value).splitlines()[1:]] == [
        "environment.mix[0].id: is required"
    ]
