"""Task folders of any shape: files that ignore rules name, rules in every place, links."""

from __future__ import annotations

import random
from pathlib import Path

NAMES = ("a", "b.txt", "c.pyc", "__pycache__", "d~", ".DS_Store", "tests", "x.swp", "notes", ".harborignore")
RULES = (
    *("*.txt", "!b.txt", "a", "a/", "/a", "!a", "notes/", "**/b.txt", "tests/", "!tests/a", "*", "!*/"),
    *("# c", "\\#", "*~", "!c.pyc", "/tests/notes", "steps/", "!notes/a"),
)
FOLDERS = ("environment", "tests", "solution", "steps/s1", "steps/s1/tests", "steps/s2/solution")


def write_random_task(folder: Path, seed: int) -> None:
    """Write a task that is the seed's. Its links stay inside it, and make no circle."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text("")
    (folder / "instruction.md").write_text("Do it.\n")
    for name in FOLDERS:
        if rng.random() < 0.6:
            _fill(folder / name, rng, depth=0)
    if rng.random() < 0.4:
        (folder / ".gitignore").write_text(_make_rules(rng))
    files = sorted(path for path in folder.rglob("*") if path.suffix != ".toml")
    places = [path for path in files if path.is_dir()]
    for number in range(2 if places and rng.random() < 0.4 else 0):
        target, place = rng.choice(files), rng.choice(places)
        if not place.is_relative_to(target):
            (place / f"l{number}").symlink_to(target)


def _fill(folder: Path, rng: random.Random, *, depth: int) -> None:
    if folder.exists() and not folder.is_dir():
        folder.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    for name in rng.sample(NAMES, rng.randint(1, 5)):
        path = folder / name
        if path.is_dir():
            continue
        if name == ".harborignore":
            path.write_text(_make_rules(rng))
        elif rng.random() < 0.4 and depth < 2:
            _fill(path, rng, depth=depth + 1)
        else:
            path.write_text(name)


def _make_rules(rng: random.Random) -> str:
    return "\n".join(rng.choices(RULES, k=rng.randint(1, 4)))
