"""The code of docs/judging.md runs as printed, and gives what it says that it gives."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

from benchmax.testing import ChatServer, ScriptedRequest
from benchmax.testing.replies import Answer

PAGE = Path(__file__).parents[2] / "docs" / "judging.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RESULT = "# -> "
ADDRESS = "http://127.0.0.1:8001/v1"


def judge_by_words(request: ScriptedRequest) -> Answer:
    """Ranks by length, finds a reason in "because" alone, and puts together what speaks of the same thing."""
    prompt = str(request.body["messages"][-1]["content"])
    shown = re.findall(r"^BEGIN Answer ?(\d*) \w+\n\| (.*)$", prompt, re.MULTILINE)
    return {"content": json.dumps(_verdict(prompt, shown))}


def _verdict(prompt: str, shown: list[tuple[str, str]]) -> dict[str, Any]:
    if '{"ranking"' in prompt:
        return {"ranking": [[int(label)] for label, _ in sorted(shown, key=lambda one: -len(one[1]))]}
    if '{"positive_rubrics"' in prompt:
        proposals = [("Names a cause", "Says what the cause is."), ("Padding too", "Padded.")]
        listed = [{"title": title, "description": text} for title, text in proposals]
        return {"positive_rubrics": listed, "negative_rubrics": []}
    if '{"assignments"' in prompt:
        homes = [next(name for name in ("air", "sea") if name in text.lower()) for _, text in shown]
        return {
            "assignments": [
                {"index": index, "cluster_id": name, "label": name} for index, name in enumerate(homes)
            ]
        }
    criterion = re.search(r"^Criterion: (.*)$", prompt, re.MULTILINE)
    assert criterion is not None
    return {"score": int("Padding" not in criterion[1] and "ecause" in shown[0][1])}


def checked(code: str) -> tuple[ast.Module, int]:
    """Turn `expression` and a line `# -> result` below it into an assertion; also how many there are."""
    tree = ast.parse(code)
    lines = code.splitlines()
    body: list[ast.stmt] = []
    results = 0
    for statement in tree.body:
        below = "".join(lines[statement.end_lineno : (statement.end_lineno or 0) + 1])
        if isinstance(statement, ast.Expr) and below.startswith(RESULT):
            wanted = ast.parse(below.removeprefix(RESULT), mode="eval").body
            test = ast.Compare(statement.value, [ast.Eq()], [wanted])
            body.append(
                ast.copy_location(ast.Assert(test, ast.Constant(f"not as printed: {below}")), statement)
            )
            results += 1
        else:
            body.append(statement)
    tree.body = body
    return ast.fix_missing_locations(tree), results


async def test_every_block_runs_and_gives_what_it_prints() -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 5 and ADDRESS in blocks[0]
    found: dict[str, Any] = {}
    results = 0
    async with ChatServer(judge_by_words) as server:
        for block in blocks:
            tree, count = checked(block.replace(ADDRESS, server.base_url))
            results += count
            code = compile(tree, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            ran = eval(code, found)
            if inspect.isawaitable(ran):
                await ran
        await found["judge"].aclose()
    assert results == sum(block.count(RESULT) for block in blocks) == 9
