"""The page about answers: its table comes from the corpus, its code runs, its limits are those of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmax.rewards.answers import expression_worker, expressions
from benchmax.rewards.answers.matching import AnswerKind

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/answers.md").read_text(encoding="utf-8")
ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("corpus.jsonl").read_text(encoding="utf-8").splitlines()
]


def test_every_example_is_a_row_of_the_corpus() -> None:
    examples = re.findall(r"^\| `(\".*\")` \| `(.*)` \| (yes|no) \| (.*) \|$", PAGE, re.MULTILINE)
    rows = {(json.dumps(row["text"]), json.dumps(row["gold"]), row["verdict"], row["why"]) for row in ROWS}
    read = {
        (json.dumps(json.loads(text)), json.dumps(json.loads(gold)), int(paid == "yes"), why)
        for text, gold, paid, why in examples
    }
    assert len(examples) >= 30
    assert len(examples) == PAGE.split("## Examples")[1].count("\n| `")
    assert read <= rows


def test_the_code_of_the_page_gives_what_it_says() -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    namespace: dict[str, object] = {}
    lines = code[1].strip().splitlines()
    exec(lines[0], namespace)
    for line in lines[2:]:
        call, _, said = line.partition("  #")
        expected = re.match(r'\s*(1\.0|True|None|"5 km\.")', said)
        assert expected is not None, line
        assert eval(call, namespace) == eval(expected[1]), line
    assert len(lines) == 8


def test_the_kinds_and_limits_of_the_page_are_those_of_the_code() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(AnswerKind.__args__)
    assert (
        f"{expressions.MAX_CHARS} characters, {expressions.MAX_DEPTH} nested brackets, {expressions.MAX_DIGITS} digits"
        in PAGE
    )
    assert f"up to {10**expressions.MAX_POWER_DIGITS - 1} and no power towers" in PAGE
    assert f"{expression_worker.CPU_SECONDS:.0f} seconds of processor time" in PAGE
    assert f"{expression_worker.MEMORY_BYTES // 1024**3} GiB" in PAGE
