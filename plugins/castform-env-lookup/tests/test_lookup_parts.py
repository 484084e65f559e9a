"""What composed environments take from this plugin: questions, two tools, rewards and a rubric."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from castform_env_lookup.config import LookupConfig
from castform_env_lookup.environment import Lookup
from castform_env_lookup.parts import Questions, make_brevity, make_get, make_search
from castform_env_lookup.rewards import correct_reward, used_tool_reward

from castform.plugins import load_environment

HERE = Path(__file__).parent
README = (HERE.parent / "README.md").read_text(encoding="utf-8")


async def test_the_dataset_holds_the_environment_s_questions():
    config = LookupConfig(lookups=2, train_examples=6, eval_examples=4)
    for split, size in (("train", 6), ("eval", 4)):
        rows = Questions(config).create(split, HERE)
        asked = await Lookup(config).create_dataset(split, HERE)
        assert len(rows) == size
        assert [row.id for row in rows] == [example.id for example in asked]
        for row, example in zip(rows, asked, strict=True):
            assert row.payload == {
                **example.payload,
                "question": example.payload["prompt_messages"][-1]["content"],
            }
    assert len(Questions(config).create("train", HERE, max_examples=1)) == 1


def test_the_tools_answer_a_question_of_the_dataset():
    (row,) = Questions(LookupConfig(lookups=1)).create("train", HERE, max_examples=1)
    ((place, column),) = row.payload["cells"]
    assert place in make_search()(place[:5])
    assert make_get()(place, column) == row.payload["ground_truth"]


def test_cells_count_as_lists_too():
    function = {"name": "get", "arguments": json.dumps({"place": "Tamonix", "column": "height"})}
    messages = [{"role": "assistant", "tool_calls": [{"function": function}]}]
    assert used_tool_reward(messages, [["Tamonix", "height"], ["Tamonix", "rain"]]) == 0.5
    assert used_tool_reward(messages, [("Tamonix", "height")]) == 1.0


def test_correct_takes_an_answer_that_is_a_whole_number_as_text_too():
    assert correct_reward("<answer>1,500</answer>", "1500") == 1.0
    with pytest.raises(ValueError, match="many"):
        correct_reward("<answer>1</answer>", "many")


def test_the_rubric_has_three_scores():
    rubric = make_brevity()
    assert rubric.allowed_scores == (0.0, 1.0, 2.0)
    assert [rubric.reward_for(score) for score in (0, 1, 2)] == [0.0, 0.5, 1.0]


async def test_the_toml_of_the_readme_composes(tmp_path):
    (text,) = re.findall(r"^```toml\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "mix.toml").write_text(text)
    environment = load_environment(str(tmp_path / "mix.toml")).environment
    assert list(environment.function_tools) == ["search", "get"]
    assert environment.reward_weights == {"lookup/correct": 1.0, "lookup/used-tool": 0.2}
    assert len(await environment.create_dataset("eval", tmp_path)) == 200
