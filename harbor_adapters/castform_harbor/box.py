"""One box of a trial: started with the task's limits and network, and made ready for commands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from castform.sandbox.contract import (
    BoxRequest,
    Capabilities,
    ExecResult,
    ImageBuild,
    Limits,
    NetworkPolicy,
    Sandbox,
    SandboxProvider,
)
from castform.sandbox.errors import SandboxStartError
from castform_harbor.errors import InfraError
from castform_harbor.task_config import EnvironmentConfig
from castform_harbor.trial_types import TrialOptions

AGENT_LOGS = "/logs/agent"
VERIFIER_LOGS = "/logs/verifier"
ARTIFACTS = "/logs/artifacts"
TESTS = "/tests"
ROOT = "root"

START_GRACE_SECONDS = 60.0
"""How much later than the provider's own limit a start is given up."""
HOUSEKEEPING_SECONDS = 60.0
"""For commands of ours, which take milliseconds."""

_PREPARE = (
    'for place in "$@"; do mkdir -p "$place" && chmod 777 "$place" || exit 3; done; '
    "command -v bash || command -v sh; pwd; [ ! -e /tests ] || echo tests"
)


@dataclass(slots=True)
class Box:
    """A started box, what commands run in it by, and the network that is in force."""

    sandbox: Sandbox
    shell: str
    """bash where the image has it, as in Harbor, else its sh."""
    workdir: str
    network: NetworkPolicy
    had_tests: bool = False
    """Whether the image itself brings /tests."""

    async def run(
        self,
        command: str,
        *,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> ExecResult:
        """Run a command of the task's in its shell, where the box works. Errors as `Sandbox.exec`."""
        return await self.sandbox.exec(
            [self.shell, "-c", command], user=user, env=env, timeout_seconds=timeout_seconds
        )

    async def keep(self, script: str, *words: str) -> ExecResult:
        """Run a script of ours as root. InfraError when it fails: the box is not what it was."""
        done = await self.sandbox.exec(
            ["sh", "-c", script, "sh", *words], cwd="/", user=ROOT, timeout_seconds=HOUSEKEEPING_SECONDS
        )
        if done.exit_code != 0:
            told = (done.error_text or done.text).strip()[-500:]
            raise InfraError(f"housekeeping in the box failed with exit code {done.exit_code}: {told}")
        return done

    async def use_network(self, policy: NetworkPolicy) -> None:
        """Change what is reachable, where it is not so already."""
        if policy != self.network:
            await self.sandbox.set_network(policy)
            self.network = policy


async def start_box(provider: SandboxProvider, request: BoxRequest, *, upload: Path | None = None) -> Box:
    """Start a box and make its log folders. `upload`: files for its working folder.

    Errors as `SandboxProvider.start`; nothing is left when it fails.
    """
    try:
        async with asyncio.timeout(request.start_timeout_seconds + START_GRACE_SECONDS):
            sandbox = await provider.start(request)
    except TimeoutError as error:
        raise SandboxStartError(
            f"the box did not start within {request.start_timeout_seconds:g} s"
        ) from error
    try:
        return await _prepare(sandbox, request, upload)
    except BaseException:
        await sandbox.close()
        raise


async def _prepare(sandbox: Sandbox, request: BoxRequest, upload: Path | None) -> Box:
    made = await sandbox.exec(
        ["sh", "-c", _PREPARE, "sh", AGENT_LOGS, VERIFIER_LOGS, ARTIFACTS],
        user=ROOT,
        timeout_seconds=HOUSEKEEPING_SECONDS,
    )
    lines = made.text.split("\n")
    if made.exit_code != 0 or len(lines) < 2:
        raise SandboxStartError(
            f"the box has no usable shell and log folders: {made.error_text.strip()[-500:]}"
        )
    box = Box(
        sandbox=sandbox,
        shell=lines[0].strip(),
        workdir=lines[1].strip() or "/",
        network=request.network,
        had_tests="tests" in lines[2:],
    )
    if upload is not None:
        await sandbox.upload(upload, box.workdir)
    return box


def make_request(
    environment: EnvironmentConfig,
    *,
    image: str | None,
    context: Path | None,
    env: Mapping[str, str],
    network: NetworkPolicy,
    options: TrialOptions,
    labels: Mapping[str, str],
) -> BoxRequest:
    """Describe a box of the task: a named image before a Dockerfile, the ENTRYPOINT kept as in Harbor."""
    multiplier = options.build_timeout_multiplier
    return BoxRequest(
        image=image or (ImageBuild(context=context) if context else None),
        workdir=environment.workdir,
        env=env,
        limits=make_limits(environment, options.limits),
        network=network,
        keep_entrypoint=True,
        start_timeout_seconds=environment.build_timeout_seconds
        * (options.timeout_multiplier if multiplier is None else multiplier),
        labels=labels,
    )


def make_limits(environment: EnvironmentConfig, default: Limits) -> Limits:
    """Return the task's limits, and the caller's for what the task leaves open."""
    return replace(
        default,
        cpus=default.cpus if environment.cpus is None else environment.cpus,
        memory_mb=environment.memory_mb or default.memory_mb,
        disk_mb=environment.storage_mb or default.disk_mb,
    )


def choose_network(
    environment: EnvironmentConfig, capabilities: Capabilities, options: TrialOptions
) -> tuple[NetworkPolicy, str | None]:
    """Return a box's network, and a warning where it is less than Harbor's default."""
    if options.network == "none":
        return NetworkPolicy(), None
    wanted = environment.network
    if environment.says_network or wanted.mode in capabilities.networks:
        return wanted, None
    return NetworkPolicy(), (
        "the task says nothing of the network, which means public; this sandbox has none, so neither has the task"
    )
