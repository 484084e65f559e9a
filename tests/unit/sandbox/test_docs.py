"""docs/sandboxes.md: its example runs, and what it names is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from castform.sandbox.contract import Sandbox, SandboxProvider

TEXT = (Path(__file__).parents[3] / "docs" / "sandboxes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    exec(compile(BLOCKS[0], "docs/sandboxes.md", "exec"), {"__name__": "example"})
    assert "3 hello" in capsys.readouterr().out
    assert list((tmp_path / "sandboxes" / "process").iterdir()) == []


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_is_python_whose_imports_exist(block):
    compile(block, "docs/sandboxes.md", "exec")
    for module, names in re.findall(r"^from (castform\S*) import (.+)$", block, flags=re.MULTILINE):
        for name in names.split(", "):
            assert hasattr(importlib.import_module(module), name)


def test_the_page_has_every_method_of_a_box():
    methods = {name for name in vars(Sandbox) if not name.startswith("_")} - {"id", "provider", "notes"}
    assert [name for name in sorted(methods) if f"{name}(" not in TEXT and f"`{name}`" not in TEXT] == []
    assert "five methods and a name" in TEXT
    assert len([name for name in vars(SandboxProvider) if not name.startswith("_")]) == 6


def test_the_modules_of_the_table_have_what_it_says():
    rows = re.findall(
        r"^\| `(\w+)`(?:, `\w+`)* \| (.+) \|$", TEXT.partition("| module of")[2], flags=re.MULTILINE
    )
    assert len(rows) >= 9
    for module, words in rows:
        for name in re.findall(r"`(\w+)[(.`]", words):
            assert hasattr(importlib.import_module(f"castform.sandbox.{module}"), name), name
