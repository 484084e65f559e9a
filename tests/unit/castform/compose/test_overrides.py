"""One thing changed in a composed environment: `-a` and `--set` with dots in their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from castform.cli.model_choice import apply_arguments
from castform.config import load_config, read_environment_file
from castform.errors import ConfigError

SHORT = """
[environment]
dataset = "arith/add"
prompt = "{question}"
rewards = ["castform/answer"]
rubrics = { "Is it kind to the reader?" = 0.5 }
tools = ["lookup/find"]
"""
LONG = """
[environment]
dataset = { id = "arith/add", args = { seed = 1 } }
prompt = [{ role = "user", content = "{question}" }]
rewards = [{ id = "castform/answer", weight = 1.0, name = "right.one" }]
rubrics = [{ text = "Is it kind to the reader?", weight = 0.5 }]
tools = [{ id = "lookup/find" }]
"""
TABLES = """
[environment]
dataset = { id = "arith/add" }
prompt = { user = "{question}" }
rewards = { "castform/answer" = 1.0 }
rubrics = ["Is it kind to the reader?"]
tools = { "lookup/find" = { args = {} } }
"""
CHANGES = {
    "prompt.user": "Now: {question}",
    "prompt.system": "Be short.",
    "dataset.args.seed": 7,
    "rewards.castform/answer": 0.25,
    "rewards.castform/contains.weight": 0,
    "rubrics.Is it kind to the reader?": 2.0,
    "tools.lookup/find.args.limit": 3,
    "max_turns": 4,
}


def write(folder: Path, text: str) -> Path:
    file = folder / "run.toml"
    file.write_text(text)
    return file


def words(changes: dict[str, object]) -> list[str]:
    return [f"{name}={value!r}" for name, value in changes.items()]


def is_changed(section) -> None:
    assert [(m.role, m.content) for m in section.prompt] == [
        ("system", "Be short."),
        ("user", "Now: {question}"),
    ]
    assert (section.dataset.id, section.dataset.args) == ("arith/add", {"seed": 7})
    assert [(r.id, r.weight) for r in section.rewards] == [
        ("castform/answer", 0.25),
        ("castform/contains", 0.0),
    ]
    assert [(r.text, r.weight) for r in section.rubrics] == [("Is it kind to the reader?", 2.0)]
    assert [(t.id, t.args) for t in section.tools] == [("lookup/find", {"limit": 3})]
    assert section.max_turns == 4


@pytest.mark.parametrize("text", [SHORT, LONG, TABLES], ids=["short", "long", "tables"])
def test_every_way_of_changing_a_part_reaches_every_form_of_it(tmp_path, text):
    file = write(tmp_path, text)
    before = load_config(file).environment
    is_changed(apply_arguments(load_config(file), words(CHANGES)).environment)
    is_changed(load_config(file, words({f"environment.{k}": v for k, v in CHANGES.items()})).environment)
    is_changed(read_environment_file(file, CHANGES))
    assert load_config(file).environment == before
    kept = apply_arguments(load_config(file), ["max_turns=2"]).environment
    assert kept.model_dump(exclude={"max_turns"}) == before.model_dump(exclude={"max_turns"})


def test_a_name_with_dots_in_it_is_found(tmp_path):
    file = write(tmp_path, LONG)
    [reward] = read_environment_file(file, {"rewards.right.one.weight": 3}).rewards
    assert (reward.name, reward.weight) == ("right.one", 3.0)
    assert apply_arguments(load_config(file), ["rewards.right.one=4"]).environment.rewards[0].weight == 4.0


def test_a_mixture_has_its_members_changed(tmp_path):
    file = write(tmp_path, '[environment.mix]\n"arith/add" = 1.0\n"arith/subtract" = 2.0\n')
    section = apply_arguments(load_config(file), ["mix.arith/add.args.seed=5", "mix.arith/subtract=0.5"])
    assert [(m.id, m.weight, m.args) for m in section.environment.mix] == [
        ("arith/add", 1.0, {"seed": 5}),
        ("arith/subtract", 0.5, {}),
    ]


def test_arguments_of_a_composed_file_that_is_the_id_are_left_to_it(tmp_path):
    file = write(tmp_path, SHORT)
    config = load_config(None, ["environment.prompt.user='Now'"], environment__id=str(file))
    assert config.environment.args == {"prompt.user": "Now"}
    assert read_environment_file(file, config.environment.args).prompt[0].content == "Now"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("prompt.assistent", "a message is system, user or assistant, not 'assistent'"),
        ("tools.lookup/find", "tools.lookup/find needs what to change of it: tools.lookup/find.args.…"),
        ("max_turns.most", "max_turns is a value, not a section"),
    ],
)
def test_what_cannot_be_changed_so_says_why(tmp_path, name, told):
    file = write(tmp_path, SHORT + "max_turns = 3\n")
    for change in (
        lambda: apply_arguments(load_config(file), [f"{name}=1"]),
        lambda: load_config(file, [f"environment.{name}=1"]),
        lambda: read_environment_file(file, {name: 1}),
    ):
        with pytest.raises(ConfigError) as caught:
            change()
        assert f"environment.{name}: {told}" in str(caught.value)


def test_two_parts_of_one_name_are_not_guessed_between(tmp_path):
    file = write(tmp_path, LONG.replace("tools", "max_turns = 1\n# tools"))
    rewards = '[{id="a/b", name="x"}, {id="a/b", name="y"}]'
    with pytest.raises(ConfigError, match=r"environment.rewards.a/b: rewards has 2 parts called 'a/b'"):
        apply_arguments(load_config(file), [f"rewards={rewards}", "rewards.a/b=1"])
    changed = apply_arguments(load_config(file), [f"rewards={rewards}", "rewards.y=0.5"]).environment.rewards
    assert [(r.name, r.weight) for r in changed] == [("x", 1.0), ("y", 0.5)]


def test_a_value_in_place_of_parts_is_told(tmp_path):
    file = write(tmp_path, SHORT.replace('["lookup/find"]', "3"))
    with pytest.raises(ConfigError, match=r"tools is int, and no parts to look for 'x.args' in"):
        read_environment_file(file, {"tools.x.args": {}})
