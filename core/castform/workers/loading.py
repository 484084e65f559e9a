"""What a worker is told to load."""

from __future__ import annotations

from castform.plugins.environments import LoadedEnvironment, load_environment
from castform.workers.protocol import Frame
from castform.workers.values import decode_value


def load_task(task: Frame) -> LoadedEnvironment:
    """Load the environment that a `load` message names. Raises what `load_environment` raises."""
    return load_environment(task["id"], decode_value(task["args"]))
