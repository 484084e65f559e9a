"""The environment of the little server that comes with this plugin: something to try, train and test on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmax.envs import Example
from castform_env_openenv import example_server
from castform_env_openenv.config import ExampleConfig, ServerConfig
from castform_env_openenv.environment import OpenEnv

INSTRUCTIONS = "Repeat the two words and say nothing else."


class ExampleEnv(OpenEnv):
    """Repeat what the server says, twice."""

    def gold(self, example: Example[Mapping[str, Any]]) -> list[dict[str, str]]:
        """Return the two right replies."""
        phrases = example_server.list_phrases(int(example.payload["reset"].get("seed", 0)))
        return [{"role": "assistant", "content": phrase} for phrase in phrases]


def make_example(config: ExampleConfig) -> ExampleEnv:
    return ExampleEnv(
        ServerConfig(
            command=[sys.executable, "-I", str(Path(example_server.__file__)), "{port}"],
            observation_field="prompt",
            instructions=INSTRUCTIONS,
            solved_observation="Say: copper harbor",
            solved_reply="copper harbor",
            **config.model_dump(),
        )
    )
