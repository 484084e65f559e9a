"""How long does `SftDataset.from_jsonl` take beside `json.loads` of the same lines, and in what memory?

    python bench/sft_validate.py [--megabytes 300] [--rounds 3] [--json]

One generated file, half chats and half tool calls, with a row of almost a mebibyte every four
thousand. Every figure comes from a fresh process; the contenders take turns, so that a busy
machine slows all of them, and processor time is what is compared. "rows read" is
`benchmax.sft.read_rows`, which keeps nothing. Memory is the peak of the process above what
Python takes with everything imported. Aim: three times `json.loads`, and no more memory than
the canonical rows, 50 bytes a row and 64 MB.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmax.sft import SftDataset, read_rows

AIM_RATIO = 3.0
ROW_BYTES = 50
SLACK_BYTES = 64_000_000
POOL = 4000
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "and",
    "größer",
    "naïve",
    "数据",
    "café",
    "\n",
]


def make_row(draw: random.Random, number: int) -> dict[str, Any]:
    def words(count: int) -> str:
        return " ".join(draw.choices(WORDS, k=count))

    if number == POOL - 1:
        return {"messages": [_user("x" * 1_040_000), {"role": "assistant", "content": "large"}]}
    if number % 2:
        turns = [
            turn
            for _ in range(draw.randint(1, 5))
            for turn in (_user(words(25)), {"role": "assistant", "content": words(draw.randint(20, 200))})
        ]
        system = {"role": "system", "content": words(20)}
        return {"messages": [system, *turns]}
    names = [f"tool_{index}" for index in range(4)]
    messages = [_user(words(20))]
    for index in range(draw.randint(1, 3)):
        arguments = json.dumps({"query": words(5), "limit": index})
        function = {"name": draw.choice(names), "arguments": arguments}
        call = {"id": f"call_{index}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{index}", "content": words(60)},
        ]
    messages.append({"role": "assistant", "content": words(60)})
    return {"messages": messages, "tools": [_tool(name) for name in names]}


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _tool(name: str) -> dict[str, Any]:
    properties = {
        "query": {"type": "string", "description": "What to look for, in plain words."},
        "limit": {"type": "integer", "description": "At most so many results."},
    }
    parameters = {"type": "object", "properties": properties, "required": ["query"]}
    function = {"name": name, "description": f"Searches with {name}.", "parameters": parameters}
    return {"type": "function", "function": function}


def write_file(path: Path, size: int) -> int:
    """Write a file of about so many bytes; return its rows: some thousand in turn, each with its number."""
    draw = random.Random(0)
    lines = [
        json.dumps(make_row(draw, number) | {"metadata": {"id": "@"}}, ensure_ascii=False).encode() + b"\n"
        for number in range(POOL)
    ]
    written = number = 0
    with path.open("wb") as file:
        while written < size:
            written += file.write(lines[number % POOL].replace(b'"@"', b"%d" % number))
            number += 1
    return number


def load_only(path: Path) -> int:
    with path.open("rb") as file:
        return sum(json.loads(line) is not None for line in file)


def read_only(path: Path) -> int:
    return sum(row.value is not None for row in read_rows(path))


CONTENDERS: dict[str, Callable[[Path], Any]] = {
    "json.loads": load_only,
    "from_jsonl": SftDataset.from_jsonl,
    "rows read": read_only,
}


def measure_here(contender: str, path: Path) -> dict[str, float]:
    """Return seconds of processor and wall time, and bytes of memory, of one contender in this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    kept = CONTENDERS[contender](path)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    stored = sum(map(len, kept.iterate_jsonl_bytes())) if isinstance(kept, SftDataset) else 0
    return {"cpu": cpu, "wall": wall, "peak": peak, "stored": stored}


def measure(megabytes: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.jsonl"
        rows = write_file(path, megabytes * 1_000_000)
        results: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
        for _ in range(rounds):
            for name in CONTENDERS:
                command = [sys.executable, __file__, "--contender", name, "--file", str(path)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                results[name].append(json.loads(done.stdout))
        size = path.stat().st_size
    medians = {
        name: {key: statistics.median(one[key] for one in runs) for key in runs[0]}
        for name, runs in results.items()
    }
    ratios = [
        ours["cpu"] / plain["cpu"]
        for ours, plain in zip(results["from_jsonl"], results["json.loads"], strict=True)
    ]
    ours = medians["from_jsonl"]
    return {
        "bytes": size,
        "rows": rows,
        "rounds": rounds,
        "medians": medians,
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "beyond_rows": ours["peak"] - ours["stored"],
        "memory_aim": ROW_BYTES * rows + SLACK_BYTES,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        print(json.dumps(measure_here(args.contender, args.file)))
        return 0
    result = measure(args.megabytes, args.rounds)
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{result['bytes'] / 1e6:.0f} MB, {result['rows']} rows, medians of {args.rounds} rounds")
        print(f"{'':<12}  {'CPU s':>7}  {'wall s':>7}  {'MB/s':>6}  {'peak MB':>8}  {'rows MB':>8}")
        for name, one in result["medians"].items():
            print(
                f"{name:<12}  {one['cpu']:>7.2f}  {one['wall']:>7.2f}  {result['bytes'] / one['cpu'] / 1e6:>6.1f}"
                f"  {one['peak'] / 1e6:>8.1f}  {one['stored'] / 1e6:>8.1f}"
            )
        print(
            f"from_jsonl takes {result['ratio']} times json.loads, and {result['beyond_rows'] / 1e6:.1f} MB "
            f"beyond its rows (aims: {AIM_RATIO}, {result['memory_aim'] / 1e6:.1f} MB)"
        )
    return 0 if result["ratio"] <= AIM_RATIO and result["beyond_rows"] <= result["memory_aim"] else 1


if __name__ == "__main__":
    sys.exit(main())
