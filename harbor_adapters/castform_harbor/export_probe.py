"""Score replies in a fresh process and tell which modules that took. Run as a module, by the export.

stdin: {"environment", "paths", "example", "replies"}; stdout: {"scores", "modules", "before", "weights"}.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

SCORE = Path(__file__).parent / "exported" / "score.py"


def main() -> None:
    asked: dict[str, Any] = json.load(sys.stdin)  # Any: JSON
    sys.path[:0] = asked["paths"]
    before = set(sys.modules)
    score = runpy.run_path(str(SCORE), run_name="score")
    environment = score["make_environment"](asked["environment"])
    answers = [
        [score["score_reply"](environment, example, reply) for reply in replies]
        for example, replies in zip(asked["examples"], asked["replies"], strict=True)
    ]
    modules = {
        name: file
        for name, module in list(sys.modules.items())
        if isinstance(file := getattr(module, "__file__", None), str)
    }
    weights = {str(k): float(v) for k, v in dict(environment.reward_weights).items()}
    print(json.dumps({"scores": answers, "modules": modules, "before": sorted(before), "weights": weights}))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
