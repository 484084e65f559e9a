"""What counts as a number in a config."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from castform.config import RunConfig, load_config
from castform.errors import ConfigError
from castform.plugins.references import validate_args
from castform.sft.config import load_sft_config


@pytest.mark.parametrize("word", ["true", "false"])
@pytest.mark.parametrize(
    "name", ["run.steps", "run.max_seconds", "optimizer.learning_rate", "eval.temperature"]
)
def test_true_and_false_are_no_numbers(name, word):
    with pytest.raises(ConfigError, match=rf"{name}: must be a number, not true or false"):
        load_config(None, [f"{name}={word}"])


@pytest.mark.parametrize("load", [load_config, load_sft_config])
def test_threads_that_no_machine_can_start_are_refused(load):
    assert load(None, ["run.threads=1024"]).run.threads == 1024
    with pytest.raises(ConfigError, match=r"run\.threads = 1025: .*less than or equal to 1024"):
        load(None, ["run.threads=1025"])


def test_what_may_be_true_still_may():
    config = load_config(None, ["run.deterministic=true", "rl.normalize_advantage=true"])
    assert config.run.deterministic is True and config.rl.normalize_advantage is True
    assert RunConfig().run.deterministic is False


def test_arguments_of_a_plugin_are_held_to_the_same_with_all_other_faults():
    class Config(BaseModel):
        size: int = 1
        share: float | None = None
        either: bool | int = 1
        on: bool = False

    made = validate_args(Config, {"either": True, "on": True, "size": 3}, "x/y")
    assert (made.either, made.on, made.size, made.share) == (True, True, 3, None)
    with pytest.raises(ConfigError) as caught:
        validate_args(Config, {"size": True, "share": False, "on": "maybe"}, "x/y")
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 wrong arguments of environment 'x/y':"
    assert lines[1:3] == [
        "  size = True: must be a number, not true or false",
        "  share = False: must be a number, not true or false",
    ]
    assert lines[3].startswith("  on = 'maybe': ")


def test_numbers_within_arguments_are_held_to_it_too_with_their_place():
    Level = Annotated[int, Field(ge=1)]

    class Task(BaseModel):
        weight: float = 1.0
        shown: bool = False

    class Config(BaseModel):
        weights: dict[str, float] = {}
        levels: dict[str, Level | dict[str, Level]] = {}
        sizes: list[int] = []
        span: tuple[str, int] = ("a", 1)
        tasks: list[Task] = []
        train: int | list[dict[str, Any]] = 1
        choice: Literal[1, 2] = 1

    good = {"weights": {"a": 1}, "train": [{"fast": True}], "tasks": [{"shown": True}], "span": ("a", 2)}
    made = validate_args(Config, good, "x/y")
    assert (made.train, made.tasks[0].shown) == ([{"fast": True}], True)
    bad = {
        "weights": {"a": 1, "b": True},
        "levels": {"x": {"y": True}, "z": True},
        "sizes": [1, True],
        "span": ("a", True),
        "tasks": [{"weight": 2}, {"weight": False}],
        "train": True,
    }
    with pytest.raises(ConfigError) as caught:
        validate_args(Config, bad, "x/y")
    lines = str(caught.value).splitlines()
    assert lines[0] == "7 wrong arguments of environment 'x/y':"
    assert sorted(lines[1:]) == [
        f"  {place}: must be a number, not true or false"
        for place in (
            "levels.x.y = True",
            "levels.z = True",
            "sizes[1] = True",
            "span[1] = True",
            "tasks[1].weight = False",
            "train = True",
            "weights.b = True",
        )
    ]
