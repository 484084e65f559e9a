"""`-a NAME=VALUE` of train, eval, validate and env certify."""

from __future__ import annotations

import argparse
from types import ModuleType

import pytest

from castform.cli import certify, eval, train, validate
from castform.cli.model_choice import apply_arguments
from castform.config import RunConfig, load_config
from castform.errors import UsageError
from castform.plugins import PluginFailure


def read(**environment: object) -> RunConfig:
    return RunConfig.model_validate({"environment": environment})


def test_an_argument_wins_over_the_settings_and_leaves_the_others() -> None:
    config = load_config(
        None, ["environment.args.seed=1", "environment.args.level=3"], environment__id="arith"
    )
    changed = apply_arguments(config, ["seed=2", "name=two words"])
    assert changed.environment.id == "arith"
    assert changed.environment.args == {"seed": 2, "level": 3, "name": "two words"}
    assert config.environment.args == {"seed": 1, "level": 3}
    assert apply_arguments(config, []) is config


def test_an_argument_of_a_composed_environment_is_one_of_its_keys() -> None:
    config = read(dataset="arith/add", rewards={"arith/correct": 1.0}, prompt="{question}", max_turns=4)
    changed = apply_arguments(config, ["max_turns=2", "rewards={'arith/format' = 1}"]).environment
    assert changed.max_turns == 2
    assert [part.id for part in changed.rewards] == ["arith/format"]
    assert changed.args == {}


def test_a_word_without_a_value_is_told() -> None:
    with pytest.raises(UsageError, match="--arg 'seed' is not NAME=VALUE"):
        apply_arguments(read(id="arith"), ["seed"])


@pytest.mark.parametrize("command", [certify, eval, train, validate])
def test_every_command_that_runs_an_environment_takes_arguments(command: ModuleType) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert parser.parse_args(["arith", "-m", "m", "-a", "seed=2", "--arg", "level=1"]).arg == [
        "seed=2",
        "level=1",
    ]


def test_a_plugin_that_misses_a_module_says_how_to_get_it() -> None:
    error = ModuleNotFoundError("No module named 'far'", name="far")
    hint = PluginFailure("near", "castform-env-near", "factory", error).hint
    assert hint == (
        "`pip install castform-env-near` brings what it requires, "
        "`castform env install castform-env-near --isolated` in an environment of its own; "
        "where 'far' is not among that, ask the author of castform-env-near"
    )
    assert "pip install" not in (
        PluginFailure("near", "castform-env-near", "factory", ValueError("no")).hint or ""
    )
