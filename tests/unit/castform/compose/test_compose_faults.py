"""What is wrong with a composed environment is told all at once, each fault with its place in the TOML."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from composing import ROWS, SUMS, compose, write

from castform.compose.terms import read_signature
from castform.errors import ConfigError, UsageError
from castform.plugins import load_environment
from castform.plugins.known import KNOWN_PLUGINS


def faults_of(folder, text, args=None):
    with pytest.raises(ConfigError) as caught:
        compose(folder, text, args)
    assert caught.value.exit_code == 2
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def faults_of_rewards(folder, rewards):
    return faults_of(folder, f"[environment]\n{ROWS}\n{rewards}")


def test_faults_of_form_and_of_parts_come_together_with_their_places(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"question": "q", "answer": 1}\n{bad\n')
    text = """
    [environment]
    dataset = "rows.jsonl"
    tools = ["arith/calcuator", "lookup/brevity", {id = "lookup/get", nme = "x"}, "lookup/get", "lookup/get"]
    prompt = "What is {question} {}?"
    max_turn = 2
    held_out = 1.5
    [environment.rewards]
    "castform/answr" = 1.0
    "arith/correct" = nan
    "nowhere/x" = 2
    [[environment.rubrics]]
    text = "short"
    polarity = "bad"
    [sampling]
    max_new_toknes = 2
    """
    found = faults_of(tmp_path, text)
    assert found[:6] == [
        "environment.held_out = 1.5: Input should be less than 1",
        "environment.tools[2].nme: unknown key; did you mean 'name'?",
        'environment.rewards."arith/correct".weight = nan: Input should be a finite number',
        "environment.rubrics[0].polarity = 'bad': Input should be 'positive' or 'negative'",
        "environment.max_turn: unknown key; did you mean 'max_turns'?",
        "sampling.max_new_toknes: unknown key; did you mean 'max_new_tokens'?",
    ]
    assert found[6].startswith("environment.dataset: rows.jsonl:2 is not JSON: ")
    assert found[7].startswith("environment.prompt: the user message: '{}' at character 20 is not a field")
    assert found[8:11] == [
        "environment.tools[0]: plugin 'arith' has no tool called 'calcuator' (did you mean 'arith/calculator'?)",
        "environment.tools[1]: lookup/brevity is a rubric, not a tool",
        "environment.tools[4]: lookup/get and lookup/get are both called 'get'; give one of them a name of its own",
    ]
    assert found[11] == (
        "environment.rewards.\"castform/answr\": plugin 'castform' has no reward called 'answr' "
        "(did you mean 'castform/answer'?)"
    )
    assert found[12].startswith("environment.rewards.\"nowhere/x\": no plugin called 'nowhere' (installed: ")
    assert len(found) == 13


@pytest.mark.parametrize(
    ("id", "advice"),
    [
        ("openenv/x", "(`pip install castform-env-openenv` brings it)"),
        ("opnenv/x", "(did you mean 'openenv'? `pip install castform-env-openenv` brings it)"),
        ("arit/correct", "(did you mean 'arith'? `castform env list` shows what is installed)"),
    ],
)
def test_a_missing_plugin_is_told_by_how_to_get_it(tmp_path, monkeypatch, id, advice):
    monkeypatch.setattr("castform.plugins.loader.list_installed", _without_openenv())
    (fault,) = faults_of_rewards(tmp_path, f'rewards = ["{id}"]')
    assert fault == f"environment.rewards[0]: no plugin called {id.partition('/')[0]!r} {advice}"


def test_the_plugins_that_are_told_of_are_those_of_this_repository():
    folders = (Path(__file__).parents[4] / "plugins").glob("castform-env-*")
    assert set(KNOWN_PLUGINS) == {folder.name.removeprefix("castform-env-") for folder in folders}


def test_an_environment_of_a_plugin_that_is_not_installed_is_told_by_how_to_get_it(monkeypatch):
    monkeypatch.setattr("castform.plugins.loader.list_installed", _without_openenv())
    with pytest.raises(UsageError) as caught:
        load_environment("openenv/echo")
    assert caught.value.hint == "`pip install castform-env-openenv` brings it"


def _without_openenv():
    from castform.plugins import catalog

    listing = catalog.list_installed

    def list_others(path=None):
        return [entry for entry in listing(path) if entry.name in ("arith", "lookup", "castform")]

    return list_others


@pytest.mark.parametrize(
    ("rewards", "fault"),
    [
        ("", "environment.rewards: are not there, and no rubrics either, so nothing would ever be paid"),
        (
            'rewards = { "castform/answer" = 0 }',
            "environment.rewards: all have the weight 0: metrics alone make no score",
        ),
        (
            'rewards = { "castform/answer" = true }',
            'environment.rewards."castform/answer".weight: must be a number, not true or false',
        ),
        (
            'rewards = { "castform/answer" = inf }',
            'environment.rewards."castform/answer".weight = inf: Input should be a finite number',
        ),
        (
            'rewards = ["castform/answer", "castform/answer"]',
            "environment.rewards[1]: another component is called 'castform/answer' too; give this one a name",
        ),
        (
            'rewards = ["arith/calculator"]',
            "environment.rewards[0]: arith/calculator is a tool, not a reward",
        ),
        ('rewards = ["arith/add"]', "environment.rewards[0]: arith/add is an environment, not a reward"),
        (
            'rewards = ["a b/c"]',
            "environment.rewards[0]: 'a b/c' is not an id (an id is plugin, plugin/environment, owner/plugin or owner/plugin/environment, each with an optional @version, or a path to a Python file)",
        ),
        (
            'rewards = [{id = "castform/answer", args = {kind = 1}}]',
            "environment.rewards[0]: castform/answer: args.kind: the function has no such parameter; it has ground_truth, options, answer_kind, ignore_articles",
        ),
        (
            'rewards = [{id = "castform/answer", at = "x"}]',
            "environment.rewards: rewards[0]: unknown key 'at'",
        ),
        (
            'rewards = ["castform/answer"]\nweights = {answer = 2.0}',
            "environment.weights.\"answer\": no component is called that; there are 'castform/answer'",
        ),
        (
            'rewards = ["castform/answer"]\nweights = {"castform/anser" = 2.0}',
            "environment.weights.\"castform/anser\": no component is called that; did you mean 'castform/answer'?",
        ),
        (
            'rewards = ["castform/answer"]\neval_dataset = "arith/add"\nheld_out = 0.5',
            "environment.held_out: is for a dataset that is split; eval_dataset is there already",
        ),
        (
            'rewards = ["castform/answer"]\nrubrics = ["lookup/brevity"]',
            "environment.judge: is not there, and rubrics need one: model, base_url, api_key_env",
        ),
        (
            'rewards = ["castform/answer"]\nargs = {a = 1}',
            "environment.args are for an id; a part has args of its own",
        ),
        (
            'rewards = ["castform/answer"]\nid = "arith/add"',
            "environment has the id 'arith/add' and dataset and prompt and rewards: give an id, or parts",
        ),
        (
            'rewards = ["castform/answer"]\ngold = "anwser"',
            "environment.dataset: row 1 has no field 'anwser' (it has 'question', 'answer'; did you mean 'answer'?); gold names it (and 2 more rows)",
        ),
        (
            'rewards = [{id = "lookup/used-tool", name = "used"}, "castform/answer"]',
            "environment.dataset: row 1 has no field 'cells' (it has 'question', 'answer'); used needs it (and 2 more rows)",
        ),
        (
            'rewards = [{id = "castform/answer", fields = {ground_truth = "solution"}}]',
            "environment.dataset: row 1 has no field 'solution' (it has 'question', 'answer'; did you mean 'question'?); castform/answer needs it as 'ground_truth' (and 2 more rows)",
        ),
    ],
)
def test_one_fault_is_one_line_at_its_place(tmp_path, rewards, fault):
    assert faults_of_rewards(tmp_path, rewards) == [fault]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('dataset = "gone.jsonl"', "environment.dataset: the file gone.jsonl does not exist; a relative path starts at "),
        ('dataset = "rows.csv"', "environment.dataset: rows.csv is not a JSONL file (.jsonl), one JSON object a line"),
        ('dataset = "empty.jsonl"', "environment.dataset: the file empty.jsonl has no rows"),
        ("dataset = []", "environment.dataset: it has no rows"),
        ('dataset = [{question = "one"}]', "environment.dataset: dataset has only one prompt, so none can be held out; give more rows or an eval_dataset"),
        ('dataset = [{question = "one"}, {answer = 2}]', "environment.dataset: row 2 has no field 'question' (it has 'answer'); the prompt shows {question}"),
        ('dataset = {id = "arith/add", args = {sed = 1, train_examples = 0}}', "environment.dataset: 2 wrong arguments of dataset 'arith/add'; train_examples = 0: Input should be greater than or equal to 1; sed: unknown argument (its arguments are seed, train_examples, eval_examples, solved_examples)"),
        ('dataset = {id = "arith/add", path = "a.jsonl"}', "environment.dataset: give one of id, path and rows, not id and path"),
        ('dataset = "arith/calculator"', "environment.dataset: arith/calculator is a tool, not a dataset"),
        ("dataset = 3", "environment.dataset = 3: Input should be a valid dictionary or instance of DatasetPart"),
        ('tools = ["castform/answer"]', "environment.tools[0]: castform/answer is a reward, not a tool"),
        ('prompt = {system = "s"}', "environment.prompt: the prompt has no user message"),
        ('prompt = {usr = "s"}', "environment.prompt: unknown key 'usr'; a prompt has system and user, or is a list of messages"),
        ('prompt = [{role = "tool", content = "s"}]', "environment.prompt[0].role = 'tool': Input should be 'system', 'user' or 'assistant'"),
        ('[environment.judge]\nmodel = "m"', "environment.judge.base_url: is required"),
    ],
)  # fmt: skip
def test_faults_of_data_tools_and_prompt(tmp_path, text, fault):
    (tmp_path / "empty.jsonl").write_text("\n")
    keys = {line.partition(" ")[0] for line in text.splitlines()}
    rest = ['rewards = { "castform/tool-efficiency" = 1.0 }']
    rest += ['dataset = [{question = "1"}, {question = "2"}]'] if "dataset" not in keys else []
    rest += ['prompt = "{question}"'] if "prompt" not in keys else []
    (found,) = faults_of(tmp_path, "\n".join(["[environment]", *rest, text]))
    assert found.startswith(fault)


def test_held_out_rows_may_not_be_training_rows(tmp_path):
    (tmp_path / "held.jsonl").write_text(
        '{"question": "9", "answer": 9}\n{"answer": 2, "question": "1 + 1"}\n'
    )
    (fault,) = faults_of_rewards(tmp_path, 'rewards = ["castform/answer"]\neval_dataset = "held.jsonl"')
    assert fault == "environment.eval_dataset: held.jsonl:2 is row 1 too, so it would not be held out"


def test_a_slip_in_a_plugin_s_name_is_not_taken_for_the_owner_of_a_plugin(tmp_path):
    (fault,) = faults_of_rewards(tmp_path, 'rewards = ["arit/lookup"]')
    assert fault.startswith("environment.rewards[0]: no plugin called 'arit' (did you mean 'arith'?")
    loaded = compose(tmp_path, f'[environment]\n{ROWS}\nrewards = ["someone/castform/answer"]')
    assert list(loaded.environment.reward_weights) == ["castform/answer"]


async def test_rows_of_a_plugin_are_checked_when_they_are_loaded_before_anything_runs(tmp_path):
    text = '[environment]\ndataset = "arith/add"\nprompt = "{qestion}"\nrewards = ["lookup/used-tool"]'
    loaded = compose(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        await loaded.environment.create_dataset("train", tmp_path, max_examples=3)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"the rows of arith/add do not fit {tmp_path / 'mix.toml'}:"
    assert lines[1].startswith("  example '")
    assert "; did you mean 'question'?); the prompt shows {qestion} (and 2 more rows)" in lines[1]
    assert "has no field 'cells' (it has " in lines[2] and "); lookup/used-tool needs it" in lines[2]
    assert len(lines) == 3


def test_a_toml_without_an_environment_or_with_another_toml_in_it_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"has no \[environment\]"):
        compose(tmp_path, "[run]\nsteps = 1")
    with pytest.raises(UsageError, match="another TOML"):
        compose(tmp_path, '[environment]\nid = "other.toml"')
    with pytest.raises(ConfigError, match=r"gone\.toml: No such file"):
        load_environment(str(tmp_path / "gone.toml"))
    with pytest.raises(ConfigError, match="is not valid TOML"):
        compose(tmp_path, "[environment")


def test_a_toml_with_an_id_is_that_environment(tmp_path):
    loaded = compose(tmp_path, '[environment]\nid = "arith/add"\nargs = {seed = 2}', {"eval_examples": 3})
    assert (loaded.id, loaded.pin.args["seed"], loaded.pin.args["eval_examples"]) == ("arith/add", 2, 3)


def test_a_key_of_a_composed_environment_says_nothing_beside_an_id(tmp_path):
    (fault,) = faults_of(tmp_path, '[environment]\nid = "arith/add"\nmax_turns = 2')
    assert fault.startswith("environment.max_turns is for an environment that is made of parts; 'arith/add'")


def test_arguments_replace_keys_of_the_section_and_dots_lead_further_in(tmp_path):
    args = {"max_turns": 3, "prompt": "Say {question}", "summary": "new"}
    loaded = compose(tmp_path, SUMS, args)
    assert (loaded.environment.max_turns, loaded.summary) == (3, "new")
    text = SUMS.replace('prompt = "What is {question}?"', 'prompt = {user = "{question}", system = "s"}')
    loaded = compose(tmp_path, text, {"prompt.user": "{answer}"})
    assert loaded.pin.args["prompt"][1] == {"role": "user", "content": "{answer}"}
    assert faults_of(tmp_path, SUMS, {"max_turn": 1}) == [
        "environment.max_turn: unknown key; did you mean 'max_turns'?"
    ]
    assert write(tmp_path, SUMS).name == "mix.toml"


def test_an_unset_key_of_the_judge_is_a_fault_and_a_set_one_is_read_when_it_is_asked(tmp_path, monkeypatch):
    text = (
        SUMS
        + 'rubrics = { "lookup/brevity" = 1.0 }\n[environment.judge]\nmodel = "m"\n'
        + 'base_url = "http://127.0.0.1:1/v1"\napi_key_env = "JUDGE_KEY_OF_A_TEST"\n'
    )
    monkeypatch.delenv("JUDGE_KEY_OF_A_TEST", raising=False)
    assert faults_of(tmp_path, text) == [
        "environment.judge: the environment variable JUDGE_KEY_OF_A_TEST, which holds its key, is not set"
    ]
    monkeypatch.setenv("JUDGE_KEY_OF_A_TEST", "secret-1")
    loaded = compose(tmp_path, text)
    assert "secret-1" not in repr(loaded.environment.composition) + repr(loaded.pin.as_dict())


def test_a_dataset_that_is_no_readable_file_is_a_fault_and_nothing_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "device.jsonl").symlink_to("/dev/zero")
    rewards = 'prompt = "{question}"\nrewards = ["castform/answer"]'
    for name, fault in (
        ("pipe.jsonl", "the file pipe.jsonl cannot be read: it is a pipe or a device"),
        ("device.jsonl", "the file device.jsonl cannot be read: it is a pipe or a device"),
        ("a\\u0000b.jsonl", "the file a\0b.jsonl cannot be read: embedded null byte"),
        ("~nobody-here/x.jsonl", "the file ~nobody-here/x.jsonl does not exist; a relative path starts at "),
        ("a" * 300 + ".jsonl", f"the file {'a' * 300}.jsonl cannot be read: File name too long"),
    ):
        (found,) = faults_of(tmp_path, f'[environment]\ndataset = "{name}"\n{rewards}')
        assert found.startswith(f"environment.dataset: {fault}")


@pytest.mark.parametrize("value", ["[" * 5000 + "]" * 5000, "9" * 5000])
def test_a_toml_that_python_cannot_hold_is_not_valid(tmp_path, value):
    with pytest.raises(ConfigError, match=r"mix\.toml is not valid TOML: "):
        compose(tmp_path, f"[environment]\nheld_out = {value}")


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        ("", "an McpServer has either a command or a url"),
        ("command = 5", "command must hold texts, not 5"),
        ('command = ["run", "a\\u0000b"]', r"command must not hold a NUL: 'a\x00b'"),
        ('command = "run", env = { A = 1 }', "env must hold texts, not 1"),
        ('command = "run", start_timeout_seconds = nan', "start_timeout_seconds must be a positive number"),
    ],
)
def test_wrong_arguments_of_an_mcp_server_are_the_users_fault_not_the_plugins(tmp_path, args, fault):
    pytest.importorskip("mcp")
    tools = f'tools = [{{ id = "castform/mcp", args = {{ {args} }} }}]'
    (found,) = faults_of(tmp_path, f'[environment]\n{ROWS}\nrewards = ["castform/answer"]\n{tools}')
    assert found.startswith(f"environment.tools[0]: castform/mcp: {fault}")


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        (
            'answer_kind = "foo"',
            "args.answer_kind = 'foo': Input should be 'number', 'expression', 'choice', ",
        ),
        ("ignore_articles = 5", "args.ignore_articles = 5: Input should be a valid boolean"),
        ("options = 5", "args.options = 5: Input should be "),
    ],
)
def test_arguments_of_a_reward_are_held_to_its_hints_before_anything_is_scored(tmp_path, args, fault):
    (found,) = faults_of_rewards(tmp_path, f'rewards = [{{ id = "castform/answer", args = {{ {args} }} }}]')
    assert found.startswith(f"environment.rewards[0]: castform/answer: {fault}")


class Odd:
    """A class that pydantic knows nothing of."""


def test_arguments_that_fit_their_hints_or_have_none_that_can_be_read_are_taken():
    def late(completion: str, bound: float = 0.0, *, kind: Nowhere = None):  # noqa: F821
        return 0.0

    def hinted(completion: str, kind: Odd, bound: float = 0.0, *, free=None):
        return 0.0

    assert read_signature(late, {"kind": 1, "bound": "x"}, {})["optional"] == {}
    assert read_signature(hinted, {"kind": 1, "bound": 2, "free": "x"}, {})["required"] == {}
    with pytest.raises(ValueError, match=r"args\.bound = 'x': Input should be a valid number"):
        read_signature(hinted, {"kind": 1, "bound": "x"}, {})
