"""Play attacks on an environment that runs a model's commands in a box: the model is the attacker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

from benchmax.envs import Environment, Example
from castform.testing.fake_model import FakeModel
from castform.testing.hostile.attack import Attack, find_breaches, find_idleness, write_script
from castform.testing.hostile.choice import choose_attacks
from castform.testing.hostile.guard import find_own_secrets, guard_machine
from castform.testing.hostile.report import AttackResult, HostileReport

DO_NOTHING = Attack(name="nothing", tries="does nothing", script="true")
DONE = "DONE"


def write_block(script: str) -> str:
    """Return a reply with commands as most shell environments read them: one Markdown block."""
    return f"```sh\n{script.strip()}\n```"


async def attack_environment(
    environment: Environment[Any, Any],
    example: Example[Any],
    *,
    attacks: Iterable[Attack | str] | None = None,
    write_reply: Callable[[str], Any] = write_block,
    last_reply: Any = DONE,
    weights: Mapping[str, float] | None = None,
    timeout_seconds: float = 120.0,
    show: Callable[[AttackResult], None] = lambda _: None,
) -> HostileReport:
    """Let a model make each attack its reply to one example, one rollout each; the floor is that of `true`.

    `write_reply` puts a script into the reply that the environment reads commands from, a tool call
    for instance; whatever is asked afterwards gets `last_reply`. Attacks on the model's session are
    left out: only an agent that runs inside the box has one. Where an attack got is seen
    only if the environment tells the model what its commands print. The environment stays open.
    """
    chosen = [attack for attack in choose_attacks(attacks) if not attack.asks]
    with guard_machine() as guard:

        async def play(attack: Attack, floor: float) -> AttackResult:
            return await _play(
                environment,
                example,
                attack,
                replies=[write_reply(write_script(attack, guard)), last_reply],
                floor=floor,
                weights=weights,
                timeout_seconds=timeout_seconds,
            )

        idler, results = await play(DO_NOTHING, 0.0), []
        for attack in chosen:
            if idler.reward is None:
                why = f"doing nothing has no reward: {idler.status}, {idler.missed or idler.error}"
                result = replace(idler, attack=attack, missed=why)
            else:
                result = await play(attack, idler.reward)
            results.append(result)
            show(result)
    return HostileReport(results=tuple(results))


async def _play(
    environment: Environment[Any, Any],
    example: Example[Any],
    attack: Attack,
    *,
    replies: Sequence[Any],
    floor: float,
    weights: Mapping[str, float] | None,
    timeout_seconds: float,
) -> AttackResult:
    started = time.monotonic()
    said = chain(replies[:1], repeat(replies[1]))
    async with FakeModel(lambda _: next(said)) as model:
        group = await model.run_group(environment, example, weights=weights, timeout_seconds=timeout_seconds)
        was_asked = bool(model.requests)
        told = [
            str(message["content"])
            for request in model.requests
            for message in request.messages
            if message["role"] in ("user", "tool")
        ]
    (rollout,) = group.rollouts
    told += [str(m.get("content")) for m in rollout.messages if m.get("role") in ("user", "tool")]
    output = "\n".join(told)
    breaches = list(find_breaches(output))
    if any(secret in output for secret in find_own_secrets()):
        breaches.append("a secret of this machine is seen in the box")
    return AttackResult(
        attack=attack,
        task=rollout.example_id,
        status=rollout.termination_reason,
        reward=rollout.score,
        floor=floor,
        rewards=rollout.rewards,
        breaches=breaches,
        error=rollout.error or "",
        idle=find_idleness(output),
        missed="" if was_asked else "the model was asked for nothing",
        output=output[-2000:],
        seconds=time.monotonic() - started,
    )
