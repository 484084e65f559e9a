"""Arguments, sizes, data files, and imports inside functions, case by case."""

from __future__ import annotations

import importlib
import importlib as renamed
import json
from importlib import import_module as alias
from importlib.resources import files
from pathlib import Path
from pkgutil import get_data
from typing import Any

import pytest

from benchmax.bundle import BundleData, BundlingError, DataFile, dump_bundle, lay_out_data, load_bundle
from benchmax.bundle.data_files import collect_data
from benchmax.bundle.delayed_imports import imported_names
from benchmax.bundle.places import bundle_folder, bundled_file_name, bundled_path
from benchmax.bundle.sources import Sources, project_root
from benchmax.envs import Dataset, Environment, RolloutAttempt


class Named(Environment[Any, RolloutAttempt]):
    """Takes some arguments and not others."""

    def __init__(self, size: int, *, color: str = "red") -> None:
        self.size, self.color = size, color

    async def create_dataset(
        self, split: str, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Any]:
        return Dataset([])

    async def run_rollout(self, request: Any) -> RolloutAttempt:
        raise NotImplementedError


# --- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([1], "must be a mapping of names, not list"),
        ("size", "must be a mapping of names, not str"),
        ({1: 2}, "must have text for keys, not 1"),
        ({}, r"missing a required argument: 'size' \(it takes: size, color\)"),
        (None, "missing a required argument: 'size'"),
        ({"size": 1, "shape": 2}, "unexpected keyword argument 'shape'"),
    ],
)
def test_arguments_are_checked_against_the_constructor(args: Any, words: str) -> None:
    with pytest.raises(BundlingError, match=words):
        dump_bundle(Named, constructor_args=args)


def test_any_mapping_of_names_will_do() -> None:
    from types import MappingProxyType

    loaded = load_bundle(dump_bundle(Named, constructor_args=MappingProxyType({"size": 3})))
    assert (loaded.size, loaded.color) == (3, "red")  # type: ignore[attr-defined]


def test_the_size_is_bounded_and_told() -> None:
    size = len(dump_bundle(Named, constructor_args={"size": 1}).pickled)
    assert dump_bundle(Named, constructor_args={"size": 1}, max_bytes=size).pickled
    with pytest.raises(
        BundlingError, match=rf"bundle has {size:,} bytes, .* at most {size - 1:,} are allowed"
    ):
        dump_bundle(Named, constructor_args={"size": 1}, max_bytes=size - 1)


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ("json", "must be a list of modules, not str"),
        (json, "must be a list of modules, not module"),
        (["json"], "must hold imported modules, not 'json'"),
        ([type(json)("ghost")], "ghost of local_modules is not an imported module"),
    ],
)
def test_local_modules_are_imported_modules(modules: Any, words: str) -> None:
    with pytest.raises(BundlingError, match=words):
        dump_bundle(Named, constructor_args={"size": 1}, local_modules=modules)


# --- data files ------------------------------------------------------------------------------


def write_files(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def test_files_and_whole_folders_are_collected_once_and_sorted(tmp_path: Path) -> None:
    write_files(tmp_path, "b.txt", "d/2.txt", "d/1.txt", "d/__pycache__/x.pyc", "d/sub/3.txt", "other.txt")
    data = collect_data(["d", "b.txt", tmp_path / "d" / "1.txt", "d/../b.txt"], root=tmp_path, base="src")
    assert [file.path for file in data.files] == ["b.txt", "d/1.txt", "d/2.txt", "d/sub/3.txt"]
    assert [file.content for file in data.files][1] == b"d/1.txt"
    assert data.base == "src" and data.size == 30
    assert collect_data([], root=tmp_path, base="src") == BundleData()


def test_data_files_that_are_too_big_together_are_refused_before_they_are_read(tmp_path: Path) -> None:
    write_files(tmp_path, "12345", "123")
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    assert collect_data(["12345", "123", "./12345"], root=tmp_path, max_bytes=8).size == 8
    with pytest.raises(BundlingError, match="123 has 3 bytes, and 2 are left for it"):
        collect_data(["12345", "123"], root=tmp_path, max_bytes=7)
    with pytest.raises(BundlingError, match="sparse has 1,099,511,627,776 bytes, and 5 are left"):
        collect_data(["123", "sparse"], root=tmp_path, max_bytes=8)


def test_data_whose_names_this_disk_does_not_take_is_one_error(tmp_path: Path) -> None:
    data = BundleData(files=(DataFile("x" * 300, b""),))
    with pytest.raises(BundlingError, match="cannot be laid out here: File name too long"):
        lay_out_data(data, tmp_path / "out")


def test_what_is_no_data_file_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_files(root, "ok.txt")
    write_files(tmp_path, "outside.txt")
    (root / "empty").mkdir()
    (root / "link.txt").symlink_to(tmp_path / "outside.txt")
    (root / "inner.txt").symlink_to(root / "ok.txt")
    (root / "broken.txt").symlink_to(root / "nothing")
    for wrong, words in [
        ("none.txt", "none.txt does not exist"),
        ("../outside.txt", "lies outside the project folder"),
        (tmp_path / "outside.txt", "lies outside the project folder"),
        ("link.txt", "lies outside the project folder"),
        ("broken.txt", "broken.txt does not exist"),
        ("empty", "empty has no files in it"),
        ("", "must hold paths, not ''"),
        (3, "must hold paths, not 3"),
    ]:
        with pytest.raises(BundlingError, match=words):
            collect_data([wrong], root=root)  # type: ignore[list-item]
    assert collect_data(["inner.txt"], root=root).files == (DataFile("inner.txt", b"ok.txt"),)
    with pytest.raises(BundlingError, match="must be a list of paths"):
        dump_bundle(Named, constructor_args={"size": 1}, data_files="ok.txt")


def test_data_is_laid_out_in_an_empty_folder_only(tmp_path: Path) -> None:
    data = BundleData(files=(DataFile("a/b.txt", b"x"), DataFile("c.bin", b"")), base="src/pkg")
    base = lay_out_data(data, tmp_path / "new")
    assert base == tmp_path / "new" / "src" / "pkg" and base.is_dir()
    assert (tmp_path / "new" / "a" / "b.txt").read_bytes() == b"x"
    assert (tmp_path / "new" / "c.bin").read_bytes() == b""
    with pytest.raises(BundlingError, match="is not empty"):
        lay_out_data(data, tmp_path / "new")
    with pytest.raises(BundlingError, match="not a relative path"):
        lay_out_data(BundleData(files=(DataFile("../x", b""),)), tmp_path / "other")
    assert not (tmp_path / "x").exists()


def test_paths_of_a_bundle_start_at_its_folder(tmp_path: Path) -> None:
    with bundle_folder(tmp_path):
        assert bundled_path("a/b") == tmp_path / "a" / "b"
        assert bundled_file_name("a") == str(tmp_path / "a")
    with pytest.raises(BundlingError, match="load it with data_folder="):
        bundled_path("a")


# --- imports inside functions ----------------------------------------------------------------


def plain() -> None:
    import json
    import xml.dom.minidom
    from collections.abc import Mapping  # noqa: F401

    json.dumps(xml.dom.minidom)


def nested() -> Any:
    def inner() -> Any:
        return [__import__("wave") for _ in range(1)]

    class Local:
        import shelve

    return inner, Local, lambda: importlib.import_module("tabnanny")


def spelled() -> None:
    importlib.import_module("one")
    renamed.import_module(name="two")
    alias("three")
    __import__("four", globals())
    import_me = "five"
    importlib.import_module(import_me)
    importlib.import_module(f"si{import_me}x")
    importlib.import_module("si" + import_me)
    importlib.import_module("si%s" % import_me)  # noqa: UP031
    importlib.import_module("si{}".format(import_me))  # noqa: UP032


class _Array:
    """Answers == as arrays do."""

    def __eq__(self, other: object) -> Any:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment]


ARRAY = _Array()


def with_data() -> Any:
    return ARRAY, files("some_package") / "data.csv", get_data("other_package", "x"), ARRAY.files("no")  # type: ignore[attr-defined]


RELATIVE = """
def f():
    from . import one, two
    from .three import x
    from ..four import y
    from .. import five
"""


def test_every_spelling_of_an_import_is_seen() -> None:
    assert list(imported_names(plain)) == ["json", "xml.dom.minidom", "collections.abc"]  # type: ignore[arg-type]
    assert sorted(imported_names(nested)) == ["shelve", "tabnanny", "wave"]  # type: ignore[arg-type]
    assert list(imported_names(with_data)) == ["some_package", "other_package"]  # type: ignore[arg-type]
    assert list(imported_names(spelled)) == ["one", "two", "three", "four"]  # type: ignore[arg-type]


def test_relative_imports_are_resolved() -> None:
    space: dict[str, Any] = {"__package__": "a.b.c"}
    exec(RELATIVE, space)
    assert list(imported_names(space["f"])) == [
        "a.b.c.one",
        "a.b.c.two",
        "a.b.c.three",
        "a.b.four",
        "a.b.five",
    ]
    exec("import importlib\ndef g(): importlib.import_module('..x')", space)
    assert list(imported_names(space["g"])) == ["a.b.x"]


# --- where source lies -----------------------------------------------------------------------


def test_the_nearest_folder_with_a_pyproject_is_the_project(tmp_path: Path) -> None:
    write_files(tmp_path, "pyproject.toml", "a/pyproject.toml", "a/src/p/q/m.py", "b/m.py")
    assert project_root(tmp_path / "a" / "src" / "p" / "q" / "m.py") == tmp_path / "a"
    assert project_root(tmp_path / "b" / "m.py") == tmp_path
    assert project_root(tmp_path / "a/.venv/lib/python3.11/site-packages/x.py") is None


def test_without_a_pyproject_the_folder_of_the_top_package_is_the_project(tmp_path: Path) -> None:
    write_files(tmp_path, "x/p/__init__.py", "x/p/q/__init__.py", "x/p/q/m.py", "x/single.py")
    assert project_root(tmp_path / "x" / "p" / "q" / "m.py") == tmp_path / "x"
    assert project_root(tmp_path / "x" / "single.py") == tmp_path / "x"


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("json.decoder", "standard"),
        ("sys", "standard"),
        ("benchmax.envs", "runtime"),
        ("castform.plugins", "runtime"),
        ("cloudpickle.cloudpickle", "runtime"),
        ("pytest", "installed"),
        ("no_such_module_anywhere", "unknown"),
        (__name__, "local"),
    ],
)
def test_modules_have_one_origin(name: str, origin: str) -> None:
    assert Sources(roots=(Path(__file__).resolve().parents[4],)).origin_of(name) == origin


def test_source_outside_the_project_is_external_unless_declared() -> None:
    assert Sources(roots=()).origin_of(__name__) == "external"
    assert Sources(roots=(), dependencies=("castform[train]>=0",)).origin_of(__name__) == "declared"
