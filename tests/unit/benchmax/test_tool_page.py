"""The code of docs/tools.md runs as printed, gives what it says that it gives, and works in rollouts."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import Example, RolloutRequest, StaticBearerAuth
from benchmax.testing import ChatServer, function_call

PAGE = Path(__file__).parents[3] / "docs" / "tools.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RESULT = "# -> "


def checked(code: str) -> tuple[ast.Module, int]:
    """Turn an expression with a line `# -> result` below it into an assertion; also how many there are."""
    tree = ast.parse(code)
    lines = code.splitlines()
    results = 0
    for place, statement in enumerate(tree.body):
        below = "".join(lines[statement.end_lineno : (statement.end_lineno or 0) + 1])
        if isinstance(statement, ast.Expr) and below.startswith(RESULT):
            wanted = ast.parse(below.removeprefix(RESULT), mode="eval").body
            test = ast.Compare(statement.value, [ast.Eq()], [wanted])
            tree.body[place] = ast.copy_location(
                ast.Assert(test, ast.Constant(f"not as printed: {below}")), statement
            )
            results += 1
    return ast.fix_missing_locations(tree), results


async def answers_in(env: Any, *calls: dict[str, Any]) -> tuple[list[Any], Any]:
    """Play the calls in one turn, then "5"; return what the model read and the outcome."""
    async with ChatServer([{"tool_calls": list(calls)}, {"content": "5"}]) as server:
        dataset = await env.create_dataset("train", Path())
        example = Example("1", {**dataset[0].payload, "notes": ["first"]})
        request = RolloutRequest("r", example, "m", server.base_url, StaticBearerAuth("k"))
        seen: list[Any] = []
        outcome = (await env.run_group([request]))["r"]
        seen = [
            message["content"]
            for message in server.requests[-1].body["messages"]
            if message["role"] == "tool"
        ]
        await env.aclose()
    return seen, outcome


async def test_every_block_runs_and_its_environments_work(tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("mcp_types", reason="needs the extra castform[mcp]")
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    found: dict[str, Any] = {"__name__": "page"}
    results = 0
    for block in BLOCK.findall(page):
        if block.startswith("# weather_server.py\n"):
            (tmp_path / "weather_server.py").write_text(block)
            continue
        tree, count = checked(block)
        results += count
        ran = eval(compile(tree, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), found)
        if inspect.isawaitable(ran):
            await ran
    assert results == page.count(RESULT) == 6

    seen, outcome = await answers_in(found["Sums"](), function_call("1", "add", {"a": 2, "b": 3}))
    assert (seen, outcome.rewards) == (["5"], {"right": 1.0})
    seen, _ = await answers_in(found["Timed"](), function_call("1", "search", {"query": "x"}))
    assert seen == ["nothing about x"]
    seen, outcome = await answers_in(
        found["Notes"](), function_call("1", "write", {"line": "a"}), function_call("2", "read")
    )
    assert (seen, outcome.rewards) == (["2", '["first","a"]'], {"noted": 2.0})
    seen, _ = await answers_in(found["Weather"](), function_call("1", "temperature", {"city": "Oslo"}))
    assert seen == ["Oslo: 20 degrees"]
    assert found["remote"].scope == "shared" and found["Clock"].tools[1].command[:2] == (
        "uvx",
        "mcp-server-time",
    )


def raise_it() -> None:
    _ = 1 / 0


async def test_the_table_of_what_the_model_reads_is_what_it_reads() -> None:
    class Sums(_Sums):
        tools = (raise_it, *_Sums.tools)

    half, whole = '{"a": "x', "[1]"
    calls = [
        function_call("1", "fly"),
        {"id": "2", "type": "function", "function": {"name": "add", "arguments": half}},
        {"id": "3", "type": "function", "function": {"name": "add", "arguments": whole}},
        function_call("4", "raise_it"),
    ]
    seen, _ = await answers_in(Sums(), *calls)
    table = PAGE.read_text(encoding="utf-8")
    assert len(seen) == 4
    assert all(
        f"`{words}`" in table
        for words in (seen[0], seen[1].partition(":")[0] + ": Unterminated string starting at", *seen[2:])
    )
    assert seen[1] == "Invalid JSON tool arguments: Unterminated string starting at"


_found: dict[str, Any] = {"__name__": "page"}
exec(BLOCK.findall(PAGE.read_text(encoding="utf-8"))[0], _found)
_Sums: Any = _found["Sums"]
