"""Run the benches one after the other; `make bench` does it. Quiet machine, please.

python bench/run_all.py [listing] [answers] [engine] [rollouts] [workers] [lag] [grpo] [sft] [sft-data] [sandboxes] [trials]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BENCHES = {
    "listing": "plugin_listing.py",
    "answers": "answer_matching.py",
    "engine": "engine_throughput.py",
    "rollouts": "rollout_overhead.py",
    "workers": "worker_scaling.py",
    "lag": "loop_lag.py",
    "grpo": "grpo_step.py",
    "sft": "sft_step.py",
    "sft-data": "sft_validate.py",
    "sandboxes": "sandbox_start.py",
    "trials": "harbor_trials.py",
}


def main() -> int:
    wanted = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in wanted if name not in BENCHES]
    if unknown:
        print(f"no bench called {unknown[0]!r}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    failed = []
    for name in wanted:
        print(f"\n## {name}\n", flush=True)
        if subprocess.run([sys.executable, str(HERE / BENCHES[name])], check=False).returncode != 0:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
