"""The page for newcomers: every command on it, in a folder and a Python environment of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.installs

PAGE = Path(__file__).parents[2] / "docs" / "first-environment.md"
ELSEWHERE = ("pip install 'castform[", "castform model pull", "castform validate", "castform train")
"""castform itself is there, and what needs a model has tests of its own."""
VARIABLE = re.compile(r"\d+\.\d+ ?s|in \d+ s|\d+ of \d+ rules")
"""Times, and how many rules there are."""


def read_commands() -> list[tuple[str, list[str]]]:
    """Return every command of the page with the lines that it prints, as the page has them."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:].partition("  #")[0].strip(), []))
            elif line.strip():
                found[-1][1].append(line)
    return [(command, lines) for command, lines in found if not command.startswith(ELSEWHERE)]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder, and the variables of a shell in a virtual environment that sees what this one has installed."""
    folder, environment = tmp_path_factory.mktemp("desk"), tmp_path_factory.mktemp("venv") / "venv"
    venv.EnvBuilder(symlinks=True).create(environment)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    here = sysconfig.get_path("purelib")
    (environment / "lib" / version / "site-packages" / "here.pth").write_text(
        f"import site; site.addsitedir({here!r})\n"
    )
    for name in ("castform", "pip"):
        script = environment / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{environment}/bin/python" -P -m {name} "$@"\n')
        script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CASTFORM_"))}
    path = os.pathsep.join([str(environment / "bin"), kept.get("PATH", os.defpath)])
    yield folder, {**kept, "PATH": path, "CASTFORM_HOME": str(folder / ".castform")}
    shutil.rmtree(folder)


def plain(text: str) -> str:
    """Return a line without what varies and the widths of its columns."""
    return " ".join(VARIABLE.sub("N", text).split())


def test_every_command_of_the_page_does_what_the_page_says(newcomer: tuple[Path, dict[str, str]]) -> None:
    folder, environ = newcomer
    commands = read_commands()
    assert [command.split()[:3] for command, _ in commands] == [
        ["castform", "env", "new"],
        ["castform", "env", "check"],
        ["pip", "install", "-e"],
        ["castform", "env", "certify"],
        ["castform", "env", "list"],
    ]
    for command, lines in commands:
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, timeout=280
        )
        assert done.returncode == 0, command + "\n" + done.stdout + done.stderr
        printed = {plain(line) for line in done.stdout.splitlines()}
        missing = [line for line in lines if plain(line) not in printed]
        assert not missing, f"{command}\n{done.stdout}"


def test_the_code_on_the_page_is_the_templates() -> None:
    """What the page shows of the files is in them, word for word."""
    text = PAGE.read_text(encoding="utf-8")
    template = (
        Path(__file__).parents[2]
        / "core"
        / "castform"
        / "authoring"
        / "templates"
        / "single"
        / "PACKAGE_NAME"
    )
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    body = "".join(f"    {line}\n" for line in code.splitlines())
    assert body in (template / "environment.py").read_text(encoding="utf-8")
    (row,) = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    assert row == (template / "data" / "train.jsonl").read_text(encoding="utf-8").partition("\n")[0] + "\n"
