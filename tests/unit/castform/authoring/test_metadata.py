"""What is wrong with a plugin before anything is built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from castform import __version__
from castform.authoring.metadata import check_metadata
from castform.authoring.new import castform_range
from castform.authoring.project import read_project
from castform.authoring.report import CheckRow
from castform.cli.main import main
from castform.errors import UsageError

Write = Callable[..., Path]
GOOD = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "castform-env-mine"
version = "1.0"
description = "Mine."
readme = "README.md"
license = "MIT"
dependencies = ["castform>=0.1"]
[project.entry-points.castform]
mine = "castform_env_mine.plugin"
"""


def check(write: Write, change: tuple[str, str] = ("", "")) -> dict[str, CheckRow]:
    folder = write(GOOD.replace(*change) if change[0] else GOOD, **{"README.md": "It asks and pays."})
    return {row.check: row for row in check_metadata(read_project(folder))}


def test_sound_metadata_passes(write_source: Write) -> None:
    rows = check(write_source)
    assert {row.status for row in rows.values()} == {"pass"}
    assert list(rows) == ["name", "requires castform", "description", "readme", "license"]


@pytest.mark.parametrize(
    ("change", "row", "found", "hint"),
    [
        (('name = "castform-env-mine"', 'name = "mine"'), "name", "'mine'", 'name = "castform-env-mine"'),
        (("mine = ", "other = "), "name", "'other'", "'mine'"),
        (("mine = ", '"my env" = '), "name", "'my env'", "letters"),
        (('"castform>=0.1"', ""), "requires castform", "does not depend", castform_range()),
        (("castform>=0.1", "castform"), "requires castform", "no oldest version", castform_range()),
        (("castform>=0.1", "castform<9"), "requires castform", "no oldest version", castform_range()),
        (("castform>=0.1", "castform>=99"), "requires castform", __version__, castform_range()),
        (("castform>=0.1", "castform >>= 1"), "requires castform", "no requirement", None),
        (("castform>=0.1", "castform-env-arith>=0.1"), "requires castform", "does not depend", None),
        (('description = "Mine."\n', ""), "description", "none in one line", "env list"),
        (('"Mine."', '"' + "m" * 121 + '"'), "description", "121 characters", None),
        (('readme = "README.md"\n', ""), "readme", "names none", 'readme = "README.md"'),
        (("README.md", "ABOUT.md"), "readme", "ABOUT.md is not there", None),
        (('license = "MIT"\n', ""), "license", "names none", "Apache-2.0"),
    ],
)
def test_a_fault_is_named_with_what_to_write(
    write_source: Write, change: tuple[str, str], row: str, found: str, hint: str | None
) -> None:
    rows = check(write_source, change)
    assert [name for name, each in rows.items() if each.status == "fail"] == [row]
    assert found in rows[row].found
    assert hint is None or hint in (rows[row].hint or "")


@pytest.mark.parametrize(
    "change",
    [
        ('name = "castform-env-mine"', 'name = "castform-watch-mine"'),
        ('name = "castform-env-mine"', 'name = "Castform_Env.Mine"'),
        ('license = "MIT"', 'license = {text = "MIT"}'),
        ('license = "MIT"', 'license-files = ["LICENSE"]'),
        ('readme = "README.md"', 'readme = {text = "words", content-type = "text/plain"}'),
        ('"castform>=0.1"', '"Castform[test] ~= 0.1.0"'),
    ],
)
def test_other_ways_to_say_it_pass_too(write_source: Write, change: tuple[str, str]) -> None:
    assert {row.status for row in check(write_source, change).values()} == {"pass"}


@pytest.mark.parametrize(
    ("pyproject", "told"),
    [
        ("[project\n", "is no TOML"),
        ("[tool.x]\n", "has no [project] with a name"),
        ('[project]\nname = "x"\n', "x is not a plugin"),
        (GOOD.replace("points.castform", "points.console_scripts"), "it has the groups 'console_scripts'"),
        (GOOD.replace('mine = "castform_env_mine.plugin"', ""), "is not a plugin"),
    ],
)
def test_what_is_no_plugin_is_refused(write_source: Write, pyproject: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_project(write_source(pyproject))
    assert told in str(caught.value)


def test_the_command_says_what_to_give_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, told in ((tmp_path, "has no pyproject.toml"), (tmp_path / "x", "is no folder")):
        assert main(["env", "check", str(folder)]) == 2
        err = capsys.readouterr().err
        assert told in err and "castform env new" in err


def test_the_source_of_a_package_is_found_in_both_layouts(write_source: Write) -> None:
    folder = write_source(GOOD, **{"src/castform_env_mine/__init__.py": ""})
    project = read_project(folder)
    assert project.packages == {"castform_env_mine": folder / "src" / "castform_env_mine"}
    (folder / "castform_env_mine").mkdir()
    assert project.packages == {"castform_env_mine": folder / "castform_env_mine"}
