"""What a task asks for that these sandboxes do not have: it is refused before anything starts."""

from __future__ import annotations

from castform.errors import UsageError
from castform.sandbox.contract import Capabilities, NetworkPolicy
from castform_harbor.task import HarborTask, find_verifier_image
from castform_harbor.task_config import (
    MAIN_SERVICE,
    EnvironmentConfig,
    StepConfig,
    resolve_verifier_mode,
)
from castform_harbor.task_files import COMPOSE_FILE
from castform_harbor.trial_types import TrialOptions

ROOT_USERS = (None, "root", "0")


def find_unsupported(
    task: HarborTask, capabilities: Capabilities, options: TrialOptions | None = None
) -> list[str]:
    """Return what the task needs and would not get, in sentences; empty when it can be run as it is."""
    options = options or TrialOptions()
    found = _find_in_environments(task, capabilities, options)
    found += _find_in_phases(task, capabilities, options)
    if not capabilities.isolated:
        found.append(
            "its fixed paths (/tests, /logs) would be this machine's own: the sandbox isolates nothing"
        )
    if options.verifier == "fresh" and not allows_fresh_verifier(task, options):
        found.append(
            "it declares no artifacts, so a fresh box would hold nothing of the agent's work to verify"
        )
    return list(dict.fromkeys(found))


def check_supported(task: HarborTask, capabilities: Capabilities, options: TrialOptions) -> None:
    """Raise UsageError with everything that the task needs and would not get."""
    found = find_unsupported(task, capabilities, options)
    if found:
        raise UsageError(
            f"{task.name} cannot be run here: {'; '.join(found)}",
            hint="another --sandbox may have it; `castform sandbox check` shows what each one holds to",
        )


def find_gaps(task: HarborTask) -> list[str]:
    """Return what a task may leave out and some uses of it miss, in sentences."""
    found = []
    if any(task.solution(step.name if step else None) is None for step in task.steps or (None,)):
        found.append("it has no solution/solve.sh, so nothing shows that it can be solved (--agent oracle)")
    if not allows_fresh_verifier(task):
        found.append(
            "it declares no artifacts, so a fresh box would hold nothing of the agent's work to verify: "
            "training asks for `artifacts = [...]` in task.toml, or env.artifacts"
        )
    return found


def allows_fresh_verifier(task: HarborTask, options: TrialOptions | None = None) -> bool:
    """Say whether every verification of a task can have a box of its own.

    A shared one can when artifacts are declared for it: those alone are then what the tests see of
    the agent's work. What lies in /logs/artifacts comes along.
    """
    extra = options.artifacts if options else ()
    for step in task.steps or (None,):
        if resolve_verifier_mode(task.config, step) == "separate":
            continue
        if not (extra or task.config.artifacts or (step and step.artifacts)):
            return False
    return True


def _find_in_environments(task: HarborTask, capabilities: Capabilities, options: TrialOptions) -> list[str]:
    config = task.config
    found = []
    environments: list[EnvironmentConfig] = [config.environment]
    images = [config.environment.docker_image]
    for step in task.steps or (None,):
        if resolve_verifier_mode(config, step) == "separate":
            own = (step.verifier.environment if step else None) or config.verifier.environment
            environments += [own] if own else []
            image = find_verifier_image(task.folder, config, step)
            images.append(image.docker_image)
            if image.context and (image.context / COMPOSE_FILE).is_file():
                found.append("its verifier is a Docker Compose project")
    if (task.environment / COMPOSE_FILE).is_file():
        found.append("its environment is a Docker Compose project")
    for environment in environments:
        if environment.os == "windows":
            found.append("it needs Windows")
        if environment.gpus or environment.tpu:
            found.append("it needs a GPU or TPU in the box")
        if environment.says_network and options.network == "task":
            found += _find_in_network(environment.network, capabilities)
    if any(images) and not capabilities.images:
        found.append(f"it names an image ({next(filter(None, images))}), which this sandbox cannot honour")
    if config.environment.docker_image is None and not (task.environment / "Dockerfile").is_file():
        found.append("its environment/ has no Dockerfile")
    return found


def _find_in_phases(task: HarborTask, capabilities: Capabilities, options: TrialOptions) -> list[str]:
    config = task.config
    found = []
    phases: list[StepConfig | None] = [None, *task.steps]
    for step in phases:
        agent, verifier = (step.agent, step.verifier) if step else (config.agent, config.verifier)
        users = [agent.user, verifier.user, *(hook.user for hook in verifier.collect)]
        for user in users:
            if user not in ROOT_USERS and not capabilities.users:
                found.append(f"it runs commands as {user}, and this sandbox knows root alone")
        for policy in (agent.network, verifier.network):
            if options.network == "task":
                found += _find_in_network(policy, capabilities)
        artifacts = step.artifacts if step else (*config.artifacts, *options.artifacts)
        services = {artifact.service for artifact in artifacts} | {hook.service for hook in verifier.collect}
        found += [f"it names the Compose service {name!r}" for name in sorted(services - {MAIN_SERVICE})]
    return found


def _find_in_network(policy: NetworkPolicy | None, capabilities: Capabilities) -> list[str]:
    if policy is None or policy.mode in capabilities.networks:
        return []
    return [f"it asks for the network mode {policy.mode!r}, which this sandbox does not have"]
