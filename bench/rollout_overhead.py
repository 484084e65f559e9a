"""What a rollout costs beside the model: processor time, slots kept busy and memory.

Every contender asks a mock endpoint the same one-shot questions, in one run, round after
round; the figures are medians over the rounds. `python bench/rollout_overhead.py --help`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from peers import peer_python

HERE = Path(__file__).parent
CLIENTS = HERE / "rollout_clients"
SAMPLE_TIMEOUT_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A program that makes rollouts, and the environment it runs in."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()
    peer: str | None = None
    """Name in peers.PEERS; None runs in this interpreter."""

    def interpreter(self) -> str:
        return sys.executable if self.peer is None else str(peer_python(self.peer))


CONTENDERS = (
    Contender(name="castform", script="castform_eval.py"),
    Contender(name="aiohttp", script="bare_aiohttp.py"),
    Contender(name="openai", script="openai_client.py"),
    Contender(name="openai-aiohttp", script="openai_client.py", arguments=("--aiohttp",)),
    Contender(name="verifiers", script="verifiers_env.py", peer="verifiers"),
    Contender(name="inspect", script="inspect_task.py", peer="inspect"),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Medians of one contender at one latency."""

    contender: str
    latency_seconds: float
    cpu_ms: float
    """User and system time of the client process, a rollout."""
    wall_ms: float
    """Wall time a rollout."""
    in_flight: float
    """rollouts x latency / wall time: slots kept busy on average. 0 when there is no latency."""
    most_waiting: int
    """Most requests that the server had at one moment."""
    peak_rss_mb: float
    rounds: int


@contextmanager
def mock_server(latency_seconds: float) -> Iterator[str]:
    """Run a mock endpoint in a process of its own; give its URL."""
    process = subprocess.Popen(
        [sys.executable, HERE / "mock_server.py", "--latency", str(latency_seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()


def run_once(
    contender: Contender, *, latency_seconds: float, rollouts: int, concurrency: int
) -> dict[str, float]:
    """Return the figures that one process of the contender reports. RuntimeError when it failed."""
    with mock_server(latency_seconds) as url:
        command = [
            *(contender.interpreter(), str(CLIENTS / contender.script)),
            *("--base-url", f"{url}/v1", "--rollouts", str(rollouts), "--concurrency", str(concurrency)),
            *contender.arguments,
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SAMPLE_TIMEOUT_SECONDS,
            env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if done.returncode != 0 or not lines:
            raise RuntimeError(f"{contender.name} failed: {(done.stderr or done.stdout).strip()[-800:]}")
        result: dict[str, float] = json.loads(lines[-1].removeprefix("RESULT "))
        result["most_waiting"] = _server_stats(url)["most_waiting"]
    if result["right"] != rollouts:
        raise RuntimeError(f"{contender.name} got {result['right']:.0f} of {rollouts} rollouts right")
    return result


def _server_stats(url: str) -> dict[str, int]:
    from urllib.request import ProxyHandler, build_opener

    with build_opener(ProxyHandler({})).open(f"{url}/stats") as response:
        stats: dict[str, int] = json.load(response)
    return stats


def summarize(contender: Contender, latency_seconds: float, results: Sequence[dict[str, float]]) -> Row:
    def median(key: str) -> float:
        return statistics.median(result[key] for result in results)

    rollouts = results[0]["rollouts"]
    return Row(
        contender=contender.name,
        latency_seconds=latency_seconds,
        cpu_ms=1000 * median("cpu_seconds") / rollouts,
        wall_ms=1000 * median("seconds") / rollouts,
        in_flight=rollouts * latency_seconds / median("seconds"),
        most_waiting=int(median("most_waiting")),
        peak_rss_mb=median("peak_rss_mb"),
        rounds=len(results),
    )


def run_bench(
    contenders: Sequence[Contender],
    *,
    latencies: Sequence[float],
    rollouts: int,
    concurrency: int,
    rounds: int,
) -> list[Row]:
    """Run all contenders once a round, so that a slow minute of the machine hits all of them."""
    for contender in contenders:
        contender.interpreter()  # build every environment before anything is timed
    rows = []
    for latency in latencies:
        results: dict[str, list[dict[str, float]]] = {contender.name: [] for contender in contenders}
        for _ in range(rounds):
            for contender in contenders:
                results[contender.name].append(
                    run_once(contender, latency_seconds=latency, rollouts=rollouts, concurrency=concurrency)
                )
        rows += [summarize(contender, latency, results[contender.name]) for contender in contenders]
    return rows


def format_rows(rows: Sequence[Row]) -> str:
    lines = [
        "| latency | contender | CPU ms | wall ms | in flight | most waiting | peak MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        in_flight = f"{row.in_flight:.0f}" if row.latency_seconds else "–"
        lines.append(
            f"| {row.latency_seconds:g} s | {row.contender} | {row.cpu_ms:.2f} | {row.wall_ms:.2f} "
            f"| {in_flight} | {row.most_waiting} | {row.peak_rss_mb:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [contender.name for contender in CONTENDERS]
    parser.add_argument("--only", action="append", choices=names, help="may be given several times")
    parser.add_argument("--rollouts", type=int, default=512)
    parser.add_argument("--concurrency", type=int, default=128)
    parser.add_argument("--latency", type=float, action="append", help="seconds; default 0 and 0.2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = run_bench(
        [contender for contender in CONTENDERS if contender.name in (arguments.only or names)],
        latencies=arguments.latency or (0.0, 0.2),
        rollouts=arguments.rollouts,
        concurrency=arguments.concurrency,
        rounds=arguments.rounds,
    )
    print(json.dumps([asdict(row) for row in rows], indent=1) if arguments.json else format_rows(rows))


if __name__ == "__main__":
    main()
