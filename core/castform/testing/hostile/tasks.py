"""Play attacks on Harbor tasks, by castform's own runner."""

from __future__ import annotations

import asyncio
import pkgutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from castform.errors import UsageError
from castform.sandbox.contract import SandboxProvider
from castform.testing.hostile.attack import Attack
from castform.testing.hostile.choice import choose_attacks
from castform.testing.hostile.guard import find_own_secrets, guard_machine
from castform.testing.hostile.harness import HostileHarness
from castform.testing.hostile.report import AttackResult, HostileReport
from castform.testing.sandboxes.upstream import serve_sessions

Verifier = Literal["fresh", "task"]
FIRST_SESSION = "/sessions/first/v1/"
"""Where the session of an attack's own lies on the server that `serve_sessions` starts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Siege:
    """What all attacks of one call have in common."""

    provider: SandboxProvider
    capabilities: Any  # Capabilities: passed on as it is
    options: Any  # castform_harbor's TrialOptions, which core does not import
    run_trial: Callable[..., Any]
    folder: Path
    guard: tuple[str, ...]
    secrets: frozenset[str]


async def attack_tasks(
    source: Path | str,
    *,
    sandbox: str = "docker",
    sandbox_options: Mapping[str, Any] | None = None,  # Any: the provider's own
    attacks: Iterable[Attack | str] | None = None,
    verifier: Verifier = "fresh",
    artifacts: Sequence[str] = (),
    concurrency: int = 4,
    show: Callable[[AttackResult], None] = lambda _: None,
) -> HostileReport:
    """Play every attack on every task of a folder; each in a box of its own, verified and rewarded.

    `verifier`, `artifacts`: as the environment `harbor` has them. The floor is what an agent gets
    that does nothing. UsageError for tasks that cannot be run so, for a sandbox that does not
    isolate and for attacks that do not exist; MissingError where the sandbox does not work.
    """
    from castform.sandbox import load_provider

    chosen = choose_attacks(attacks)
    tasks = _reach("castform_harbor.tasks:load_tasks")(Path(source))
    artifact = _reach("castform_harbor.task_config:Artifact")
    options = _reach("castform_harbor.trial_types:TrialOptions")(
        verifier=verifier, artifacts=tuple(artifact(source=path) for path in artifacts)
    )
    nop = _reach("castform_harbor.reference_agents:NopHarness")()
    provider = load_provider(sandbox, **(sandbox_options or {}))
    gate = asyncio.Semaphore(concurrency)
    try:
        with tempfile.TemporaryDirectory(prefix="castform-hostile-") as work, guard_machine() as guard:
            siege = Siege(
                provider=provider,
                capabilities=await provider.check(),
                options=options,
                run_trial=_reach("castform_harbor.trial:run_trial"),
                folder=Path(work),
                guard=guard,
                secrets=find_own_secrets(),
            )
            _check_isolation(siege)

            async def play(task: Any, attack: Attack, number: int, idler: Any) -> AttackResult:
                if idler.rewards is None:
                    result = _miss(task, attack, idler)
                else:
                    async with gate:
                        result = await _play(siege, task, attack, idler, f"{number}-{attack.name}")
                show(result)
                return result

            async def besiege(task: Any, number: int) -> list[AttackResult]:
                async with gate:
                    idler = await _run(siege, task, nop, f"{number}-nop")
                async with asyncio.TaskGroup() as group:
                    played = [group.create_task(play(task, attack, number, idler)) for attack in chosen]
                return [one.result() for one in played]

            found = await asyncio.gather(*(besiege(task, number) for number, task in enumerate(tasks)))
    finally:
        await provider.aclose()
    return HostileReport(results=tuple(result for results in found for result in results))


def _miss(task: Any, attack: Attack, idler: Any) -> AttackResult:
    why = f"doing nothing has no reward: {idler.status}, {idler.error or 'no reason given'}"
    return AttackResult(attack=attack, task=task.folder.name, status=idler.status, missed=why)


async def _play(siege: Siege, task: Any, attack: Attack, idler: Any, name: str) -> AttackResult:
    """Play one attack; `idler`: the outcome of doing nothing, which has rewards."""
    started = time.monotonic()
    harness = HostileHarness(
        attack=attack, env=_describe(task, siege), guard=siege.guard, secrets=siege.secrets
    )
    if attack.asks:
        async with serve_sessions(host="0.0.0.0") as upstream:  # wherever a box could reach it
            known = {**harness.env, "PORT": str(upstream.port), "HOSTS": " ".join(_list_addresses())}
            harness = replace(harness, neighbour=upstream.second, env=known)
            outcome = await _run(siege, task, harness, name, upstream.first)
            strange = sorted({path for path, _ in upstream.asked if not f"{path}/".startswith(FIRST_SESSION)})
    else:
        outcome, strange = await _run(siege, task, harness, name), []
    ended = outcome.agent_result
    told = dict(ended.metadata) if ended is not None else {}
    return AttackResult(
        attack=attack,
        task=task.folder.name,
        status=outcome.status,
        reward=_choose_reward(outcome),
        floor=_choose_reward(idler) or 0.0,
        rewards=outcome.rewards,
        floors=idler.rewards if idler.reward is None else None,
        breaches=(*told.get("breaches", ()), *(f"reached {path} of the model's server" for path in strange)),
        error=outcome.error or "",
        idle=str(told.get("idle", "")),
        missed="" if outcome.seconds["agent_execution"] > 0 else outcome.error or outcome.status,
        output=ended.output if ended is not None else "",
        seconds=time.monotonic() - started,
    )


async def _run(siege: Siege, task: Any, harness: Any, name: str, endpoint: Any = None) -> Any:
    return await siege.run_trial(
        task,
        harness=harness,
        provider=siege.provider,
        trials_dir=siege.folder,
        trial_name=name,
        endpoint=endpoint,
        options=siege.options,
        capabilities=siege.capabilities,
    )


def _describe(task: Any, siege: Siege) -> dict[str, str]:
    """Return what an attacker knows who has read the task: where its answer goes and its tests lie."""
    declared = (*task.config.artifacts, *siege.options.artifacts)
    tests = sorted(p.relative_to(task.tests) for p in task.tests.rglob("*") if p.is_file())
    return {
        "ARTIFACTS": " ".join(item.source for item in declared if item.source.startswith("/")),
        "TESTS": " ".join(f"/tests/{path.as_posix()}" for path in tests if path.suffix not in (".sh", ".py")),
    }


def _choose_reward(outcome: Any) -> float | None:
    """Return the reward, or the best of several where none is the one."""
    if outcome.reward is not None or not outcome.rewards:
        return None if outcome.reward is None else float(outcome.reward)
    return float(max(outcome.rewards.values()))


def _check_isolation(siege: Siege) -> None:
    if not siege.capabilities.isolated:
        raise UsageError(
            f"the sandbox {siege.provider.name!r} isolates nothing: attacks would be played on this machine",
            hint="docker and bubblewrap isolate; `castform sandbox list` shows what works here",
        )


def _list_addresses() -> list[str]:
    """Return this machine's own addresses."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except OSError:
        return []
    return sorted({str(item[4][0]) for item in found} - {"127.0.0.1"})


def _reach(reference: str) -> Any:  # of castform_harbor, which core may not import
    return pkgutil.resolve_name(reference)
