"""Write docs/certified/reasoning-gym.md from what `castform env certify gym --json` prints.

castform env certify gym --examples 12 --jobs 2 --json > findings.json
python bench/certified_gym.py findings.json --day 2026-11-30
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

DOC = Path(__file__).parent.parent / "docs" / "certified" / "reasoning-gym.md"
HEAD = """# What certify finds in reasoning-gym

Every dataset of reasoning-gym {source}, certified as `gym/<dataset>` with the first {examples} training examples, without a model. Written on {day} by

```console
$ castform env certify gym --examples {examples} --json > findings.json
$ python bench/certified_gym.py findings.json --day {day}
```

{faulty} of {total} have a fault.{unchecked} `castform env certify gym/<dataset>` shows each finding with the command that shows it again.

The text between the one pair of `<answer>` tags is scored, without the space around it, so a line end after the answer costs nothing here. With n = {examples}, 0 paid of n means a rate of at most {bound:.2f} (Wilson, 95 %).

"""
NOTES = """## The faults, read in the scorers

- `game_of_life_halting` compares `bool(answer)` with `bool` of the right answer's text. Both texts are true whenever they are not empty, "False" too, so "I do not know." is paid in full, and so is everything else.
- `puzzle24` looks whether four numbers in range make 24, not whether they are the four of the puzzle: any other puzzle's answer is paid, always the same one too.
- `coin_flip` pays the share of leading characters that agree, of the shorter text: "0" for 0.109375 is paid in full. A number of 400 digits raises OverflowError, in `time_intervals` and `calendar_arithmetic` too.
- `complex_arithmetic` pays `nan`: the distance to it is nan, and `min(1.0, nan)` is 1.
- `prime_factorization` raises ValueError on text that is no product of whole numbers; a reply in words then has no score at all.
- `intermediate_integration` lets sympy simplify the difference to every answer, right or wrong: a quarter of a second or more, often seconds, in which the event loop stands still.

No probe shows it, but nine scorers evaluate the answer as Python: `string_insertion`, `spiral_matrix`, `binary_matrix` and `n_queens` with `eval`, `simple_integration`, `intermediate_integration`, `polynomial_multiplication`, `puzzle24` and `countdown` through sympy's `parse_expr`. A model may run code in the process that scores it; put a sandbox around it.

Warnings read in the scorers: `gsm_symbolic` pays the first number in the answer, `kakurasu` the zeros and ones, `sokoban` the letters L, R, U and D and `knights_knaves` the names and roles, whatever is said around them, so "anything but ..., which is wrong" is paid too.

`knight_swap` takes more than a second of processor time to make a question, `futoshiki`, `sokoban`, `puzzle24` and `zebra_puzzles` a few tenths: on a busy machine the time may be up first, which is reported as unchecked.

"""
TABLE = """## All datasets

False pass: the share of examples on which the worst answer that needs no knowledge of the right one is paid in full. False fail: the share of right answers, written otherwise, that are not. Lazy: what always giving the most common answer earns. "-": without right answers there is nothing to measure it by.

| dataset | verdict | false pass | by | false fail | lazy | faults | warnings |
|---|---|---|---|---|---|---|---|
"""


def make_document(data: dict[str, Any], *, day: str) -> str:
    """Return the page for the output of the command."""
    found = data["environments"]
    examples = max(item.get("examples", 0) for item in found)
    from castform.intervals import wilson_interval

    unchecked = sum(item["verdict"] == "unchecked" for item in found)
    head = HEAD.format(
        source=version("reasoning-gym"),
        examples=examples,
        day=day,
        faulty=sum(item["verdict"] == "failed" for item in found),
        unchecked=f" {unchecked} could not be checked." if unchecked else "",
        total=len(found),
        bound=wilson_interval(0, examples)[1],
    )
    counts = Counter(code for item in found for code in _codes(item, "fault"))
    parts = [head, "| fault | datasets |\n|---|---|\n"]
    parts += [f"| `{code}` | {n} |\n" for code, n in counts.most_common()]
    parts += ["\n", NOTES, TABLE]
    parts += [_row(item) for item in found]
    return "".join(parts)


def _row(item: dict[str, Any]) -> str:
    rates = item.get("rates") or {}
    ceiling = rates.get("false_pass_ceiling")
    cells = [
        item["id"].partition("/")[2].replace("-", "_"),
        _verdict(item),
        _share(ceiling),
        ceiling["what"] if ceiling and ceiling["share"] else "",
        _share(rates.get("false_fail")),
        _share(rates.get("lazy_policy")),
        ", ".join(_codes(item, "fault")),
        ", ".join(_codes(item, "warning")),
    ]
    return f"| {' | '.join(cells)} |\n"


def _verdict(item: dict[str, Any]) -> str:
    return {"failed": "FAULT", "passed": "no fault"}.get(item["verdict"], "unchecked")


def _codes(item: dict[str, Any], level: str) -> list[str]:
    return list(dict.fromkeys(f["code"] for f in item["findings"] if f["level"] == level))


def _share(rate: dict[str, Any] | None) -> str:
    return "-" if rate is None else f"{rate['share']:.2f}"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("findings", type=Path)
    parser.add_argument("--day", required=True, help="when it was measured, as in 2026-11-29")
    args = parser.parse_args()
    DOC.parent.mkdir(parents=True, exist_ok=True)
    data = json.loads(args.findings.read_text(encoding="utf-8"))
    DOC.write_text(make_document(data, day=args.day), encoding="utf-8")


if __name__ == "__main__":
    main()
