from __future__ import annotations

import os
from pathlib import Path

import pytest
from castform_env_shell.state import Goal, State, is_reached, read_state, touched_share, write_state
from castform_env_shell.task import Level, key_of
from castform_env_shell.tasks import KINDS, draw_tasks, make_demo, shown_kind

LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")


def draw(split, level, seed, count):
    drawn = draw_tasks(split, level=level, seed=seed)
    return [task for _, (_, _, task) in zip(range(count), drawn, strict=False)]


@pytest.mark.parametrize("level", LEVELS)
def test_no_task_is_both_trained_on_and_held_out_whatever_the_seeds(level: Level) -> None:
    train = {key_of(task) for seed in (0, 1) for task in draw("train", level, seed, 300)}
    held_out = {key_of(task) for seed in (0, 7) for task in draw("eval", level, seed, 60)}
    assert len(held_out) > 60 and not train & held_out


@pytest.mark.parametrize("level", LEVELS)
def test_a_seed_draws_the_same_tasks_and_no_task_twice(level: Level) -> None:
    first, again, other = (draw("train", level, seed, 200) for seed in (3, 3, 4))
    assert first == again and first != other
    assert draw("train", level, 3, 20) == first[:20]
    assert len({key_of(task) for task in first}) == len(first) == 200


def test_all_kinds_come_in_turn() -> None:
    kinds = [maker.__name__ for level in LEVELS for maker in KINDS[level]]
    drawn = draw_tasks("train", level=None, seed=0)
    assert [kind for _, (kind, _, _) in zip(range(2 * len(kinds)), drawn, strict=False)] == kinds * 2


def test_a_solved_example_is_never_asked_and_hard_ones_show_another_kind() -> None:
    for level in LEVELS:
        demos = set()
        for maker in KINDS[level]:
            shown = shown_kind(maker.__name__, level)
            assert (shown == maker.__name__) == (level != "hard")
            demos.add(key_of(make_demo(shown)))
        asked = {key_of(task) for split in ("train", "eval") for task in draw(split, level, 0, 300)}
        assert not demos & asked


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_paid_for_nothing(level: Level) -> None:
    for task in draw("train", level, 5, 100):
        assert not is_reached(task.goal, task.start, task.start)
        assert touched_share(task.goal, task.start, task.start) == 0.0
        assert touched_share(task.goal, task.start, State()) == 0.0


def test_what_was_not_asked_about_must_stay() -> None:
    start = State(files={"a": "1", "b": "2"}, folders=frozenset({"d"}))
    goal = Goal(files={"a": None, "c": "1"})
    done = State(files={"b": "2", "c": "1\n"}, folders=frozenset({"d"}))
    assert is_reached(goal, start, done) and touched_share(goal, start, done) == 1.0
    extra = State(files={**done.files, "temporary": ""}, folders=done.folders)
    assert is_reached(goal, start, extra)
    half = State(files={"b": "2", "c": "9"}, folders=frozenset({"d"}))
    assert not is_reached(goal, start, half) and touched_share(goal, start, half) == 1.0
    deleted = State(files={"b": "2"}, folders=frozenset({"d"}))
    assert not is_reached(goal, start, deleted) and touched_share(goal, start, deleted) == 0.0
    for harm in (
        State(files=done.files, folders=done.folders, executable=frozenset({"b"})),
        State(files={"c": "1"}, folders=frozenset({"d"})),
        State(files={"b": "3", "c": "1"}, folders=frozenset({"d"})),
        State(files={"b": "2", "c": "1"}),
    ):
        assert not is_reached(goal, start, harm) and touched_share(goal, start, harm) == 0.0


@pytest.mark.parametrize(
    ("found", "same"),
    [("7\n", True), ("  7", True), ("7 ", True), ("7\n\n", True), ("77", False), ("7 7", False), ("", False)],
)
def test_blanks_at_the_ends_do_not_count(found: str, same: bool) -> None:
    goal = Goal(files={"n": "7"})
    assert is_reached(goal, State(), State(files={"n": found})) == same


def test_a_state_comes_back_from_its_folder(tmp_path: Path) -> None:
    state = State(
        files={"a.txt": "x\n", "d/e/b.sh": "echo"},
        folders=frozenset({"d", "d/e", "empty"}),
        executable=frozenset({"d/e/b.sh"}),
    )
    write_state(state, tmp_path)
    assert read_state(tmp_path) == state


def test_a_file_that_is_asked_to_be_executable_may_be_and_no_other() -> None:
    start = State(files={"a": "1", "b": "2"})
    goal = Goal(executable=("a",))
    for executable, reached in (({"a"}, True), ({"a", "b"}, False), ({"a", "new"}, True), (set(), False)):
        end = State(files=start.files, executable=frozenset(executable))
        assert is_reached(goal, start, end) == reached == (touched_share(goal, start, end) == 1.0)


def test_links_pipes_and_large_files_are_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("gold")
    task = tmp_path / "task"
    task.mkdir()
    (task / "link").symlink_to(secret)
    (task / "folder").symlink_to(tmp_path)
    os.mkfifo(task / "pipe")
    with (task / "large").open("wb") as file:
        file.truncate(50 << 20)
    (task / "bytes").write_bytes(b"\xff\xfe7")
    state = read_state(task)
    assert not state.folders and set(state.files) == {"bytes"} and state.files["bytes"].endswith("7")
