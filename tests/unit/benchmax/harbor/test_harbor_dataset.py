"""Tasks by content: ids, splits, copies, manifests, registries."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmax.envs.harbor import DatasetConfig, HarborDataset, sources
from benchmax.envs.harbor.content import hash_task, list_task_files

SOURCE = DatasetConfig(path="source")


async def test_an_id_is_the_content_and_the_same_wherever_the_task_lies(tmp_path, make_task):
    one = make_task("one")
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(one, tmp_path / "elsewhere" / "another-name")
    first = await HarborDataset.create(SOURCE, base_dir=tmp_path)
    second = await HarborDataset.create(DatasetConfig(path="elsewhere"), base_dir=tmp_path)
    assert first[0].id == second[0].id
    (one / "tests" / "test.sh").write_text("other")
    changed = await HarborDataset.create(SOURCE, base_dir=tmp_path)
    assert changed[0].id != first[0].id


def test_the_hash_is_over_sorted_paths_and_their_files_hashes(make_task):
    task = make_task()
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text("FROM x\n")
    (task / "tests" / "__pycache__").mkdir()
    (task / "tests" / "__pycache__" / "a.pyc").write_text("litter")
    (task / "notes.txt").write_text("no part of it")
    names = [
        "environment/Dockerfile",
        "instruction.md",
        "task.toml",
        "tests/scripted_result.json",
        "tests/test.sh",
    ]
    assert list_task_files(task) == names
    lines = "".join(f"{n}\0{hashlib.sha256((task / n).read_bytes()).hexdigest()}\n" for n in names)
    assert hash_task(task) == hashlib.sha256(lines.encode()).hexdigest()


def test_what_harborignore_and_gitignore_leave_out_does_not_count(make_task):
    task = make_task()
    (task / "tests" / "big.bin").write_text("x")
    before = hash_task(task)
    (task / "tests" / ".harborignore").write_text("*.bin\n!scripted_result.json\n")
    assert "tests/big.bin" not in list_task_files(task) and hash_task(task) != before
    (task / ".gitignore").write_text("scripted_*\n")
    assert list_task_files(task) == ["instruction.md", "task.toml", "tests/test.sh"]


@pytest.mark.parametrize("place", [".gitignore", "tests/.harborignore"])
@pytest.mark.parametrize("rules", [b"[z-a]", b"\xff"], ids=["pattern", "bytes"])
async def test_rules_that_are_none_are_told_with_their_file(tmp_path, make_task, place, rules):
    (make_task() / place).write_bytes(rules)
    with pytest.raises(ValueError, match=f"{place} holds no rules"):
        await HarborDataset.create(SOURCE, base_dir=tmp_path)


async def test_the_copy_holds_what_was_read_and_a_damaged_one_is_refused(tmp_path, make_task):
    make_task()
    example = (await HarborDataset.create(SOURCE, base_dir=tmp_path))[0]
    assert example.payload == {
        "path": str(tmp_path / "tasks" / example.id),
        "name": "one",
        "source": "source",
    }
    copy = tmp_path / "tasks" / example.id
    assert hash_task(copy) == example.id
    (copy / "instruction.md").write_text("tampered")
    with pytest.raises(ValueError, match="does not hold the content"):
        await HarborDataset.create(SOURCE, base_dir=tmp_path)


async def test_copies_beside_their_sources_are_no_tasks_of_their_own(tmp_path, make_task):
    make_task(under="tasks")
    config = DatasetConfig(path="tasks")
    first = await HarborDataset.create(config, base_dir=tmp_path)
    again = await HarborDataset.create(config, base_dir=tmp_path)
    assert [example.id for example in first] == [example.id for example in again]


async def test_ten_tasks_are_nine_and_one_and_the_lowest_ids_are_held_out(tmp_path, make_task):
    for number in range(10):
        make_task(f"t{number}")
    every = [example.id for example in await HarborDataset.create(SOURCE, base_dir=tmp_path)]
    assert every == sorted(every)

    async def ids(split, ratio, **more):
        made = await HarborDataset.create(SOURCE, base_dir=tmp_path, split=split, eval_ratio=ratio, **more)
        return [example.id for example in made]

    assert await ids("eval", 0.1) == every[:1] and await ids("train", 0.1) == every[1:]
    assert await ids("eval", 0.3) == every[:3] and await ids("train", 0.3) == every[3:]
    assert await ids("eval", 0.99) == every[:9] and await ids("train", 0.99) == every[9:]
    assert await ids("train", 0) == every and await ids("train", 0.3, max_examples=2) == every[3:5]
    train, held_out = (await HarborDataset.create(SOURCE, base_dir=tmp_path)).train_eval_split(0.3)
    assert [example.id for example in held_out] == every[:3] and len(train) == 7


async def test_no_held_out_task_is_a_message_and_not_an_empty_set(tmp_path, make_task):
    make_task()
    with pytest.raises(ValueError, match="at least two dataset examples"):
        await HarborDataset.create(SOURCE, base_dir=tmp_path, split="eval", eval_ratio=0.1)
    with pytest.raises(ValueError, match="disabled by eval_ratio=0"):
        await HarborDataset.create(SOURCE, base_dir=tmp_path, split="eval", eval_ratio=0)


async def test_two_tasks_with_one_content_are_refused_by_name(tmp_path, make_task):
    one = make_task("one")
    shutil.copytree(one, one.parent / "two")
    with pytest.raises(ValueError, match="'one' and 'two' have duplicate content"):
        await HarborDataset.create(SOURCE, base_dir=tmp_path)


async def test_tasks_are_chosen_by_pattern_and_number(tmp_path, make_task):
    for name in ("ab", "ac", "b"):
        make_task(name)

    async def names(**changes):
        config = DatasetConfig(path="source", **changes)
        return sorted(
            example.payload["name"] for example in await HarborDataset.create(config, base_dir=tmp_path)
        )

    assert await names(task_names=["a*"]) == ["ab", "ac"]
    assert await names(exclude_task_names=["a*"]) == ["b"]
    assert await names(n_tasks=2) == ["ab", "ac"]
    with pytest.raises(ValueError, match="no task is called"):
        await names(task_names=["z"])


async def test_a_task_that_is_not_whole_is_named(tmp_path, make_task):
    make_task("fine")
    (make_task("broken") / "tests" / "test.sh").unlink()
    with pytest.raises(
        ValueError, match=r"1 of 2 tasks are not whole:\n.*broken: no tests/test.sh"
    ) as raised:
        await HarborDataset.create(SOURCE, base_dir=tmp_path)
    assert "castform harbor lint" in raised.value.__notes__[0]
    assert len(await HarborDataset.create(SOURCE, base_dir=tmp_path, disable_verification=True)) == 2


async def test_a_link_out_of_a_task_is_refused(tmp_path, make_task):
    (make_task() / "tests" / "secret").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match="leads out of the task"):
        await HarborDataset.create(SOURCE, base_dir=tmp_path)


def write_manifest(tmp_path, digests):
    rows = "".join(
        f'[[tasks]]\nname = "org/{name}"\ndigest = "sha256:{digest}"\n' for name, digest in digests.items()
    )
    (tmp_path / "source" / "dataset.toml").write_text(f'[dataset]\nname = "org/set"\n{rows}')


async def test_where_a_manifest_names_every_hash_the_split_needs_no_look_at_the_others(tmp_path, make_task):
    tasks = {name: hash_task(make_task(name)) for name in ("one", "two", "three")}
    write_manifest(tmp_path, tasks)
    (first, held), *rest = sorted((digest, name) for name, digest in tasks.items())
    for _, name in rest:
        (tmp_path / "source" / name / "instruction.md").write_text("changed, and not looked at")
    dataset = await HarborDataset.create(SOURCE, base_dir=tmp_path, split="eval", eval_ratio=0.1)
    assert [example.id for example in dataset] == [first] and dataset[0].payload["name"] == held
    with pytest.raises(ValueError, match="does not hold the content"):
        await HarborDataset.create(SOURCE, base_dir=tmp_path, split="train", eval_ratio=0.1)


async def test_a_registry_on_disk_names_tasks_beside_it(tmp_path, make_task):
    make_task("one")
    make_task("two")
    entries = [{"name": name, "path": f"source/{name}"} for name in ("one", "two")]
    registry = [
        {"name": "set", "version": "1.0", "description": "", "tasks": entries[:1]},
        {"name": "set", "version": "2.0", "description": "", "tasks": entries},
    ]
    (tmp_path / "registry.json").write_text(json.dumps(registry))

    async def count(**changes):
        config = DatasetConfig(name="set", registry_path="registry.json", **changes)
        return len(await HarborDataset.create(config, base_dir=tmp_path))

    assert await count() == 2 and await count(version="1.0") == 1
    with pytest.raises(ValueError, match=r"it has 1\.0, 2\.0"):
        await count(version="3")


def commit_all(repository):
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t.example", "-C", str(repository)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "tasks"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()


async def test_tasks_of_a_repository_are_fetched_at_their_commit_once(tmp_path, make_task):
    make_task(under="repository/tasks")
    repository = tmp_path / "repository"
    commit = commit_all(repository)
    task = {"name": "one", "git_url": str(repository), "git_commit_id": commit, "path": "tasks/one"}
    (tmp_path / "registry.json").write_text(json.dumps([{"name": "set", "version": "1", "tasks": [task]}]))
    config = DatasetConfig(name="set", registry_path="registry.json")
    first = await HarborDataset.create(config, base_dir=tmp_path)
    shutil.rmtree(repository)
    again = await HarborDataset.create(config, base_dir=tmp_path)
    assert [e.id for e in first] == [e.id for e in again] == [hash_task(tmp_path / "tasks" / first[0].id)]


async def test_a_repository_that_is_fetched_twice_at_a_time_or_anew_is_there_whole(tmp_path, make_task):
    make_task(under="repository/tasks")
    commit = commit_all(tmp_path / "repository")
    source = sources.TaskSource(
        name="one", path=Path("tasks/one"), git_url=str(tmp_path / "repository"), git_commit_id=commit
    )
    place = tmp_path / "downloads"
    found = await asyncio.gather(*(sources.fetch_tasks([source], place) for _ in range(2)))
    (folder,) = {path for (path,) in found}
    (folder / "instruction.md").write_text("tampered")
    assert await sources.fetch_tasks([source], place, overwrite=True) == [folder]
    assert (folder / "instruction.md").read_text() == "Do one.\n"
    assert len(list(place.iterdir())) == 1


@pytest.mark.parametrize(
    ("rows", "said"),
    [("tasks = 5", "tasks is 5"), ("tasks = [", "no list of Harbor tasks")],
)
async def test_a_manifest_that_is_none_is_told_with_its_file(tmp_path, make_task, rows, said):
    make_task()
    (tmp_path / "source" / "dataset.toml").write_text(rows)
    with pytest.raises(ValueError, match=rf"dataset\.toml .*{said}"):
        await HarborDataset.create(SOURCE, base_dir=tmp_path)


async def test_a_dataset_of_a_registry_has_a_list_of_tasks(tmp_path):
    (tmp_path / "registry.json").write_text(json.dumps([{"name": "set", "version": "1", "tasks": 5}]))
    with pytest.raises(ValueError, match="'set' of the registry has no list of tasks: 5"):
        await HarborDataset.create(
            DatasetConfig(name="set", registry_path="registry.json"), base_dir=tmp_path
        )


@pytest.mark.parametrize(
    "entry", [{"path": "../x"}, {"path": "/x"}, {"path": "x", "git_url": "--upload-pack=evil"}]
)
async def test_an_entry_that_leads_out_of_its_repository_is_refused(tmp_path, entry):
    rows = [{"name": "set", "version": "1", "tasks": [{"git_url": "u", **entry}]}]
    (tmp_path / "registry.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match="leads out of its repository"):
        await HarborDataset.create(
            DatasetConfig(name="set", registry_path="registry.json"), base_dir=tmp_path
        )


async def test_fetching_is_tried_again_after_one_second_and_then_two(monkeypatch):
    waits, tries = [], []

    async def sleep(seconds):
        waits.append(seconds)

    async def work():
        tries.append(1)
        if len(tries) < 3:
            raise ExceptionGroup("down", [OSError()])
        return "there"

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert await sources._retry(work) == "there" and waits == [1.0, 2.0]
    tries.clear()
    tries.append(-100)

    async def always():
        raise ExceptionGroup("down", [OSError()])

    with pytest.raises(ExceptionGroup):
        await sources._retry(always)
    assert waits == [1.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "fields", [{}, {"path": "a", "name": "b"}, {"name": "a", "version": "1", "ref": "2"}, {"pth": "a"}]
)
def test_a_dataset_has_one_source(fields):
    with pytest.raises(ValueError):
        DatasetConfig(**fields)
