"""Locks: what pip and uv say becomes exact lines, and their hash names an environment."""

from __future__ import annotations

import zipfile
from email import message_from_string

import pytest
from packaging.requirements import Requirement

from castform import __version__
from castform.errors import MissingError, UsageError
from castform.isolation.build import build_environment
from castform.isolation.installers import Sources, check_wheels, explain_output
from castform.isolation.lock import Lock, LockedItem
from castform.isolation.resolve import read_compiled, read_report_item
from castform.isolation.runtime_wheel import list_runtime_requirements, write_runtime_wheel

A, B = "a" * 64, "b" * 64


def item(name="x", version="1.0", sha256=(A,), url=None):
    return LockedItem(name=name, version=version, sha256=sha256, url=url)


def lock(*items, runtime="full", resolver="pip"):
    return Lock(items=items, runtime=runtime, resolver=resolver)


def test_a_lock_is_written_as_pip_reads_it():
    text = lock(item(sha256=(A, B)), item("y", url="file:///w/y-2-py3-none-any.whl")).text()
    assert text == (
        f"x==1.0 --hash=sha256:{A} --hash=sha256:{B}\ny @ file:///w/y-2-py3-none-any.whl --hash=sha256:{A}\n"
    )


def test_a_build_removes_its_own_leftovers_and_leaves_what_is_built_beside_it_alone(tmp_path, monkeypatch):
    for name in (".castform-env-x_left", ".castform-env-x-y_begun"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingError, match="uv is not installed"):
        build_environment(
            lock(resolver="uv"), tmp_path / "castform-env-x-01", sources=Sources(), finish=lambda place: None
        )
    assert [found.name for found in tmp_path.iterdir()] == [".castform-env-x-y_begun"]


def test_the_same_content_is_the_same_environment_wherever_the_wheels_lay():
    here = lock(item(url="file:///here/x-1.0-py3-none-any.whl"), item("y"))
    there = lock(item("Y"), item("X", url="file:///there/x-1.0-py3-none-any.whl"), resolver="uv")
    assert here.digest() == there.digest()


@pytest.mark.parametrize(
    "other",
    [
        lock(item(version="1.1")),
        lock(item(sha256=(B,))),
        lock(item("z")),
        lock(item(), item("y")),
        lock(item(), runtime="minimal"),
    ],
)
def test_other_content_is_another_environment(other):
    assert other.digest() != lock(item()).digest()


def test_pips_report_becomes_an_item_that_is_fetched_by_version_unless_it_was_given_directly():
    entry = {
        "metadata": {"name": "x", "version": "1.0"},
        "download_info": {"url": "file:///w/x.whl", "archive_info": {"hashes": {"sha256": A}}},
        "is_direct": False,
    }
    assert read_report_item(entry) == item()
    assert read_report_item({**entry, "is_direct": True}) == item(url="file:///w/x.whl")


@pytest.mark.parametrize("info", [{"dir_info": {}}, {"vcs_info": {"vcs": "git"}}, {"archive_info": {}}])
def test_what_has_no_hash_is_not_locked(info):
    entry = {
        "metadata": {"name": "x", "version": "1.0"},
        "download_info": {"url": "https://example.org/x", **info},
        "is_direct": True,
    }
    with pytest.raises(UsageError, match=r"x 1\.0 comes from https://example\.org/x, which has no hash"):
        read_report_item(entry)


def test_what_uv_compiled_is_read():
    text = (
        f"# a comment\nx==1.0 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n"
        f"y @ file:///w/y-2.5-py3-none-any.whl \\\n    --hash=sha256:{A}\n"
        f"z @ file:///w/z-0.3.tar.gz --hash=sha256:{B}\n"
    )
    assert read_compiled(text) == [
        item(sha256=(A, B)),
        item("y", "2.5", url="file:///w/y-2.5-py3-none-any.whl"),
        item("z", "0.3", (B,), "file:///w/z-0.3.tar.gz"),
    ]
    with pytest.raises(UsageError, match="has no hash"):
        read_compiled("x==1.0\n")


def test_the_runtime_wheel_is_metadata_alone_and_always_the_same(tmp_path):
    (tmp_path / "again").mkdir()
    wheel = write_runtime_wheel(tmp_path, "minimal")
    assert wheel.read_bytes() == write_runtime_wheel(tmp_path / "again", "minimal").read_bytes()
    info = f"castform-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.namelist() == [f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD"]
        headers = message_from_string(archive.read(f"{info}/METADATA").decode())
    assert (headers["Name"], headers["Version"]) == ("castform", __version__)
    needed = {Requirement(r).name for r in headers.get_all("Requires-Dist") if "extra ==" not in r}
    assert needed == {"aiohttp", "packaging", "pluggy"}
    assert "mcp" in headers.get_all("Provides-Extra")


def test_all_that_benchmax_offers_is_in_the_full_runtime_and_nothing_of_the_hosts():
    full = {Requirement(r).name for r in list_runtime_requirements("full") if "extra ==" not in r}
    assert {"openai", "pydantic", "math-verify", "aiohttp", "pluggy"} <= full
    assert not full & {"rich", "sqlalchemy", "torch"}


def test_a_conflict_is_told_by_its_causes_and_passwords_are_left_out():
    output = (
        "Looking in indexes: https://me:secret@example.org/simple\n"
        "ERROR: Cannot install x 1 because these package versions have conflicting dependencies.\n"
        "The conflict is caused by:\n    x 1.0 depends on y<2\n    castform 0.1 depends on y>=2\n"
        "ERROR: ResolutionImpossible: for help visit somewhere\n"
    )
    assert explain_output(output) == "x 1.0 depends on y<2; castform 0.1 depends on y>=2"
    assert (
        explain_output("ERROR: no access to https://me:secret@example.org/x")
        == "no access to https://***@example.org/x"
    )
    build = "error: subprocess-exited-with-error\n  OSError: Readme file does not exist: README.md\nerror: metadata-generation-failed\n"
    assert explain_output(build) == "OSError: Readme file does not exist: README.md"
    assert explain_output("") == "it says nothing"


@pytest.mark.parametrize(
    ("folder", "offline", "message"),
    [
        (None, True, "--offline needs --wheels"),
        ("nowhere", False, "is not a folder"),
        ("nowhere", True, "is not a folder"),
    ],
)
def test_sources_that_cannot_be_used_are_refused(tmp_path, folder, offline, message):
    wheels = None if folder is None else tmp_path / folder
    with pytest.raises(UsageError, match=message):
        check_wheels(Sources(wheels=wheels, offline=offline))
