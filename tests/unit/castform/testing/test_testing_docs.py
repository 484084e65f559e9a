"""docs/testing.md: its tests pass as printed, and its tables are the rules and the faults that there are."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path

import pytest

from castform.testing.conformance import RULES
from castform.testing.troubles import TROUBLES

PAGE = (Path(__file__).parents[4] / "docs" / "testing.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TESTS = [
    (name, block)
    for block in BLOCKS
    for name in re.findall(r"^(?:async )?def (test_\w+)", block, re.MULTILINE)
]


@pytest.mark.parametrize("name, block", TESTS, ids=[name for name, _ in TESTS])
def test_a_block_passes_as_printed(name, block):
    names = {}
    exec(compile(block, "docs/testing.md", "exec"), names)
    result = names[name]()
    if inspect.iscoroutine(result):
        asyncio.run(result)


def test_every_block_has_a_test():
    assert len({block for _, block in TESTS}) == len(BLOCKS) >= 5


def test_the_table_of_rules_is_the_rules_and_their_promises():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows == [(rule.name, rule.promise) for rule in RULES]


def test_the_table_of_faults_has_each_of_them_with_its_arguments():
    rows = re.findall(r"^\| `(\w+)\((.*)\)` \|", PAGE, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(TROUBLES)
    for name, arguments in rows:
        known = inspect.signature(TROUBLES[name]).parameters
        assert [a for a in arguments.split(", ") if a] == list(known)[
            : len(arguments.split(", ") if arguments else [])
        ]
