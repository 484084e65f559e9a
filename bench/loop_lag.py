"""How late do other rollouts wake up while one reward sleeps for a second and another computes for one?

In this process, in threads (`score_in_thread`), and in worker processes: the lag of the host's event
loop, on which gateway and trainer run, and of the loop that the other rollouts run on.

    python bench/loop_lag.py --rounds 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lag_environment import sample_lags
from rollout_overhead import mock_server

from benchmax.envs import Example
from castform.calls import Sampling
from castform.environments import load_examples
from castform.plugins import load_environment
from castform.remote_endpoint import RemoteEndpoint
from castform.rollouts import Rollout, run_group

ENVIRONMENT = str(Path(__file__).parent / "lag_environment.py")
AIM_MS = 50.0


@dataclass(frozen=True, kw_only=True)
class Contender:
    name: str
    workers: int
    score_in_thread: bool


CONTENDERS = (
    Contender(name="one process", workers=0, score_in_thread=False),
    Contender(name="one process, score_in_thread", workers=0, score_in_thread=True),
    Contender(name="3 worker processes", workers=3, score_in_thread=False),
    Contender(name="1 worker process, score_in_thread", workers=1, score_in_thread=True),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Lags in milliseconds over all rounds."""

    contender: str
    host_p99_ms: float
    host_max_ms: float
    rollouts_p99_ms: float
    rollouts_max_ms: float
    samples: int


async def measure(contender: Contender, rounds: int, url: str) -> Row:
    loaded = load_environment(
        ENVIRONMENT, {"score_in_thread": contender.score_in_thread}, workers=contender.workers
    )
    environment = loaded.environment
    endpoint = RemoteEndpoint(f"{url}/v1", "key", "mock")
    host: list[float] = []
    others: list[float] = []

    async def play(example: Example[dict[str, object]], group_id: str, size: int = 1) -> tuple[Rollout, ...]:
        group = await run_group(
            environment,
            example,
            endpoint=endpoint,
            split="train",
            group_id=group_id,
            size=size,
            sampling=Sampling(),
            seed=0,
            weights={},
            timeout_seconds=60,
        )
        return group.rollouts

    try:
        sleep, burn, probe = await load_examples(environment, "train", loaded.base_dir)
        await asyncio.gather(*(play(probe, f"warm-{n}") for n in range(max(1, contender.workers))))
        for number in range(rounds):
            _, _, own, rollouts = await asyncio.gather(
                play(sleep, f"sleep-{number}"),
                play(burn, f"burn-{number}"),
                sample_lags(1.0),
                play(probe, f"probe-{number}", size=4),
            )
            host += own
            others += [lag for rollout in rollouts for lag in rollout.rewards.values()]
    finally:
        await environment.aclose()
    return Row(
        contender=contender.name,
        host_p99_ms=1000 * p99(host),
        host_max_ms=1000 * max(host),
        rollouts_p99_ms=1000 * p99(others),
        rollouts_max_ms=1000 * max(others),
        samples=len(host) + len(others),
    )


def p99(lags: list[float]) -> float:
    """Return the lag that one moment in a hundred goes beyond, each lag counted for the time that it took.

    A loop that is held for a second has one late wake-up in it, and is late all that second.
    """
    ordered = sorted(lags, reverse=True)
    total = sum(lag + 0.002 for lag in lags)
    late = 0.0
    for lag in ordered:
        late += lag + 0.002
        if late >= total / 100:
            return lag
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with mock_server(0.0) as url:
        rows = [asyncio.run(measure(contender, arguments.rounds, url)) for contender in CONTENDERS]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    print(
        "| contender | host p99 ms | host max ms | rollouts p99 ms | rollouts max ms |\n|---|---|---|---|---|"
    )
    for row in rows:
        print(
            f"| {row.contender} | {row.host_p99_ms:.1f} | {row.host_max_ms:.1f} | {row.rollouts_p99_ms:.1f} "
            f"| {row.rollouts_max_ms:.1f} |"
        )


if __name__ == "__main__":
    main()
