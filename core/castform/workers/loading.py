"""What a worker is told to load."""

from __future__ import annotations

from castform.plugins.environments import LoadedEnvironment, load_environment
from castform.workers.protocol import Frame
from castform.workers.values import decode_value


def load_task(task: Frame) -> LoadedEnvironment:
    """Load the environment that a `load` message names, or the section of a config that it holds.

    Raises what `load_environment` raises.
    """
    if "section" in task:  # of the host's own interpreter: what reads a section may be imported
        from castform.environment_section import EnvironmentSection
        from castform.environments import load_configured

        return load_configured(EnvironmentSection.model_validate(decode_value(task["section"])))
    return load_environment(task["id"], decode_value(task["args"]))
