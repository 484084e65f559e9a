"""docs/composing.md and examples/composed.toml: every TOML loads, the printed parts work, the faults are as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from composing import compose, run

from castform.compose import ComposedEnvironment
from castform.config import load_config
from castform.environments import load_configured
from castform.errors import ConfigError

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "composing.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the page's JSONL file, and its judge's key."""
    (rows,) = blocks("jsonl")
    (tmp_path / "questions.jsonl").write_text(rows)
    monkeypatch.setenv("JUDGE_KEY", "k")
    return tmp_path


@pytest.mark.parametrize("text", blocks("toml"))
async def test_every_toml_of_the_page_composes_and_has_examples(text, folder):
    environment = compose(folder, text).environment
    assert isinstance(environment, ComposedEnvironment)
    splits = [await environment.create_dataset(split, folder) for split in ("train", "eval")]
    assert all(len(split) > 0 for split in splits)
    assert not {e.id for e in splits[0]} & {e.id for e in splits[1]}


def test_the_faults_are_told_as_printed(folder):
    (folder / "questions.jsonl").write_text('{"question": "q", "answer": 1}\n{bad\n')
    text = """
    [environment]
    dataset = "questions.jsonl"
    tools = ["serach/search", "lookup/brevity"]
    prompt = "{question}"
    rewards = [{id = "castform/answer", wieght = 2}]
    """
    with pytest.raises(ConfigError) as caught:
        compose(folder, text)
    told = str(caught.value).replace(f"{folder}/", "")
    if "did you mean 'search'? `castform env list`" in told:  # castform-env-search is installed here
        told = told.replace(
            "`castform env list` shows what is installed", "`pip install castform-env-search` brings it"
        )
    assert f"error: {told}\n" in PAGE


async def test_the_parts_of_the_page_work_as_printed(folder, monkeypatch):
    hooks, parts = blocks("python")
    package = folder / "castform_env_parrot"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "plugin.py").write_text(hooks)
    (package / "parts.py").write_text(parts)
    info = folder / "castform_env_parrot-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: castform-env-parrot\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[castform]\nparrot = castform_env_parrot.plugin\n")
    monkeypatch.syspath_prepend(str(folder))
    text = """
    [environment]
    dataset = "parrot/phrases"
    prompt = "Say: {phrase}"
    tools = ["parrot/count"]
    rewards = { "parrot/same" = 1.0 }
    rubrics = { "parrot/polite" = 0.5 }
    judge = { model = "m", base_url = "http://127.0.0.1:1/v1" }
    """
    compose(folder, text)
    text = re.sub(r"^ *(rubrics|judge) .*$", "", text, flags=re.MULTILINE)
    group = await run(compose(folder, text), ["RIGHT", "no"], split="eval")
    assert [rollout.rewards for rollout in group.rollouts] == [{"parrot/same": 1.0}, {"parrot/same": 0.0}]


def test_the_example_composes_parts_of_three_plugins():
    config = load_config(ROOT / "examples" / "composed.toml")
    loaded = load_configured(config.environment)
    plugins = {part.id.partition("/")[0] for part in loaded.parts}
    assert len(plugins - {"castform"}) >= 3
    assert loaded.environment.reward_weights["castform/answer"] == 0
