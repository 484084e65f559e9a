"""What the quick commands import. Their time depends on the machine; the modules do not."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "aiohttp",
    "asyncio",
    "benchmax",
    "castform_trainer",
    "httpx",
    "numpy",
    "openai",
    "peft",
    "pluggy",
    "pydantic",
    "rich",
    "sqlalchemy",
    "torch",
    "transformers",
}

DEAR = {"argparse", "importlib.util", "logging", "pathlib", "urllib"}
"""From the standard library, each 3 % to 10 % of a listing's time."""

LIST_MODULES = """
import sys
before = set(sys.modules)
from castform.cli.main import main
code = main({words!r})
sys.stderr.write("\\n".join(set(sys.modules) - before))
sys.exit(code)
"""


def imported_by(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES.format(words=words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout or words == ("env", "list")
    names = done.stderr.split()
    return {*names, *(name.partition(".")[0] for name in names)}


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("env", "list"), ("plugins",), ("env", "--help")]
)
def test_a_quick_command_imports_nothing_heavy(words):
    assert imported_by(*words) & HEAVY == set()


def test_a_listing_imports_what_it_needs_of_the_standard_library_alone():
    assert imported_by("env", "list") & DEAR == set()
    assert "logging" in imported_by("env", "list", "-v")


COMMANDS = [
    "env",
    "plugins",
    "model",
    "validate",
    "eval",
    "train",
    "bundle",
    "runs",
    "doctor",
    "x",
    "sft",
    "sandbox",
]
SFT_ACTIONS = ["sft check", "sft convert", "sft train"]


@pytest.mark.parametrize("command", [*COMMANDS, *SFT_ACTIONS])
def test_the_help_of_a_command_imports_neither_torch_nor_a_client(command):
    slow = {"torch", "transformers", "peft", "openai", "aiohttp", "sqlalchemy", "pydantic"}
    assert imported_by(*command.split(), "--help") & slow == set()
