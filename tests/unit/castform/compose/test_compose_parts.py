"""What factories of parts may return, and what is said of one that returns something else."""

from __future__ import annotations

import re

import pytest
from composing import ROWS, compose, run

from castform.errors import ConfigError, MissingError, UsageError

PLUGIN = """
from castform.plugins import DatasetSpec, RewardSpec, RubricSpec, ToolSpec, hookimpl

HERE = "castform_env_odd"


def spec(kind, name, **more):
    return kind(name=name, summary=f"The {name}", factory=f"{HERE}.parts:{name}", **more)


@hookimpl
def register_datasets():
    yield from (spec(DatasetSpec, name) for name in ("later", "files", "numbers", "nothing", "broken"))


@hookimpl
def register_tools():
    yield from (spec(ToolSpec, name) for name in ("counter", "renamed", "source", "text", "empty", "spaced"))
    yield spec(ToolSpec, "extra", requires=("web",))


@hookimpl
def register_rewards():
    yield spec(RewardSpec, "scaled", config=f"{HERE}.parts:Scale")
    yield spec(RewardSpec, "lacking")


@hookimpl
def register_rubrics():
    yield spec(RubricSpec, "words")
"""
PARTS = '''
from contextlib import asynccontextmanager
from pathlib import Path

from benchmax.envs import Example, FunctionTool
from pydantic import BaseModel, Field


class Later:
    """Rows that come after a while, as mappings."""

    async def create(self, split, base_dir, *, max_examples=None):
        return ({"question": f"{split} {n}", "answer": n} for n in range(3))


later = Later


class Files:
    def create(self, split, base_dir, *, max_examples=None):
        text = (Path(base_dir) / "beside.txt").read_text()
        return [Example(f"{split}-1", {"question": text, "answer": text})]


files = Files


class Numbers:
    def create(self, split, base_dir, *, max_examples=None):
        return [Example("1", 7)]


numbers = Numbers


def nothing():
    return object()


def broken():
    raise OSError("no disk")


def counter(step: int = 1):
    class Counter:
        def __init__(self):
            self.count = 0

        def up(self) -> int:
            """Count on."""
            self.count += step
            return self.count

    return Counter


def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


def renamed():
    return FunctionTool(function=shout, name="call_out")


def spaced():
    return lambda text: text


class Source:
    @asynccontextmanager
    async def open(self, rollout_id, example):
        async def ask() -> str:
            """Return the question."""
            return example.payload["question"]

        yield [FunctionTool(function=ask)]


def source():
    return Source()


def text():
    return "a text"


def empty():
    class Empty:
        pass

    return Empty


def extra():
    return shout


class Scale(BaseModel):
    scale: float = Field(2.0, gt=0)


def scaled(completion: str, ground_truth, scale) -> float:
    return scale * (completion == str(ground_truth))


lacking = "no function"


def words():
    return "no rubric"
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to write TOMLs in, with the plugin `odd` installed."""
    site = tmp_path / "site"
    package = site / "castform_env_odd"
    package.mkdir(parents=True)
    for name, text in (
        ("__init__.py", ""),
        ("plugin.py", PLUGIN),
        ("parts.py", PARTS),
        ("beside.txt", "here"),
    ):
        (package / name).write_text(text)
    info = site / "castform_env_odd-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Name: castform-env-odd\nVersion: 3.1\nProvides-Extra: web\n"
        'Requires-Dist: no-such-web-package; extra == "web"\n'
    )
    (info / "entry_points.txt").write_text("[castform]\nodd = castform_env_odd.plugin\n")
    monkeypatch.syspath_prepend(str(site))
    yield tmp_path
    import sys

    for name in [name for name in sys.modules if name.startswith("castform_env_odd")]:
        del sys.modules[name]


def with_tools(tools):
    return f'[environment]\n{ROWS}\nrewards = ["castform/answer"]\ntools = {tools}\n'


def call(name):
    function = {"name": name, "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def tool_answers(group):
    return [[m["content"] for m in r.messages if m["role"] == "tool"] for r in group.rollouts]


async def test_a_class_has_an_instance_a_rollout_and_a_source_is_opened_for_each(folder):
    text = with_tools('[{id = "odd/counter", args = {step = 2}}, "odd/source", "odd/renamed"]')
    loaded = compose(folder, text)
    turns = [call("up"), call("up"), call("ask"), "done"]
    group = await run(loaded, lambda request: turns[request.index], size=2)
    (first, second) = tool_answers(group)
    assert first[:2] == second[:2] == ["2", "4"]
    assert re.fullmatch(r"1 \+ \d", first[2])


@pytest.mark.parametrize(
    ("tools", "fault"),
    [
        ('["odd/text"]', "tools[0]: odd/text: its factory made str, which is no tool"),
        ('["odd/empty"]', "tools[0]: odd/empty: Empty has no public methods that could be tools"),
        ('["odd/spaced"]', "tools[0]: odd/spaced: a tool cannot be called '<lambda>'"),
        ('["odd/renamed", {id = "arith/calculator", name = "call_out"}]', "tools[1]: arith/calculator and odd/renamed are both called 'call_out'; give one of them a name of its own"),
        ('[{id = "odd/counter", name = "x"}]', "tools[0].name: odd/counter is not a single function, so it cannot be renamed"),
        ('[{id = "odd/renamed", name = "not a name"}]', "tools[0].name: a tool cannot be called 'not a name'"),
        ('[{id = "odd/counter", args = {stpe = 2}}]', "tools[0]: tool 'odd/counter': got an unexpected keyword argument 'stpe' (its arguments are step)"),
    ],
)  # fmt: skip
def test_what_is_no_tool_or_has_no_usable_name_is_a_fault(folder, tools, fault):
    with pytest.raises(ConfigError) as caught:
        compose(folder, with_tools(tools))
    (line,) = str(caught.value).splitlines()[1:]
    assert line.strip().startswith(f"environment.{fault}")


def test_a_part_that_lacks_its_extra_is_missing_and_not_a_wrong_config(folder):
    with pytest.raises(MissingError) as caught:
        compose(folder, with_tools('["odd/extra"]'))
    assert caught.value.exit_code == 3
    assert "(pip install 'castform-env-odd[web]')" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        compose(folder, with_tools('["odd/extra", "odd/text"]'))
    assert len(str(caught.value).splitlines()) == 3


def test_parts_that_break_are_told_with_their_plugin_and_the_others_too(folder):
    text = """
    [environment]
    dataset = "odd/broken"
    eval_dataset = "odd/nothing"
    prompt = "{question}"
    rewards = ["odd/lacking", {id = "odd/scaled", args = {scale = 0}}]
    rubrics = ["odd/words"]
    judge = {model = "m", base_url = "http://127.0.0.1:1/v1"}
    """
    with pytest.raises(ConfigError) as caught:
        compose(folder, text)
    lines = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert lines[0].startswith(
        "environment.dataset: plugin 'odd' from castform-env-odd failed at factory: OSError: no disk ("
    )
    assert lines[1] == "environment.eval_dataset: odd/nothing made object, which has no create()"
    assert lines[2].startswith(
        "environment.rewards[0]: plugin 'odd' from castform-env-odd failed at factory: "
    )
    assert "'no function', which cannot be called" in lines[2]
    assert lines[3].startswith("environment.rewards[1]: 1 wrong argument of reward 'odd/scaled'; scale = 0: ")
    assert lines[4] == "environment.rubrics[0]: odd/words made str, not a benchmax.rewards.Rubric"
    assert len(lines) == 5


async def test_a_dataset_may_be_async_and_a_config_model_checks_the_constants_of_a_reward(folder):
    text = '[environment]\ndataset = "odd/later"\nprompt = "{question}"\nrewards = [{id = "odd/scaled", args = {scale = 3}}]'
    loaded = compose(folder, text)
    assert [
        len(await loaded.environment.create_dataset(s, folder, max_examples=2)) for s in ("train", "eval")
    ] == [2, 2]
    group = await run(loaded, ["RIGHT", "no"], split="eval")
    assert [rollout.score for rollout in group.rollouts] == [3.0, 0.0]
    assert [part.version for part in loaded.parts] == ["3.1", "3.1"]
    assert loaded.environment.part_modules == ("castform_env_odd.parts",)


async def test_a_dataset_of_a_plugin_finds_its_files_beside_its_code(folder):
    text = '[environment]\ndataset = "odd/files"\nprompt = "{question}"\nrewards = ["castform/answer"]'
    (example,) = await compose(folder, text).environment.create_dataset("train", folder)
    assert (example.id, example.payload["question"]) == ("train-1", "here")


async def test_a_dataset_of_something_else_than_mappings_is_told(folder):
    text = '[environment]\ndataset = "odd/numbers"\nprompt = "{question}"\nrewards = ["castform/answer"]'
    with pytest.raises(UsageError, match="odd/numbers holds an Example of int, not mappings or Examples"):
        await compose(folder, text).environment.create_dataset("train", folder)
