"""How much faster are rollouts in 4 worker processes than in one process?

One evaluation of 256 rollouts against a mock endpoint that answers at once, in this process and in
worker processes, round after round. Twice: with a reward that computes for some milliseconds, and
with one that computes nothing, where the endpoint and the host are all there is to do.

    python bench/worker_scaling.py --rounds 3
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rollout_overhead import mock_server

from castform.calls import Sampling
from castform.environments import load_examples
from castform.evaluate import evaluate
from castform.plugins import load_environment
from castform.remote_endpoint import RemoteEndpoint

ENVIRONMENT = str(Path(__file__).parent / "worker_environment.py")
SAMPLES = 4
"""Rollouts of one group."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind of reward: the median over the rounds, in process and in workers."""

    reward: str
    reward_cpu_ms: float
    """Processor time of one reward, measured alone."""
    one_process_ms: float
    """Wall time a rollout."""
    workers_ms: float
    ratio: float
    """Of the two, from the same rounds: how many times faster the workers are."""


async def measure(workers: int, characters: int, rollouts: int, concurrency: int, url: str) -> float:
    """Return the seconds that the rollouts took, everything started and warm."""
    loaded = load_environment(ENVIRONMENT, {"characters": characters}, workers=workers)
    environment = loaded.environment
    endpoint = RemoteEndpoint(f"{url}/v1", "key", "mock")
    try:
        examples = await load_examples(environment, "eval", loaded.base_dir, limit=rollouts // SAMPLES)
        for name, part in (("warm", examples[:16]), ("timed", examples)):
            began = time.perf_counter()
            result = await evaluate(
                environment,
                part,
                endpoint=endpoint,
                samples=SAMPLES,
                sampling=Sampling(),
                name=name,
                concurrency=concurrency,
            )
            seconds = time.perf_counter() - began
            if result.failures or len(result.rollouts) != len(part) * SAMPLES:
                raise RuntimeError(f"not every rollout was scored: {result.failures}")
        return seconds
    finally:
        await environment.aclose()


def reward_cpu_ms(characters: int) -> float:
    """Return the processor time of one reward in milliseconds."""
    from worker_environment import edit_distance

    began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    times = 20
    for _ in range(times):
        edit_distance("ab" * (characters // 2), "ba" * (characters // 2))
    return 1000 * (resource.getrusage(resource.RUSAGE_SELF).ru_utime - began) / times


def compare(reward: str, characters: int, arguments: argparse.Namespace, url: str) -> Row:
    pairs = []
    for _ in range(arguments.rounds):
        one, several = [
            asyncio.run(measure(workers, characters, arguments.rollouts, arguments.concurrency, url))
            for workers in (0, arguments.workers)
        ]
        pairs.append((one, several))
    return Row(
        reward=reward,
        reward_cpu_ms=reward_cpu_ms(characters),
        one_process_ms=1000 * statistics.median(one for one, _ in pairs) / arguments.rollouts,
        workers_ms=1000 * statistics.median(several for _, several in pairs) / arguments.rollouts,
        ratio=statistics.median(one / several for one, several in pairs),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=256)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--characters", type=int, default=200, help="length of the texts that are compared")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with mock_server(0.0) as url:
        rows = [
            compare(
                f"edit distance, {arguments.characters} characters", arguments.characters, arguments, url
            ),
            compare("nothing to compute", 0, arguments, url),
        ]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    print(
        f"{len(os.sched_getaffinity(0))} cores, {arguments.rollouts} rollouts, {arguments.workers} workers\n"
    )
    print(
        "| reward | its CPU ms | one process, ms a rollout | workers, ms a rollout | ratio |\n|---|---|---|---|---|"
    )
    for row in rows:
        print(
            f"| {row.reward} | {row.reward_cpu_ms:.1f} | {row.one_process_ms:.2f} | {row.workers_ms:.2f} "
            f"| {row.ratio:.2f} |"
        )


if __name__ == "__main__":
    main()
