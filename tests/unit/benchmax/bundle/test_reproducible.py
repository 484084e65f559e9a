"""The same project gives the same bytes: in any process, with any hash seed, in any folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmax.bundle import read_bundle

TANGLED = '''
"""Everything that pickles usually write in another order, or with a path, from process to process."""
import enum
import functools
import logging
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import pydantic

from benchmax.envs import Dataset, Environment, Example, RolloutAttempt

from tangled import circular
from tangled.circular import Color

T = TypeVar("T")
LOG = logging.getLogger("tangled")
PATTERN = re.compile("a+b", re.IGNORECASE)
DATA = Path(__file__).parent / "words.txt"
NESTED = {("a", frozenset({"x", "y", "z"})), ("b", frozenset({"p", "q", "r"})), ("c", frozenset())}
WORDS = {"alpha", "beta", "gamma", "delta", "epsilon"}


class Shape(ABC):
    @abstractmethod
    def area(self): ...


class Left: ...
class Middle: ...
class Right: ...


for kind in (Left, Middle, Right):
    Shape.register(kind)


@dataclass(frozen=True)
class Rule(Generic[T]):
    words: frozenset = frozenset({"one", "two", "three", "four"})
    weight: float = 0.5
    extra: dict = field(default_factory=dict)


class Inner(pydantic.BaseModel):
    kind: str = "in"
    children: list["Inner"] = []


class Config(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    inner: Inner = Inner()
    others: dict[str, Inner] = {}
    pay: float = pydantic.Field(default=0.5, gt=0)


def make_counter():
    seen = {"first", "second", "third"}

    class Counter:
        names = {"n1", "n2", "n3", "n4"}

        def count(self):
            return len(seen | self.names)

    return Counter


Counter, OtherCounter = make_counter(), make_counter()


class Tangled(Environment):
    kinds = {Left, Middle, Right}
    colors = {Color.RED, Color.GREEN, Color.BLUE}
    rule = Rule()
    config = Config(others={"a": Inner(children=[Inner()])})
    first_match = functools.partial(re.search, "a+b")

    def __init__(self, tags=()):
        self.tags = tags
        self.counters = [Counter(), OtherCounter()]

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        words = (Path(__file__).parent / "words.txt").read_text().split()
        return Dataset([Example(word, {"answer": word, "same": DATA.read_text().split()}) for word in words])

    async def run_rollout(self, request):
        LOG.info("one")
        ok = request.example.id in {"red", "green", "blue", "black"} and circular.known(request.example.id)
        return RolloutAttempt(
            rollout_id=request.rollout_id,
            termination_reason="finished",
            rewards={"ok": float(ok), "n": float(sum(c.count() for c in self.counters)), "k": float(len(NESTED))},
        )

    def make_config(self, pay):
        return Config(pay=pay, inner=self.config.others["a"])

    def __len__(self):
        return len(WORDS) + len(self.kinds) + bool(PATTERN.search("AAB"))
'''
CIRCULAR = """
import enum

import tangled
from tangled import helper


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


def known(text):
    return helper.size(text) > 0 and text in {color.value for color in Color}
"""
HELPER = """
from tangled import circular


def size(text):
    return len(text) if circular.Color else 0
"""
DUMP = """
import sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
if sys.argv[2] == "noisy":
    import concurrent.futures, http.client, unittest, xml.dom.minidom  # what else is imported must not matter
from benchmax.bundle import dump_bundle, write_bundle
from tangled.environment import Tangled
bundle = dump_bundle(
    Tangled,
    constructor_args={"tags": {"t1", "t2", "t3", "t4", "t5"}},
    pip_dependencies=["b", "a"],
    data_files=["src/tangled/words.txt"],
)
print(write_bundle(bundle, Path(sys.argv[1])))
"""
USE = """
import asyncio, json, sys
from pathlib import Path
from benchmax.bundle import load_bundle, read_bundle
from benchmax.envs import RolloutRequest, StaticBearerAuth
bundle = read_bundle(Path(sys.argv[1]))
folder = Path(sys.argv[2])
environment = load_bundle(bundle, data_folder=folder)
examples = list(asyncio.run(environment.create_dataset("train", folder / bundle.data.base)))
request = RolloutRequest("r", examples[0], "m", "http://127.0.0.1:9/v1", StaticBearerAuth("k"))
attempt = asyncio.run(environment.run_rollout(request))
cls = type(environment)
print(json.dumps([
    [e.id for e in examples], examples[0].payload["same"], dict(attempt.rewards), len(environment),
    sorted(environment.tags), sorted(kind.__name__ for kind in cls.kinds), sorted(c.name for c in cls.colors),
    cls.rule.weight, environment.make_config(2).model_dump()["inner"], bundle.data.base, "tangled" in sys.modules,
]))
"""


def write_project(folder: Path) -> Path:
    package = folder / "src" / "tangled"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "tangled"\n')
    (package / "__init__.py").write_text("")
    (package / "environment.py").write_text(TANGLED)
    (package / "circular.py").write_text(CIRCULAR)
    (package / "helper.py").write_text(HELPER)
    (package / "words.txt").write_text("red\nblue\n")
    return folder


def run_python(code: str, *words: str | Path, cwd: Path, path: Path | None = None, seed: str = "0") -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env |= {"PYTHONHASHSEED": seed} | ({} if path is None else {"PYTHONPATH": str(path)})
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five bundles of one project: two checkouts, four hash seeds, with and without cached bytecode."""
    home = tmp_path_factory.mktemp("reproducible")
    one, other = write_project(home / "one"), write_project(home / "a longer name" / "other")
    made = []
    for number, (project, seed, noise) in enumerate(
        [(one, "0", ""), (one, "1", "noisy"), (other, "2", ""), (other, "random", ""), (one, "7", "")]
    ):
        out = home / f"{number}.castform-bundle"
        run_python(DUMP, out, noise, cwd=home if number % 2 else project, path=project / "src", seed=seed)
        made.append(out)
    return made


def test_every_process_and_every_folder_gives_the_same_bytes(bundles: list[Path]) -> None:
    assert len({bundle.read_bytes() for bundle in bundles}) == 1


def test_no_folder_of_this_machine_is_in_the_bytes(bundles: list[Path]) -> None:
    content = bundles[0].read_bytes()
    assert b"reproducible" not in content
    assert b"site-packages" not in content
    assert str(Path.home()).encode() + b"/" not in content


def test_what_was_sorted_still_works(bundles: list[Path], tmp_path: Path) -> None:
    cwd = tmp_path / "elsewhere"
    cwd.mkdir()
    said = json.loads(run_python(USE, bundles[2], tmp_path / "data", cwd=cwd, seed="5"))
    assert said == [
        ["red", "blue"],
        ["red", "blue"],
        {"ok": 1.0, "n": 14.0, "k": 3.0},
        9,
        ["t1", "t2", "t3", "t4", "t5"],
        ["Left", "Middle", "Right"],
        ["BLUE", "GREEN", "RED"],
        0.5,
        {"kind": "in", "children": [{"kind": "in", "children": []}]},
        "src/tangled",
        False,
    ]


def test_two_loaded_bundles_do_not_share_classes_unless_they_are_the_same(
    bundles: list[Path], tmp_path: Path
) -> None:
    changed = write_project(tmp_path / "changed")
    source = changed / "src" / "tangled" / "environment.py"
    source.write_text(TANGLED.replace("weight: float = 0.5", "weight: float = 0.25"))
    out = tmp_path / "changed.castform-bundle"
    run_python(DUMP, out, "", cwd=tmp_path, path=changed / "src")
    assert read_bundle(out).pickled != read_bundle(bundles[0]).pickled
    said = run_python(
        """
import sys
from pathlib import Path
from benchmax.bundle import load_bundle, read_bundle
one, two, again = (
    load_bundle(read_bundle(Path(name)), instantiate=False, data_folder=Path(sys.argv[3]) / str(n))[0]
    for n, name in enumerate([sys.argv[1], sys.argv[2], sys.argv[1]])
)
print(one is two, one is again, one.rule.weight, two.rule.weight)
""",
        bundles[0],
        out,
        tmp_path / "data",
        cwd=tmp_path,
    )
    assert said.split() == ["False", "True", "0.5", "0.25"]
