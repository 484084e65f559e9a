"""A task's folder: what it must hold, what is stripped, left out and refused, and its digest."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
from random_tasks import write_random_task

from benchmax.envs.harbor import content
from castform.errors import UsageError
from castform_harbor import task_files
from castform_harbor.task import find_verifier_image, load_task, strip_canary
from castform_harbor.task_files import copy_selected, hash_task, make_ignore
from castform_harbor.tasks import load_tasks, load_usable_tasks


def test_tasks_of_any_shape_have_the_hashes_that_harbor_gives_them(tmp_path):
    """The value is what `harbor.publisher.packager.Packager` of 0.26 gives for the same sixty tasks."""
    found = hashlib.sha256()
    for seed in range(60):
        folder = tmp_path / str(seed)
        write_random_task(folder, seed)
        found.update(content.hash_task(folder).encode())
        assert hash_task(folder, make_ignore(folder)) == f"sha256:{content.hash_task(folder)}"
    assert found.hexdigest() == "ee770895af9dd08f5fb9de25136214d3eefb9d7ceea0d4818c598b85b200df9c"


def test_the_digest_is_the_one_of_harbors_lock(write_task):
    """The value is what `harbor.publisher.packager.Packager` of 0.26 gives for the same files."""
    folder = write_task(
        name="demo",
        files={
            "tests/.harborignore": "*.log\n!keep.log\n",
            "tests/sub/a.log": "x\n",
            "tests/sub/keep.log": "y\n",
            "tests/x.pyc": "z\n",
            "tests/__pycache__/y": "z\n",
            "solution/solve.sh": "true\n",
            "notes.md": "not hashed\n",
        },
    )
    (folder / "tests" / "link.sh").symlink_to("test.sh")
    before = load_task(folder).digest
    assert before == "sha256:d25aaea4e270d7103e1de1e696789061c85ca15bccbe0962557e40b1756d04b7"
    (folder / "notes.md").write_text("changed")
    (folder / "tests" / "sub" / "a.log").write_text("changed")
    assert load_task(folder).digest == before
    (folder / "tests" / "sub" / "keep.log").write_text("changed")
    assert load_task(folder).digest != before


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<!-- harbor-canary GUID 1 -->\n# CANARY again\n\n\nDo it.\n", "Do it.\n"),
        ("Do it.\n# canary\n", "Do it.\n# canary\n"),
        ("# A heading\nDo it.\n", "# A heading\nDo it.\n"),
        ("\n\nDo it.\n", "Do it.\n"),
        ("", ""),
    ],
)
def test_canary_lines_at_the_top_are_stripped(text, left):
    assert strip_canary(text) == left


@pytest.mark.parametrize("missing", ["instruction.md", "tests/test.sh", "environment/Dockerfile"])
def test_a_folder_that_lacks_something_says_what(write_task, missing):
    folder = write_task(files={missing: None})
    with pytest.raises(UsageError, match=missing.rpartition("/")[0] or missing):
        load_task(folder)


def test_tests_that_harborignore_leaves_out_are_missing(write_task):
    with pytest.raises(UsageError, match=r"tests/test\.sh"):
        load_task(write_task(files={"tests/.harborignore": "*.sh\n"}))


def test_a_link_out_of_the_task_is_refused(write_task, tmp_path):
    (tmp_path / "secret").write_text("s")
    folder = write_task()
    (folder / "tests" / "data").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="leads out of the task"):
        load_task(folder)


def test_links_in_a_circle_are_refused(write_task):
    folder = write_task()
    (folder / "tests" / "again").symlink_to("../tests")
    with pytest.raises(UsageError, match="circle"):
        load_task(folder)
    (folder / "tests" / "again").unlink()
    (folder / "tests" / "a").symlink_to("b")
    (folder / "tests" / "b").symlink_to("a")
    with pytest.raises(UsageError, match="circle"):
        load_task(folder)


def test_a_copy_leaves_out_what_harborignore_says_and_everybody_can_read_it(write_task, tmp_path):
    folder = write_task(
        files={
            "tests/.harborignore": "/build\n*.log\n",
            "tests/build/big": "1",
            "tests/deep/.harborignore": "!kept.log\n",
            "tests/deep/kept.log": "1",
            "tests/deep/gone.log": "1",
            "tests/build/kept.log": "1",
        }
    )
    (folder / "tests" / "test.sh").chmod(0o600)
    task = load_task(folder)
    copy = tmp_path / "copy"
    copy_selected(task.tests, copy, task.leaves_out(), script="test.sh")
    files = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert files == {"test.sh", "deep/kept.log"}
    assert (copy / "test.sh").stat().st_mode & 0o777 == 0o755


def test_steps_need_their_own_files(write_task):
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"'
    folder = write_task(toml, files={"instruction.md": None, "steps/one/instruction.md": "# canary\nOne.\n"})
    with pytest.raises(UsageError, match=r"steps/two/instruction\.md"):
        load_task(folder)
    (folder / "steps" / "two").mkdir()
    (folder / "steps" / "two" / "instruction.md").write_text("Two.\n")
    assert load_task(folder).step_instructions == {"one": "One.\n", "two": "Two.\n"}


def test_a_trajectory_comes_along(write_task):
    assert load_task(write_task(files={"trajectory.json": '{"steps": []}'})).trajectory == {"steps": []}
    with pytest.raises(UsageError, match="no JSON"):
        load_task(write_task(name="bad", files={"trajectory.json": "{"}))


@pytest.mark.parametrize(
    ("toml", "files", "image", "context", "holds"),
    [
        ("", {}, None, "environment", False),
        ('[environment]\ndocker_image = "a"', {}, "a", "environment", False),
        ('[verifier.environment]\ndocker_image = "v"', {}, "v", None, True),
        ("", {"tests/Dockerfile": "FROM x"}, None, "tests", True),
        ('[verifier.environment]\ndocker_image = "v"', {"tests/Dockerfile": "FROM x"}, "v", None, True),
        ("[verifier.environment]\ncpus = 1", {}, None, "environment", False),
    ],
)
def test_a_separate_verifiers_image(write_task, toml, files, image, context, holds):
    task = load_task(write_task(f'[verifier]\nenvironment_mode = "separate"\n{toml}', files=files))
    found = find_verifier_image(task.folder, task.config, None)
    assert (found.docker_image, found.context and found.context.name, found.holds_tests) == (
        image,
        context,
        holds,
    )


def test_a_folder_of_tasks_is_read_in_order(write_task):
    folder = write_task(name="b").parent
    write_task(name="a")
    assert [task.name for task in load_tasks(folder)] == ["a", "b"]
    assert [task.name for task in load_tasks(folder / "b")] == ["b"]


def test_bad_tasks_are_told_apart_from_sound_ones(write_task):
    folder = write_task(name="good").parent
    write_task("[agent]\ntimeout_sec = 'x'", name="bad")
    tasks, faults = load_usable_tasks(folder)
    assert [task.name for task in tasks] == ["good"]
    assert list(faults) == [str(folder / "bad")]
    with pytest.raises(UsageError, match="1 of 2 tasks cannot be used"):
        load_tasks(folder)


def test_a_registry_names_local_tasks(write_task, tmp_path):
    write_task(name="a")
    registry = tmp_path / "registry.json"
    entry = {"name": "sea", "version": "1", "tasks": [{"name": "a", "path": "tasks/a"}]}
    registry.write_text(json.dumps([entry]))
    assert [task.name for task in load_tasks(registry)] == ["a"]
    registry.write_text(json.dumps([entry, {**entry, "version": "2"}]))
    with pytest.raises(UsageError, match="several datasets: sea@1, sea@2"):
        load_tasks(registry)
    assert len(load_tasks(registry, dataset="sea@2")) == 1
    entry["tasks"] = [{"name": "a", "git_url": "https://git.example/x", "path": "a"}]
    registry.write_text(json.dumps([entry]))
    with pytest.raises(UsageError, match="Git repository"):
        load_tasks(registry)


def test_a_dataset_pins_the_content_of_its_tasks(write_task):
    folder = write_task('[task]\nname = "sea/a"', name="a").parent
    digest = load_task(folder / "a").digest
    pins = folder / "dataset.toml"
    pins.write_text(f'[[tasks]]\nname = "sea/a"\ndigest = "{digest}"\n')
    assert len(load_tasks(folder)) == 1
    (folder / "a" / "instruction.md").write_text("Something else.\n")
    with pytest.raises(UsageError, match="is not the sea/a of dataset"):
        load_tasks(folder)


@pytest.mark.parametrize("path", ["nowhere", "empty", "x" * 5000], ids=["nowhere", "empty", "long"])
def test_a_source_without_tasks_is_an_error(tmp_path, path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError):
        load_tasks(tmp_path / path)


def _write_bytes(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda task: _write_bytes(task / ".gitignore", b"\xff"), "no rules"),
        (lambda task: _write_bytes(task / "tests/.harborignore", b"[z-a]"), "no rules"),
        (lambda task: _write_bytes(task / "trajectory.json", b"[" * 100_000), "no JSON"),
        (lambda task: os.mkfifo(task / "tests/pipe"), "no regular file"),
        (lambda task: _write_bytes(task / "environment/odd\udcff", b""), "no UTF-8"),
    ],
    ids=["gitignore", "harborignore", "trajectory", "pipe", "name"],
)
def test_a_file_that_cannot_be_used_is_told_in_words(write_task, spoil, said):
    task = write_task()
    spoil(task)
    with pytest.raises(UsageError, match=said):
        load_task(task)


def test_links_that_make_one_folder_many_are_refused(write_task, monkeypatch):
    monkeypatch.setattr(task_files, "MAX_ENTRIES", 100)
    task = write_task()
    for number in range(8):
        (task / f"environment/d{number}").mkdir()
        for name in "ab" if number < 7 else "":
            (task / f"environment/d{number}/{name}").symlink_to(f"../d{number + 1}")
    with pytest.raises(UsageError, match="more than 100 files"):
        load_task(task)


@pytest.mark.parametrize(
    "tasks",
    [None, 5, "abc", [1], [{"name": "a"}], [{"path": 5}], [{"path": "\0"}], [{"path": "\ud800"}]],
    ids=repr,
)
def test_a_registry_that_names_no_folder_is_an_error(tmp_path, tasks):
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "sea", "tasks": tasks}]))
    with pytest.raises(UsageError, match="without a path"):
        load_tasks(registry)


@pytest.mark.parametrize(
    ("text", "said"), [("[]", "no dataset"), ("[" * 100_000, "no registry")], ids=["none", "deep"]
)
def test_a_registry_without_datasets_is_an_error(tmp_path, text, said):
    (tmp_path / "registry.json").write_text(text)
    with pytest.raises(UsageError, match=said):
        load_tasks(tmp_path / "registry.json")
