"""Files that a checkout has and a wheel does not, and what is built at all."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from castform.authoring.building import Built, copy_source
from castform.authoring.fresh_venv import FreshVenv, install_requirements, read_requirements
from castform.authoring.project import read_project
from castform.authoring.wheel_files import check_wheel_files, suggest_lines
from castform.isolation.installers import ConflictError

Write = Callable[..., Path]
PYPROJECT = """
[build-system]
requires = []
build-backend = "BACKEND.build"
[project]
name = "castform-env-mine"
[project.entry-points.castform]
mine = "castform_env_mine.plugin"
"""
SOURCE = {
    "castform_env_mine/__init__.py": "",
    "castform_env_mine/plugin.py": "",
    "castform_env_mine/data/train.jsonl": "{}",
    "castform_env_mine/data/eval.jsonl": "{}",
    "castform_env_mine/LICENSE": "free",
}
NOT_DATA = {
    "castform_env_mine/__pycache__/plugin.pyc": "",
    "castform_env_mine/.idea/x.xml": "",
    "castform_env_mine/data/.hidden": "",
}


def pack(folder: Path, work: Path, *, wheel: set[str], sdist: set[str]) -> Built:
    work.mkdir()
    with zipfile.ZipFile(work / "m.whl", "w") as archive:
        for name in wheel:
            archive.writestr(name, "")
    with tarfile.open(work / "m.tar.gz", "w") as tar:
        for name in sdist:
            tar.addfile(tarfile.TarInfo(f"mine-1.0/{name}"), io.BytesIO())
    return Built(rows=(), source=folder, sdist=work / "m.tar.gz", wheel=work / "m.whl")


def test_a_wheel_with_all_files_passes(write_source: Write, tmp_path: Path) -> None:
    folder = write_source(PYPROJECT.replace("BACKEND", "hatchling"), **SOURCE, **NOT_DATA)
    row = check_wheel_files(
        read_project(folder), pack(folder, tmp_path / "w", wheel=set(SOURCE), sdist=set(SOURCE))
    )
    assert (row.status, row.found) == ("pass", "all 5 files of the package")


@pytest.mark.parametrize(
    ("backend", "in_sdist", "lost_in", "line"),
    [
        (
            "hatchling",
            False,
            "the sdist",
            '[tool.hatch.build] artifacts = ["castform_env_mine/LICENSE", "castform_env_mine/data/*.jsonl"]',
        ),
        (
            "setuptools",
            True,
            "the wheel",
            '[tool.setuptools.package-data] castform_env_mine = ["LICENSE", "data/*.jsonl"]',
        ),
        (
            "flit_core",
            True,
            "the wheel",
            "tell flit_core to put castform_env_mine/LICENSE, castform_env_mine/data/*.jsonl",
        ),
    ],
)
def test_lost_files_are_named_with_the_line_that_packs_them(
    write_source: Write, tmp_path: Path, backend: str, in_sdist: bool, lost_in: str, line: str
) -> None:
    folder = write_source(PYPROJECT.replace("BACKEND", backend), **SOURCE)
    code = {name for name in SOURCE if name.endswith(".py")}
    built = pack(folder, tmp_path / "w", wheel=code, sdist=set(SOURCE) if in_sdist else code)
    row = check_wheel_files(read_project(folder), built)
    assert row.status == "fail" and row.hint is not None and line in row.hint
    assert row.found == (
        f"3 of 5 files are lost in {lost_in}: castform_env_mine/LICENSE, castform_env_mine/data/eval.jsonl, "
        "castform_env_mine/data/train.jsonl"
    )


def test_the_eleventh_lost_file_is_in_the_details(write_source: Write, tmp_path: Path) -> None:
    files = {f"castform_env_mine/{n:02}.csv": "" for n in range(12)}
    folder = write_source(PYPROJECT.replace("BACKEND", "hatchling"), **files)
    row = check_wheel_files(read_project(folder), pack(folder, tmp_path / "w", wheel=set(), sdist=set()))
    assert row.found.endswith("09.csv and 2 more")
    assert row.details == ("castform_env_mine/10.csv", "castform_env_mine/11.csv")
    assert row.hint == 'in pyproject.toml: [tool.hatch.build] artifacts = ["castform_env_mine/*.csv"]'


def test_an_entry_point_into_nowhere_is_named(write_source: Write, tmp_path: Path) -> None:
    folder = write_source(PYPROJECT.replace("BACKEND", "hatchling"))
    row = check_wheel_files(read_project(folder), pack(folder, tmp_path / "w", wheel=set(), sdist=set()))
    assert row.status == "fail" and "names castform_env_mine, which is neither" in row.found


def test_patterns_of_setuptools_are_below_their_package() -> None:
    assert suggest_lines("setuptools", ["a/x.csv", "b/y/z.json", "a/w.csv"]) == (
        'in pyproject.toml: [tool.setuptools.package-data] a = ["*.csv"]; b = ["y/*.json"]'
    )


def test_a_copy_leaves_out_leftovers_and_keeps_the_ignore_files_above(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    folder = root / "plugins" / "mine"
    for name in (
        "pyproject.toml",
        "pkg/a.py",
        "pkg/build/b.py",
        "pkg/__pycache__/a.pyc",
        "build/old.py",
        "dist/old.whl",
        "mine.egg-info/SOURCES.txt",
        "env/pyvenv.cfg",
        "env/lib/x.py",
        ".gitignore",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("*.csv\n")
    (tmp_path / ".gitignore").write_text("not of this repository\n")
    copy = copy_source(folder, tmp_path / "copy")
    assert copy == tmp_path / "copy" / "plugins" / "mine"
    files = {
        p.relative_to(tmp_path / "copy").as_posix() for p in (tmp_path / "copy").rglob("*") if p.is_file()
    }
    assert files == {
        ".gitignore",
        "plugins/mine/.gitignore",
        "plugins/mine/pyproject.toml",
        "plugins/mine/pkg/a.py",
        "plugins/mine/pkg/build/b.py",
    }
    assert (tmp_path / "copy" / ".gitignore").read_text() == "*.csv\n"
    assert (tmp_path / "copy" / ".git").is_dir()  # no backend looks further up


def test_a_folder_outside_any_repository_is_copied_as_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.py").write_text("")
    copy = copy_source(tmp_path / "mine", tmp_path / "copy")
    assert copy == tmp_path / "copy" and (copy / "a.py").is_file() and (copy / ".git").is_dir()


def make_wheel(place: Path, *requirements: str) -> Path:
    text = "".join(f"Requires-Dist: {requirement}\n" for requirement in requirements)
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr(
            "m-1.dist-info/METADATA", f"Metadata-Version: 2.4\nName: m\n{text}\nRequires-Dist: body\n"
        )
    return place


def test_requirements_are_those_of_this_python_and_of_an_extra(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path / "m.whl",
        "castform>=0.1",
        "tomli; python_version < '3'",
        "yaml>=1; extra == 'web'",
        "other; extra == 'test'",
    )
    assert [str(r) for r in read_requirements(wheel)] == ["castform>=0.1"]
    assert [r.name for r in read_requirements(wheel, "web")] == ["yaml"]


def test_what_castform_brings_is_not_installed_again_and_must_fit(tmp_path: Path) -> None:
    nowhere = FreshVenv(folder=tmp_path, python=tmp_path / "none", tools=tmp_path)
    fitting = [Requirement(text) for text in ("castform>=0.1", "Pydantic>=2", "castform[test]", "httpx")]
    assert install_requirements(nowhere, fitting) == []
    with pytest.raises(ConflictError, match=r"requires pydantic<2, and castform is used with 2") as caught:
        install_requirements(nowhere, [Requirement("pydantic<2")])
    assert caught.value.hint is not None and "--isolated" in caught.value.hint
