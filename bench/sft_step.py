"""Seconds a finetuning step and tokens a second, beside TRL's SFTTrainer on the same rows.

16 short rows a step, the same token ids and masks for both, packed and not, LoRA on all linear
layers. The contenders take turns in processes of their own, so that a slow minute of the
machine hits all; the first step of a process is left out of the times. On a busy machine
OMP_NUM_THREADS=1 and the CPU seconds tell more. The losses are compared: equal losses mean
equal work. `python bench/sft_step.py --model FOLDER`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peers import peer_python

CLIENTS = Path(__file__).parent / "sft_clients"
SAME_LOSS = 2e-4
"""Losses that differ by more are not of the same computation: TRL logs four digits."""

Step = dict[str, float]


def mask_rows(model: Path, *, shared_prompt: bool) -> list[dict[str, list[int]]]:
    """Return the rows as both trainers get them."""
    from castform_trainer.sft.masking import load_turn_template, mask_row

    sys.path.insert(0, str(CLIENTS))
    import workload

    template = load_turn_template(model)
    samples = [s for row in workload.make_rows(shared_prompt=shared_prompt) for s in mask_row(template, row)]
    return [{"ids": list(sample.ids), "trained": [int(on) for on in sample.trained]} for sample in samples]


def run_client(
    interpreter: str, script: str, *, model: Path, rows: Path, steps: int, packing: bool
) -> list[Step]:
    """Return the figures of every step that a fresh process took. RuntimeError when it failed."""
    words = ["--model", str(model), "--rows", str(rows), "--steps", str(steps)]
    done = subprocess.run(
        [interpreter, str(CLIENTS / script), *words, *(["--packing"] if packing else [])],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"{script} failed: {(done.stderr or done.stdout).strip()[-1500:]}")
    result: list[Step] = json.loads(lines[-1].removeprefix("RESULT "))
    return result


def run_bench(model: Path, rows: Path, *, rounds: int, steps: int, only: str | None) -> dict[str, list[Step]]:
    """Return the timed steps by contender, `steps` a round."""
    clients = {"castform": (sys.executable, "castform_steps.py")}
    if only != "castform":
        clients["trl"] = (str(peer_python("trl")), "trl_steps.py")
    timed: dict[str, list[Step]] = {}
    for number in range(rounds):
        for packing in (True, False):
            for name, (interpreter, script) in clients.items():
                taken = run_client(
                    interpreter, script, model=model, rows=rows, steps=steps + 1, packing=packing
                )[1:]
                contender = f"{name}, {'packed' if packing else 'not packed'}"
                timed.setdefault(contender, []).extend(taken)
                seconds = ", ".join(f"{step['seconds']:.1f}" for step in taken)
                print(f"round {number + 1} {contender}: {seconds} s", file=sys.stderr)
    return timed


def format_result(timed: dict[str, list[Step]], *, tokens: int) -> str:
    lines = [
        "| contender | s a step (median) | range | CPU s a step | tokens a second | loss |",
        "|---|---|---|---|---|---|",
    ]
    medians = {name: statistics.median(step["seconds"] for step in steps) for name, steps in timed.items()}
    for name, steps in timed.items():
        seconds = sorted(step["seconds"] for step in steps)
        lines.append(
            f"| {name} | {medians[name]:.1f} | {seconds[0]:.1f} to {seconds[-1]:.1f} "
            f"| {statistics.median(step['cpu_seconds'] for step in steps):.1f} "
            f"| {tokens / medians[name]:.0f} | {steps[0]['loss']:.4f} |"
        )
    for kind in ("packed", "not packed"):
        ours, theirs = timed.get(f"castform, {kind}"), timed.get(f"trl, {kind}")
        if ours and theirs:
            times = medians[f"trl, {kind}"] / medians[f"castform, {kind}"]
            gap = abs(ours[0]["loss"] - theirs[0]["loss"])
            same = "the losses are the same" if gap <= SAME_LOSS else f"the losses differ by {gap:.4f}"
            lines.append(f"\n{kind.capitalize()}, castform takes a step {times:.2f} times as fast; {same}.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    home = Path(os.environ.get("CASTFORM_HOME", Path.home() / ".castform"))
    parser.add_argument("--model", type=Path, default=home / "models" / "smollm2-135m", help="a folder")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1, help="timed steps of each process")
    parser.add_argument("--shared-prompt", action="store_true", help="rows under one system prompt")
    parser.add_argument("--only", choices=["castform"])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not (arguments.model / "config.json").exists():
        raise SystemExit(f"no model in {arguments.model}: `castform model pull smollm2-135m` fetches it")
    rows = mask_rows(arguments.model, shared_prompt=arguments.shared_prompt)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        file.write_text(json.dumps(rows), encoding="utf-8")
        timed = run_bench(
            arguments.model, file, rounds=arguments.rounds, steps=arguments.steps, only=arguments.only
        )
    tokens = sum(len(row["ids"]) for row in rows)
    print(json.dumps(timed, indent=1) if arguments.json else format_result(timed, tokens=tokens))


if __name__ == "__main__":
    main()
