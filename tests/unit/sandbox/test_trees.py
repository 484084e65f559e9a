"""Folders that a hostile program wrote are measured and removed whatever their shape."""

from __future__ import annotations

import os
from pathlib import Path

from castform.sandbox.trees import BEYOND_MEASURE, measure_tree, remove_tree

NAME = "d" * 200


def nest(folder: Path, depth: int) -> None:
    """Make folders one in the other, with a file in the last, without ever naming the whole path."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(NAME, dir_fd=at)
        below = os.open(NAME, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at)
    os.write(file, bytes(100_000))
    os.close(file)
    os.close(at)


def test_what_no_path_reaches_counts_as_more_than_any_limit(tmp_path):
    nest(tmp_path, 10)
    assert 100_000 <= measure_tree(tmp_path, set()) < 300_000
    other = tmp_path / "other"
    other.mkdir()
    nest(other, 40)
    assert measure_tree(tmp_path, set()) == BEYOND_MEASURE
    remove_tree(other)


def test_a_file_with_two_names_counts_once(tmp_path):
    (tmp_path / "one").write_bytes(bytes(1 << 20))
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    assert 1 << 20 <= measure_tree(tmp_path, set()) < 3 << 19


def test_a_tree_deeper_than_paths_and_recursion_go_is_removed(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    nest(top, 1050)
    remove_tree(top)
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_not_followed_and_closed_folders_are_opened(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    top = tmp_path / "top"
    (top / "closed" / "inner").mkdir(parents=True)
    (top / "closed" / "inner" / "link").symlink_to(kept)
    (top / "closed" / "inner").chmod(0o555)
    (top / "closed").chmod(0)
    (top / "link").symlink_to(kept)
    remove_tree(top)
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "link").symlink_to(kept)
    remove_tree(tmp_path / "link")
    assert (kept / "file").read_text() == "kept"
