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

LIST_MODULES = """
import sys
from castform.cli.main import main
code = main({words!r})
sys.stderr.write("\\n".join({{name.partition(".")[0] for name in sys.modules}}))
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
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("env", "list"), ("plugins",), ("env", "--help")]
)
def test_a_quick_command_imports_nothing_heavy(words):
    assert imported_by(*words) & HEAVY == set()


@pytest.mark.parametrize(
    "command", ["env", "plugins", "model", "validate", "eval", "train", "bundle", "runs", "doctor", "x"]
)
def test_the_help_of_a_command_imports_neither_torch_nor_a_client(command):
    slow = {"torch", "transformers", "peft", "openai", "aiohttp", "sqlalchemy", "pydantic"}
    assert imported_by(command, "--help") & slow == set()
