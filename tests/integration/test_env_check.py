"""`castform env check` on real builds and installations: one sound plugin, and each way to be broken."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from castform.authoring.building import build_plugin
from castform.authoring.fresh_venv import install_wheel, make_fresh_venv
from castform.authoring.new import write_plugin
from castform.authoring.project import read_project
from castform.authoring.report import CheckRow
from castform.authoring.wheel_files import check_wheel_files
from castform.certify.certificates import read_certificate

pytestmark = pytest.mark.installs

BROKEN_TEST = "def test_it() -> None:\n    assert 1 + 1 == 3, 'sums are broken'\n"


def check(folder: Path, *words: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Run the command; return its exit code, the rows by name, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "castform", "env", "check", str(folder), "--json", *words],
        capture_output=True,
        text=True,
        timeout=280,
    )
    told = json.loads(done.stdout) if done.stdout else {"checks": []}
    return done.returncode, {row["check"]: row for row in told["checks"]}, done.stdout + done.stderr


def build(folder: Path) -> CheckRow:
    """Build it, and return what came of comparing the wheel with the source."""
    project = read_project(folder)
    work = folder.parent / f"work-{len(list(folder.parent.iterdir()))}"
    return check_wheel_files(project, build_plugin(project, work))


def failed(rows: dict[str, dict[str, Any]]) -> list[str]:
    return [name for name, row in rows.items() if row["status"] == "fail"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound plugin, whose own tests do not hold it to all rules again."""
    new = write_plugin("mine", directory=tmp_path)
    (new.folder / "tests" / "test_environment.py").write_text("def test_it() -> None:\n    pass\n")
    return new.folder


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def list_files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_new_plugin_passes_everything_and_ships_its_certificate(folder: Path) -> None:
    before = list_files(folder)
    code, rows, told = check(folder, "--certify", "--keep")
    assert code == 0, told
    assert {row["status"] for row in rows.values()} == {"pass"}
    assert list(rows) == [
        "name",
        "requires castform",
        "description",
        "readme",
        "license",
        "sdist",
        "wheel",
        "files in the wheel",
        "install",
        "imports",
        "plugin mine",
        "loads mine/default",
        "train data mine/default",
        "eval data mine/default",
        "conforms mine/default",
        "certified mine/default",
        "own tests",
    ]
    assert rows["own tests"]["found"].startswith("1 passed")
    made = {"castform_env_mine/certificates", "castform_env_mine/certificates/default.json"}
    assert list_files(folder) - before == made
    certificate = read_certificate(folder / "castform_env_mine" / "certificates" / "default.json")
    assert certificate is not None and certificate["passed"] is True

    venv = Path(json.loads(told[: told.rindex("}") + 1])["venv"])
    listed = subprocess.run(
        [venv / "bin" / "python", "-P", "-m", "castform", "env", "list"], capture_output=True, text=True
    )
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["PLUGIN", "mine"]
    shutil.rmtree(venv.parent)


@pytest.mark.parametrize("template", ["tools", "judge", "harness"])
def test_every_template_keeps_every_rule_where_it_is_installed(tmp_path: Path, template: str) -> None:
    new = write_plugin("other", template=template, directory=tmp_path)
    (new.folder / "tests" / "test_environment.py").write_text("def test_it() -> None:\n    pass\n")
    code, rows, told = check(new.folder)
    assert code == 0, told
    assert rows["conforms other/default"]["found"] == "21 of 21 rules held"


def test_data_that_the_wheel_lacks_is_named_and_the_line_told_brings_it_back(folder: Path) -> None:
    (folder / ".gitignore").write_text("*.jsonl\n")  # hatchling leaves out what git ignores
    code, rows, _ = check(folder)
    row = rows["files in the wheel"]
    assert code == 1 and row["status"] == "fail"
    assert row["found"] == (
        "2 of 6 files are lost in the sdist: castform_env_mine/data/eval.jsonl, castform_env_mine/data/train.jsonl"
    )
    assert failed(rows)[1:] == ["train data mine/default", "eval data mine/default"]  # what users would see
    conforms = rows["conforms mine/default"]
    assert (conforms["status"], conforms["found"]) == ("unchecked", "its data cannot be read")
    assert "train.jsonl" in rows["train data mine/default"]["found"]

    table, _, line = row["hint"].removeprefix("in pyproject.toml: ").partition(" artifacts")
    with (folder / "pyproject.toml").open("a") as file:
        file.write(f"\n{table}\nartifacts{line}\n")
    assert build(folder).status == "pass"


def test_an_ignore_file_of_the_repository_counts_too(folder: Path) -> None:
    (folder.parent / ".git").mkdir()
    (folder.parent / ".gitignore").write_text("data/\n")
    assert build(folder).status == "pass"  # hatchling reads the nearest one, which is the plugin's own
    (folder / ".gitignore").unlink()
    row = build(folder)
    assert row.status == "fail" and "2 of 6 files are lost in the sdist" in row.found


def test_setuptools_data_is_named_with_setuptools_line(folder: Path) -> None:
    text = (folder / "pyproject.toml").read_text()
    build_system = '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
    packages = '[tool.setuptools]\npackages = ["castform_env_mine"]\ninclude-package-data = false\n'
    (folder / "pyproject.toml").write_text(
        build_system + text[text.index("\n[project]") :].partition("[tool.hatch")[0] + packages
    )
    before = list_files(folder)
    row = build(folder)
    assert row.hint is not None and "[tool.setuptools.package-data] castform_env_mine = [" in row.hint
    assert list_files(folder) == before  # setuptools writes where the source lies
    with (folder / "pyproject.toml").open("a") as file:
        file.write(f"\n[tool.setuptools.package-data]\n{row.hint.partition('package-data] ')[2]}\n")
    assert build(folder).status == "pass"


def test_what_a_plugin_does_wrong_is_told_in_one_go(folder: Path) -> None:
    package = folder / "castform_env_mine"
    with (package / "environment.py").open("a") as file:
        file.write("\n\ndef late() -> None:\n    import hypothesis\n    import nowhere_at_all\n")
    change(package / "environment.py", "match_answer(reply,", "1.0 or (reply,")
    change(folder / "tests" / "test_environment.py", "def test_it() -> None:\n    pass\n", BROKEN_TEST)
    code, rows, _ = check(folder)
    assert code == 1
    assert failed(rows) == ["imports", "conforms mine/default", "own tests"]
    assert "imports hypothesis, which nothing declares (and 1 more)" in rows["imports"]["found"]
    assert "'hypothesis', 'nowhere-at-all'" in rows["imports"]["hint"]
    assert "probes_at_the_floor" in rows["conforms mine/default"]["found"]
    assert rows["own tests"]["found"].startswith("1 failed in")
    assert any("sums are broken" in line for line in rows["own tests"]["details"])


def test_a_plugin_that_cannot_be_loaded_is_told_apart_from_one_that_cannot_be_built(folder: Path) -> None:
    package = folder / "castform_env_mine"
    change(package / "plugin.py", ":RomanNumerals", ":Nothing")
    code, rows, _ = check(folder)
    assert (code, failed(rows)) == (1, ["loads mine/default"])
    assert "Nothing" in rows["loads mine/default"]["found"]

    change(package / "plugin.py", "@hookimpl", "def (\n@hookimpl")
    change(folder / "pyproject.toml", "\nmine = ", '\nother = "castform_env_mine.nowhere"\nmine = ')
    code, rows, _ = check(folder)
    assert (code, failed(rows)) == (1, ["plugin other", "plugin mine"])
    assert "failed at import: ModuleNotFoundError" in rows["plugin other"]["found"]
    assert "failed at import: SyntaxError: invalid syntax (plugin.py" in rows["plugin mine"]["found"]

    change(folder / "pyproject.toml", 'packages = ["castform_env_mine"]', 'packages = ["castform_env_yours"]')
    (folder / "hatch_build.py").write_text("raise RuntimeError('the hook is broken')\n")
    with (folder / "pyproject.toml").open("a") as file:
        file.write("\n[tool.hatch.build.hooks.custom]\n")
    code, rows, _ = check(folder)
    assert (code, failed(rows)) == (1, ["sdist"])
    assert any("the hook is broken" in line for line in rows["sdist"]["details"])
    assert {rows[name]["status"] for name in ("wheel", "files in the wheel", "install")} == {"unchecked"}

    change(folder / "pyproject.toml", '"hatchling.build"', '"hatchling.nowhere"')
    code, rows, _ = check(folder)
    assert (code, failed(rows)) == (1, ["sdist"])
    assert rows["sdist"]["found"].endswith(": the build backend hatchling.nowhere cannot be imported")
    assert rows["sdist"]["hint"] == "see [build-system] in pyproject.toml: build-backend"


def test_a_requirement_that_castform_cannot_have_is_a_conflict_before_anything_is_fetched(
    folder: Path,
) -> None:
    change(folder / "pyproject.toml", '"castform>', '"pydantic<2", "castform>')
    code, rows, _ = check(folder)
    assert (code, failed(rows)) == (1, ["install"])
    assert "it requires pydantic<2" in rows["install"]["found"] and "--isolated" in rows["install"]["hint"]


def test_what_a_plugin_declares_is_really_installed(folder: Path) -> None:
    change(folder / "pyproject.toml", '"castform>', '"iniconfig==2.0.0", "castform>')
    with (folder / "castform_env_mine" / "environment.py").open("a") as file:
        file.write("\n\ndef late() -> object:\n    import iniconfig\n\n    return iniconfig\n")
    project = read_project(folder)
    wheel = build_plugin(project, folder.parent / "work").wheel
    assert wheel is not None
    fresh = make_fresh_venv(folder.parent / "venv")
    assert install_wheel(fresh, wheel) == ["iniconfig==2.0.0"]
    shown = fresh.run(
        ["-c", "import iniconfig, castform_env_mine as m; print(iniconfig.__file__, m.__file__)"],
        cwd=folder,
        timeout_seconds=60,
    )
    assert shown.output.count(str(fresh.folder / "lib")) == 2, shown.output

    done = fresh.run(["-m", "castform", "env", "check", str(folder)], cwd=folder, timeout_seconds=60)
    assert done.code == 3 and "pip install 'castform[test]'" in done.output  # nothing there to build with
