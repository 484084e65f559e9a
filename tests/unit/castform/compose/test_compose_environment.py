"""A composed environment runs: prompts, tools and rewards of several plugins, metrics, splits, pins."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from composing import SUMS, compose, run, write

from benchmax.testing import ChatServer, Fault
from castform.compose import ComposedEnvironment
from castform.config import RunConfig, load_config
from castform.environments import load_configured
from castform.plugins.pin_changes import describe_changes

THREE_PLUGINS = """
[environment]
dataset = { id = "lookup/places", args = { lookups = 1, train_examples = 5, eval_examples = 4 } }
tools = ["lookup/get", { id = "arith/calculator", name = "sum_up" }]
prompt = { system = "Use <answer>.", user = "{question}" }
max_turns = 3

[environment.rewards]
"lookup/correct" = 1.0
"lookup/used-tool" = 0.25
"arith/format" = -0.5
"castform/tool-efficiency" = 0
"""


def call(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


async def test_parts_of_three_plugins_make_one_environment(tmp_path):
    loaded = compose(tmp_path, THREE_PLUGINS)
    assert isinstance(loaded.environment, ComposedEnvironment)
    examples = await loaded.environment.create_dataset("train", tmp_path)
    place, column = examples[0].payload["cells"][0]
    truth = examples[0].payload["ground_truth"]

    def play(request):
        if request.session_id.endswith("1"):
            return f"<answer>{truth}</answer>"
        turns = [call("get", place=place, column=column), call("sum_up", first=2, operation="*", second=3)]
        return [*turns, f"<answer>{truth}</answer>"][request.index]

    group = await run(loaded, play, size=2)
    looked, guessed = group.rollouts
    assert looked.rewards == {
        "lookup/correct": 1.0,
        "lookup/used-tool": 1.0,
        "arith/format": 1.0,
        "castform/tool-efficiency": 1.0,
    }
    assert looked.score == 1.0 + 0.25 - 0.5
    assert guessed.rewards["lookup/used-tool"] == 0.0
    assert guessed.score == 1.0 - 0.5
    assert [m["content"] for m in looked.messages if m["role"] == "tool"] == [str(truth), "6"]
    assert looked.messages[0] == {"role": "system", "content": "Use <answer>."}
    assert looked.messages[1]["content"] == examples[0].payload["question"]


async def test_the_weights_of_a_run_win_over_those_of_the_parts(tmp_path):
    path = write(tmp_path, SUMS.replace("= 1.0 }", '= 1.0, "castform/overlap" = 2.0 }'))
    config = load_config(None, ['environment.weights."castform/overlap"=0'], environment__id=str(path))
    config = RunConfig.model_validate(
        {
            "environment": {"id": str(path), "weights": {"castform/overlap": 0.0}},
            **config.model_dump(exclude={"environment"}),
        }
    )
    loaded = load_configured(config.environment)
    assert loaded.environment.reward_weights == {"castform/answer": 1.0, "castform/overlap": 0.0}
    group = await run(loaded, ["<answer>RIGHT</answer>"], weights=config.environment.weights)
    assert group.rollouts[0].rewards == {"castform/answer": 1.0, "castform/overlap": 1.0}
    assert group.rollouts[0].score == 1.0
    assert loaded.pin == load_configured(RunConfig(environment={"id": str(path)}).environment).pin


RAISING = """
import asyncio


def raises(completion: str):
    raise RuntimeError("broken " + completion)


def not_finite(completion):
    return float("inf")
"""


@pytest.fixture
def broken_rewards(monkeypatch, tmp_path):
    """Put the rewards of RAISING in the place of two of castform's own."""
    (tmp_path / "broken_rewards_of_a_test.py").write_text(RAISING)
    monkeypatch.syspath_prepend(str(tmp_path))
    import castform.compose.parts as parts

    load = parts.load_factory
    names = {"overlap": "raises", "tool-efficiency": "not_finite"}

    def load_broken(plugin, spec):
        import broken_rewards_of_a_test

        return (
            getattr(broken_rewards_of_a_test, names[spec.name]) if spec.name in names else load(plugin, spec)
        )

    monkeypatch.setattr(parts, "load_factory", load_broken)


async def test_whatever_a_metric_does_the_score_stays(tmp_path, broken_rewards):
    metrics = '= 1.0, "castform/overlap" = 0, "castform/tool-efficiency" = 0.0 }'
    group = await run(compose(tmp_path, SUMS.replace("= 1.0 }", metrics)), ["RIGHT", "7"])
    assert [rollout.score for rollout in group.rollouts] == [1.0, 0.0]
    assert [dict(rollout.rewards) for rollout in group.rollouts] == [
        {"castform/answer": 1.0},
        {"castform/answer": 0.0},
    ]
    assert {rollout.termination_reason for rollout in group.rollouts} == {"finished"}


async def test_a_reward_with_a_weight_that_raises_costs_its_rollout_the_score(tmp_path, broken_rewards):
    group = await run(
        compose(tmp_path, SUMS.replace("= 1.0 }", '= 1.0, "castform/overlap" = 0.1 }')), ["what I say"]
    )
    (rollout,) = group.rollouts
    assert (rollout.score, rollout.termination_reason) == (None, "reward_error")
    assert rollout.error == "castform/overlap: RuntimeError: broken what I say"


async def test_a_solved_example_in_the_prompt_is_no_part_of_the_completion(tmp_path):
    text = SUMS.replace(
        'prompt = "What is {question}?"',
        'prompt = [{role = "user", content = "1?"}, {role = "assistant", content = "<tool_call> <tool_call> <tool_call> <tool_call>"}, {role = "user", content = "{question}"}]',
    ).replace("= 1.0 }", '= 1.0, "castform/tool-efficiency" = 1.0 }')
    group = await run(compose(tmp_path, text), ["RIGHT"])
    assert group.rollouts[0].rewards == {"castform/answer": 1.0, "castform/tool-efficiency": 1.0}


async def test_gold_is_the_row_s_and_reaches_rewards_as_ground_truth(tmp_path):
    text = SUMS.replace("answer =", "solution =").replace("rewards", 'gold = "solution"\nrewards')
    loaded = compose(tmp_path, text)
    examples = await loaded.environment.create_dataset("train", tmp_path)
    assert loaded.environment.gold(examples[0]) == examples[0].payload["solution"]
    group = await run(loaded, [str(examples[0].payload["solution"]), "9"])
    assert [rollout.score for rollout in group.rollouts] == [1.0, 0.0]


async def test_rows_hold_braces_and_json_without_harm(tmp_path):
    row = {"question": 'print("{answer} {{x}} {0}")', "answer": '{"a": "{question}"}'}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + '\n{"question": "b", "answer": "c"}\n')
    text = '[environment]\ndataset = "rows.jsonl"\nprompt = "Q {question}"\nrewards = ["castform/answer"]'
    loaded = compose(tmp_path, text)
    shown = [
        example.payload["prompt_messages"][0]["content"]
        for split in ("train", "eval")
        for example in await loaded.environment.create_dataset(split, tmp_path)
    ]
    assert sorted(shown) == ["Q b", f"Q {row['question']}"]


async def test_splits_are_the_plugin_s_or_a_share_or_a_second_file(tmp_path):
    async def sizes(text):
        environment = compose(
            tmp_path, f'[environment]\nrewards = ["castform/tool-efficiency"]\n{text}'
        ).environment
        splits = [await environment.create_dataset(split, tmp_path) for split in ("train", "eval")]
        assert not {e.id for e in splits[0]} & {e.id for e in splits[1]}
        return [len(split) for split in splits]

    add = 'dataset = {id = "arith/add", args = {train_examples = 30, eval_examples = 7}}'
    assert await sizes(add) == [30, 7]
    train, held = await sizes(f"{add}\nheld_out = 0.5")
    assert train + held == 30 and min(train, held) > 5
    assert await sizes(f'{add}\neval_dataset = {{id = "lookup/places", args = {{eval_examples = 3}}}}') == [
        30,
        3,
    ]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_text("\n".join(f'{{"q": {n}}}' for n in range(50)))
    (tmp_path / "b.jsonl").write_text('{"q": 50}\n{"q": 51}')
    rows = 'prompt = "{q}"\ndataset = "sub/a.jsonl"'
    train, held = await sizes(rows)
    assert train + held == 50 and 4 <= held <= 16
    assert await sizes(f'{rows}\neval_dataset = "b.jsonl"') == [50, 2]


async def test_at_most_max_examples_come_and_they_are_the_first(tmp_path):
    environment = compose(tmp_path, SUMS).environment
    whole = await environment.create_dataset("train", tmp_path)
    assert list(await environment.create_dataset("train", tmp_path, max_examples=1)) == list(whole)[:1]
    with pytest.raises(ValueError, match="positive"):
        await environment.create_dataset("train", tmp_path, max_examples=0)


def test_turns_and_limits_have_defaults_that_fit(tmp_path):
    environment = compose(tmp_path, SUMS).environment
    assert (environment.max_turns, environment.max_tool_calls, environment.tool_timeout_seconds) == (
        1,
        None,
        60.0,
    )
    environment = compose(
        tmp_path, SUMS.replace("rewards", 'tools = ["arith/calculator"]\nmax_tool_calls = 0\nrewards')
    ).environment
    assert (environment.max_turns, environment.max_tool_calls, environment.parallel_tool_calls) == (
        8,
        0,
        False,
    )


def test_a_composed_environment_and_its_judge_pickle_without_the_key(tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY_OF_A_TEST", "secret-2")
    judge = '[environment.judge]\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\napi_key_env = "JUDGE_KEY_OF_A_TEST"'
    data = pickle.dumps(compose(tmp_path, f'{SUMS}rubrics = ["lookup/brevity"]\n{judge}').environment)
    assert b"secret-2" not in data
    assert pickle.loads(data).reward_weights == {"castform/answer": 1.0, "lookup/brevity": 1.0}


async def test_rubrics_ask_the_judge_and_a_judge_that_is_down_costs_a_metric_only_itself(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("JUDGE_KEY_OF_A_TEST", "secret-3")
    text = (
        SUMS
        + """
    [[environment.rubrics]]
    id = "lookup/brevity"
    weight = 0.5
    [[environment.rubrics]]
    text = "Gives a reason for the number."
    title = "Reason"
    weight = {weight}
    [environment.judge]
    model = "judge"
    base_url = "{url}"
    api_key_env = "JUDGE_KEY_OF_A_TEST"
    """
    )
    prompts = []

    def judge(request):
        prompts.append(json.dumps(request.body["messages"]))
        if "Gives a reason" in prompts[-1]:
            return Fault(status=400)
        return json.dumps({"score": 1, "reasoning": "r"})

    async with ChatServer(judge) as server:
        metric = text.replace("{weight}", "0").replace("{url}", server.base_url)
        (rollout,) = (await run(compose(tmp_path, metric), ["RIGHT"])).rollouts
        assert rollout.rewards == {"castform/answer": 1.0, "lookup/brevity": 0.5}
        assert rollout.score == 1.0 + 0.5 * 0.5
        weighed = text.replace("{weight}", "0.1").replace("{url}", server.base_url)
        (rollout,) = (await run(compose(tmp_path, weighed), ["RIGHT"])).rollouts
        assert (rollout.score, rollout.termination_reason) == (None, "judge_error")
        assert rollout.error.startswith("rubric_reason: ")
        assert all("What is 1 + " in prompt for prompt in prompts)
        assert {r.headers["Authorization"] for r in server.requests} == {"Bearer secret-3"}


def test_a_run_s_config_with_parts_composes_and_comes_back_from_the_store_the_same(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"question": "1", "answer": 1}\n{"question": "2", "answer": 2}\n')
    text = '[environment]\ndataset = "rows.jsonl"\nprompt = "{question}"\nrewards = { "castform/answer" = 1 }\n[run]\nsteps = 3'
    config = load_config(write(tmp_path, text, "run.toml"), ["environment.max_turns=2"])
    assert config.environment.base_dir == tmp_path
    stored = RunConfig.model_validate(json.loads(json.dumps(config.model_dump(mode="json"))))
    assert stored.model_dump() == config.model_dump()
    first, second = load_configured(config.environment), load_configured(stored.environment)
    assert (first.id, first.environment.max_turns) == ("composed", 2)
    assert first.pin == second.pin and first.pin.digest() == second.pin.digest()
    assert str(tmp_path) not in json.dumps(first.pin.as_dict())


def test_a_toml_as_the_environment_gives_the_other_settings_too(tmp_path):
    path = write(tmp_path, SUMS + "[run]\nsteps = 3\n")
    config = load_config(None, ["environment.max_turns=2", "run.seed=5"], environment__id=str(path))
    assert (config.run.steps, config.run.seed, config.environment.id) == (3, 5, str(path))
    assert config.environment.args == {"max_turns": 2}
    assert load_configured(config.environment).environment.max_turns == 2
    path = write(tmp_path, '[environment]\nid = "arith/add"\n[run]\nsteps = 4\n', "named.toml")
    config = load_config(None, environment__id=str(path))
    assert (config.environment.id, config.run.steps) == ("arith/add", 4)


def test_the_pin_names_a_part_a_file_and_a_key_that_changed(tmp_path, monkeypatch):
    (tmp_path / "rows.jsonl").write_text('{"question": "1", "answer": 1}\n{"question": "2", "answer": 2}\n')
    text = '[environment]\ndataset = "rows.jsonl"\nprompt = "{question}"\nrewards = { "castform/answer" = 1, "arith/format" = 0.5 }'
    first = compose(tmp_path, text).pin
    assert (first.id, first.distribution, first.version) == ("mix.toml", "", "")
    assert sorted(first.details.files)[:1] == ["[environment]"]
    assert [name.split(" ")[0] for name in first.details.files] == [
        "[environment]",
        "rows.jsonl",
        "castform",
        "castform-env-arith",
    ]
    again = compose(tmp_path, "# a comment\n" + text + "\n[run]\nsteps = 9").pin
    assert describe_changes(first.as_dict(), again, details=first.details.as_dict()) == []
    assert again.digest() == first.digest()

    (tmp_path / "rows.jsonl").write_text('{"question": "1", "answer": 1}\n{"question": "3", "answer": 3}\n')
    changed = compose(tmp_path, text.replace("0.5", "0.25")).pin
    lines = describe_changes(first.as_dict(), changed, details=first.details.as_dict())
    assert lines[0] == "files: changed [environment], rows.jsonl"
    assert lines[1].startswith('argument rewards: [{"id": "castform/answer"')
    assert lines[1].endswith('{"id": "arith/format", "weight": 0.25}]')

    import castform.compose.parts as parts

    content = parts.hash_files
    monkeypatch.setattr(
        parts,
        "hash_files",
        lambda root: {**content(root), **({"new.py": "0"} if "arith" in str(root) else {})},
    )
    other = compose(tmp_path, text.replace("0.5", "0.25")).pin
    (line,) = describe_changes(changed.as_dict(), other, details=changed.details.as_dict())
    assert line == "files: changed castform-env-arith 0.1.0 (arith/format)"


def test_paths_start_at_the_toml_wherever_the_command_runs(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.jsonl").write_text(
        '{"question": "1", "answer": 1}\n{"question": "2", "answer": 2}\n'
    )
    (tmp_path / "conf").mkdir()
    write(
        tmp_path / "conf",
        '[environment]\ndataset = "../data/rows.jsonl"\nprompt = "{question}"\nrewards = ["castform/answer"]',
    )
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("conf/mix.toml"))
    assert len(load_configured(config.environment).environment.composition.source.rows) == 2
