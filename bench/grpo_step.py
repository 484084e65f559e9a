"""Seconds a GRPO step, beside TRL's GRPOTrainer: same model, prompts, lengths, LoRA and groups.

8 prompts x 8 samples x at most 48 new tokens. The two take turns in processes of their
own, so that a slow minute of the machine hits both; the first step of a process is
left out. `python bench/grpo_step.py --model FOLDER`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from peers import peer_python

CLIENTS = Path(__file__).parent / "grpo_clients"
Step = dict[str, float]


def run_client(interpreter: str, script: str, *, model: Path, steps: int) -> list[Step]:
    """Return the figures of every step that a fresh process took. RuntimeError when it failed."""
    done = subprocess.run(
        [interpreter, str(CLIENTS / script), "--model", str(model), "--steps", str(steps)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"{script} failed: {(done.stderr or done.stdout).strip()[-1500:]}")
    result: list[Step] = json.loads(lines[-1].removeprefix("RESULT "))
    return result


def run_bench(model: Path, *, rounds: int, steps: int, only: str | None) -> dict[str, list[Step]]:
    """Return the timed steps by contender, `steps` a round."""
    clients = {"castform": (sys.executable, "castform_steps.py")}
    if only != "castform":
        clients["trl"] = (str(peer_python("trl")), "trl_steps.py")
    if only == "trl":
        del clients["castform"]
    timed: dict[str, list[Step]] = {name: [] for name in clients}
    for number in range(rounds):
        for name, (interpreter, script) in clients.items():
            taken = run_client(interpreter, script, model=model, steps=steps + 1)[1:]
            timed[name] += taken
            seconds = ", ".join(f"{step['seconds']:.1f}" for step in taken)
            print(f"round {number + 1} {name}: {seconds} s", file=sys.stderr)
    return timed


def median(steps: Sequence[Step], key: str) -> float:
    return statistics.median(step[key] for step in steps)


def format_result(timed: dict[str, list[Step]]) -> str:
    lines = ["| contender | s a step (median) | range | tokens a step | steps |", "|---|---|---|---|---|"]
    for name, steps in timed.items():
        seconds = sorted(step["seconds"] for step in steps)
        lines.append(
            f"| {name} | {median(steps, 'seconds'):.1f} | {seconds[0]:.1f} to {seconds[-1]:.1f} "
            f"| {median(steps, 'tokens'):.0f} | {len(steps)} |"
        )
    if len(timed) == 2:
        times = median(timed["trl"], "seconds") / median(timed["castform"], "seconds")
        lines.append(f"\ncastform takes a step {times:.1f} times as fast.")
    if "castform" in timed:
        parts = ", ".join(
            f"{part} {median(timed['castform'], part):.1f} s"
            for part in ("generate", "train", "sync", "other")
        )
        lines.append(f"\nA step of castform: {parts}.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    home = Path(os.environ.get("CASTFORM_HOME", Path.home() / ".castform"))
    parser.add_argument("--model", type=Path, default=home / "models" / "smollm2-135m", help="a folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="timed steps of each process")
    parser.add_argument("--only", choices=["castform", "trl"])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not (arguments.model / "config.json").exists():
        raise SystemExit(f"no model in {arguments.model}: `castform model pull smollm2-135m` fetches it")
    timed = run_bench(arguments.model, rounds=arguments.rounds, steps=arguments.steps, only=arguments.only)
    print(json.dumps(timed, indent=1) if arguments.json else format_result(timed))


if __name__ == "__main__":
    main()
