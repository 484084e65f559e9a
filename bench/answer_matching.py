"""How often a verdict on an answer is right, and what it costs, beside math-verify alone.

    python bench/answer_matching.py [--rounds 3] [--json]

Both judge the rows of tests/unit/benchmax/answers/corpus.jsonl that are about numbers and
LaTeX, in one process, one after the other in every round. math-verify is used as its
documentation says, `verify(parse(gold), parse(text))`, with its own time limits, and once
more with the gold answer in dollar signs, which it asks for; the better verdict of the two
counts. The rows are ours, so the agreement says where the two differ, not which is better
on yours. Texts of a megabyte are left out: math-verify is not made for them.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmax.rewards import match_answer

CORPUS = Path(__file__).parents[1] / "tests/unit/benchmax/answers/corpus.jsonl"
RULES = ("reading", "decoration", "numbers", "latex")


def load_rows() -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    return [
        row
        for row in rows
        if row["rule"] in RULES and row.keys() <= {"rule", "text", "gold", "verdict", "why"}
    ]


def judge_alone(row: dict[str, Any]) -> float:
    """Return math-verify's verdict on a row."""
    from math_verify import parse, verify

    gold, said = str(row["gold"]), parse(row["text"])
    return float(verify(parse(gold), said) or verify(parse(f"${gold}$"), said))


def judge_ours(row: dict[str, Any]) -> float:
    return match_answer(row["text"], row["gold"])


def measure(rounds: int) -> dict[str, Any]:
    """Return for each contender its agreement with the corpus and its milliseconds an answer."""
    rows = load_rows()
    contenders: dict[str, Callable[[dict[str, Any]], float]] = {
        "castform": judge_ours,
        "math-verify alone": judge_alone,
    }
    verdicts: dict[str, list[float]] = {
        name: [judge(row) for row in rows] for name, judge in contenders.items()
    }
    times: dict[str, list[list[float]]] = {name: [] for name in contenders}
    for _ in range(rounds):  # the first verdicts above warmed both up
        for name, judge in contenders.items():
            taken = []
            for row in rows:
                started = time.perf_counter()
                judge(row)
                taken.append((time.perf_counter() - started) * 1000)
            times[name].append(taken)
    results: dict[str, Any] = {"rows": len(rows), "rounds": rounds}
    for name, given in verdicts.items():
        wrong = [
            (row["verdict"], row)
            for row, verdict in zip(rows, given, strict=True)
            if verdict != row["verdict"]
        ]
        results[name] = {
            "agreement": round(1 - len(wrong) / len(rows), 3),
            "wrong_answers_paid": sum(wanted == 0 for wanted, _ in wrong),
            "right_answers_unpaid": sum(wanted == 1 for wanted, _ in wrong),
            "median_ms": round(statistics.median(statistics.median(taken) for taken in times[name]), 3),
            "mean_ms": round(statistics.median(statistics.mean(taken) for taken in times[name]), 3),
            "slowest_ms": round(max(map(max, times[name])), 1),
        }
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    logging.disable()  # math-verify warns of every limit that it meets
    results = measure(args.rounds)
    if args.json:
        print(json.dumps(results, indent=2))
    else:
        print(f"{'':<18}  agreement  wrong paid  right unpaid  median ms  mean ms  slowest ms")
        for name, row in results.items():
            if isinstance(row, dict):
                print(
                    f"{name:<18}  {row['agreement']:>9.1%}  {row['wrong_answers_paid']:>10}  "
                    f"{row['right_answers_unpaid']:>12}  {row['median_ms']:>9}  {row['mean_ms']:>7}  "
                    f"{row['slowest_ms']:>10}"
                )
        print(f"{results['rows']} rows, {args.rounds} rounds each after a warm-up")
    return 0 if results["castform"]["agreement"] == 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
