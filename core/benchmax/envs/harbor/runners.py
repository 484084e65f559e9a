"""Which runner a trial gets, named by a string so that nothing of it is imported before it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from benchmax.envs.harbor.bundled_agent import BundledHarborAgent
from benchmax.envs.harbor.trial import HarborTrialTemplate, TrialRunner

OWN_RUNNER = "castform_harbor.rollout:make_runner"
"""Needs no Harbor: boxes of this machine, and the harnesses that castform knows."""
IN_PROCESS_RUNNER = "benchmax.envs.harbor.in_process:make_runner"
"""The real harbor, imported in this process (Python 3.12 or newer)."""
OWN_ENVIRONMENTS = ("docker", "bubblewrap", "process")
CREDENTIALED = ("modal", "daytona")


def choose_runner(template: HarborTrialTemplate) -> str:
    """Return the runner that a template needs: the real harbor for what only it can run."""
    only_harbor = (
        isinstance(template.agent, BundledHarborAgent)
        or template.agent_config.import_path is not None
        or template.environment.import_path is not None
        or template.environment.type not in OWN_ENVIRONMENTS
        or template.verifier.import_path is not None
    )
    return IN_PROCESS_RUNNER if only_harbor else OWN_RUNNER


def load_runner(name: str) -> TrialRunner:
    """Call the factory `module:function`. ValueError: there is none, with what to install."""
    module, _, attribute = name.partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"the trial runner {name!r} cannot be loaded ({error}); is its package installed?"
        ) from error
    return cast(Callable[[], TrialRunner], factory)()
