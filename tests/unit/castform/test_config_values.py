"""What counts as a number in a config."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from castform.config import RunConfig, load_config
from castform.errors import ConfigError
from castform.plugins.references import validate_args


@pytest.mark.parametrize("word", ["true", "false"])
@pytest.mark.parametrize(
    "name", ["run.steps", "run.max_seconds", "optimizer.learning_rate", "eval.temperature"]
)
def test_true_and_false_are_no_numbers(name, word):
    with pytest.raises(ConfigError, match=rf"{name}: must be a number, not true or false"):
        load_config(None, [f"{name}={word}"])


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
