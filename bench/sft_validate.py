"""How long does `SftDataset.from_jsonl` take beside `json.loads` of the same lines, and in what memory?

    python bench/sft_validate.py [--megabytes 1000] [--turns 12] [--json]

Generated chats in English, chats in other scripts and tool calls, a third each, with a row of almost
a mebibyte every four thousand. Speed: every contender reads a slice of each kind in turn, many times
in one process, so that a busy machine slows all of them; the processor time of the fastest turn
counts, and the median of the turns' ratios is shown beside it. "rows read" is
`benchmax.sft.read_rows`, which keeps nothing. Memory: a fresh process reads a file of a gigabyte; the
peak above what it had with everything imported (Linux).

Aim: at most three times `json.loads`, and beyond the canonical rows that are kept no more memory than
32 of the largest row that the format allows and 50 bytes for each row.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmax.sft import MAX_ROW_BYTES, SftDataset, read_rows

AIM_RATIO = 3.0
ROW_BYTES = 50
LARGEST_ROWS = 32
POOL = 4000
SLICE_BYTES = 5_000_000
ASCII = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "sleeps.", '"so"', "\n")
OTHER = ("größer", "naïve", "数据", "café", "слово", "the", "quick", "文字", "\n")
KINDS = ("chats", "chats in other scripts", "tool calls")


def make_row(draw: random.Random, kind: str) -> dict[str, Any]:
    def words(count: int) -> str:
        return " ".join(draw.choices(OTHER if kind == KINDS[1] else ASCII, k=count))

    metadata = {"id": "@"}
    if kind != "tool calls":
        turns = [
            turn
            for _ in range(draw.randint(1, 5))
            for turn in (_user(words(25)), {"role": "assistant", "content": words(draw.randint(20, 200))})
        ]
        return {"messages": [{"role": "system", "content": words(20)}, *turns], "metadata": metadata}
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
    return {"messages": messages, "tools": [_tool(name) for name in names], "metadata": metadata}


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


def write_file(path: Path, size: int, kinds: tuple[str, ...]) -> int:
    """Write a file of about so many bytes; return its rows: some thousand in turn, each with its number."""
    draw = random.Random(0)
    rows = [make_row(draw, kinds[number % len(kinds)]) for number in range(POOL)]
    rows[-1] = {"messages": [_user("x" * 1_040_000), {"role": "assistant", "content": "large"}]}
    lines = [json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows]
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


MIXES = {"all": KINDS} | {kind: (kind,) for kind in KINDS}


def read_memory(path: Path) -> dict[str, int]:
    """Return the bytes that reading a file took at most in this process, and those of the rows it keeps."""
    before = _status_bytes("VmRSS")
    kept = SftDataset.from_jsonl(path)
    peak = _status_bytes("VmHWM") - before
    lines = list(map(len, kept.iterate_jsonl_bytes()))
    return {"peak": peak, "stored": sum(lines), "largest_row": max(lines)}


def _status_bytes(name: str) -> int:
    (line,) = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(name)]
    return int(line.split()[1]) * 1024


def measure_memory(path: Path) -> dict[str, int]:
    command = [sys.executable, __file__, "--memory-of", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def measure_speed(folder: Path, turns: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return for each kind of rows and each contender its MB a second and its ratio to json.loads.

    Those are of the fastest turn; the median of the turns' ratios is there too.
    """
    return {name: _speed_of(folder / "slice.jsonl", kinds, turns) for name, kinds in MIXES.items()}


def _speed_of(path: Path, kinds: tuple[str, ...], turns: int) -> dict[str, dict[str, float]]:
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    write_file(path, SLICE_BYTES, kinds)
    for _ in range(turns):
        for name, read in CONTENDERS.items():
            started = time.process_time()
            read(path)
            seconds[name].append(time.process_time() - started)
    plain = seconds["json.loads"]
    return {
        name: {
            "mb_a_second": path.stat().st_size / 1e6 / min(taken),
            "ratio": min(taken) / min(plain),
            "median_ratio": statistics.median(one / other for one, other in zip(taken, plain, strict=True)),
        }
        for name, taken in seconds.items()
    }


def measure(megabytes: int, turns: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.jsonl"
        speed = measure_speed(Path(folder), turns)
        rows = write_file(path, megabytes * 1_000_000, KINDS)
        memory = measure_memory(path)
        size = path.stat().st_size
    return {
        "bytes": size,
        "rows": rows,
        "speed": speed,
        "memory": memory,
        "beyond_rows": memory["peak"] - memory["stored"],
        "memory_aim": LARGEST_ROWS * MAX_ROW_BYTES + ROW_BYTES * rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)  # in a process of its own
    args = parser.parse_args()
    if args.memory_of:
        print(json.dumps(read_memory(args.memory_of)))
        return 0
    result = measure(args.megabytes, args.turns)
    ratio = result["speed"]["all"]["from_jsonl"]["ratio"]
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        print("| rows | contender | MB/s | times json.loads | median |\n|---|---|---|---|---|")
        for mix, speeds in result["speed"].items():
            for name, speed in speeds.items():
                print(
                    f"| {mix} | {name} | {speed['mb_a_second']:.0f} | {speed['ratio']:.2f} "
                    f"| {speed['median_ratio']:.2f} |"
                )
        memory = result["memory"]
        print(
            f"\nA file of {result['bytes'] / 1e6:.0f} MB, {result['rows']:,} rows, the largest of "
            f"{memory['largest_row'] / 1e6:.2f} MB: peak {memory['peak'] / 1e6:.0f} MB, of that "
            f"{memory['stored'] / 1e6:.0f} MB are the rows.\n"
            f"from_jsonl takes {ratio:.2f} times json.loads (aim {AIM_RATIO:g}), and {result['beyond_rows'] / 1e6:.1f} MB "
            f"beyond its rows (aim {result['memory_aim'] / 1e6:.1f} MB)."
        )
    return 0 if ratio <= AIM_RATIO and result["beyond_rows"] <= result["memory_aim"] else 1


if __name__ == "__main__":
    sys.exit(main())
