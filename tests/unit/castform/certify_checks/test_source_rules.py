"""The look at an environment's source: each habit is found with its line, ordinary code is not."""

from __future__ import annotations

import pytest
from contexts import SUMS, make_context, write_environment

from castform.certify.checks.sources import list_sources
from castform.certify.checks.static import check_source
from castform.plugins.environments import load_environment

REWARD = 'text = rollout.messages[-1]["content"] or ""'


async def habits(folder, body, head=""):
    """Return what is said of a reward with this body, the imports in `head` above."""
    indented = "\n".join(f"        {line}" for line in body.splitlines())
    source = f"{head}\n{SUMS.replace('        ' + REWARD, indented + chr(10) + '        ' + REWARD)}"
    context = await make_context(folder, source)
    return [(f.level, f.code, f.message) for f in check_source(context.environment)]


@pytest.mark.parametrize(
    ("head", "body", "code", "words"),
    [
        ("import time", "time.sleep(1)", "blocking_call", "time.sleep in compute_reward"),
        ("import time as t", "t.sleep(1)", "blocking_call", "time.sleep"),
        ("from time import sleep", "sleep(1)", "blocking_call", "time.sleep"),
        ("import urllib.request", "urllib.request.urlopen('x')", "blocking_call", "urlopen"),
        ("import subprocess", "subprocess.run(['ls'])", "blocking_call", "subprocess.run"),
        ("import os", "os.system('ls')", "blocking_call", "os.system"),
        ("import httpx", "httpx.get('x')", "blocking_call", "httpx.get"),
        ("import random", "random.random()", "global_random_call", "random.random in compute_reward"),
        ("from random import choice", "choice([1])", "global_random_call", "random.choice"),
        ("import random", "random.seed(3)", "global_random_call", "random.seed"),
        ("import numpy as np", "np.random.rand()", "global_random_call", "numpy.random.rand"),
        ("from numpy import random", "random.normal()", "global_random_call", "numpy.random.normal"),
        ("", "eval(rollout.messages[-1]['content'])", "evaluates_model_text", "compute_reward gives text to eval()"),
        ("", "exec(rollout.messages[-1]['content'], {})", "evaluates_model_text", "exec()"),
        ("", "try:\n    x = 1\nexcept Exception:\n    return {'correct': 0.0}", "failure_becomes_score", "any exception into the score 0"),
        ("", "try:\n    x = 1\nexcept:\n    return {'correct': 1.0}", "failure_becomes_score", "the score 1"),
        ("", "try:\n    x = 1\nexcept (TimeoutError, ValueError):\n    return {'correct': 0}", "failure_becomes_score", "TimeoutError into"),
        ("", "try:\n    x = 1\nexcept ValueError:\n    return {'correct': 1.0}", "failure_becomes_score", "ValueError into the score 1"),
        ("", "a = b = ''\nif a in b or b in a:\n    pass", "two_way_substring", "empty string"),
        ("", "a = b = ''\nif a == b or a.lower() in b or b in a.lower():\n    pass", "two_way_substring", "empty string"),
    ],
)  # fmt: skip
async def test_a_habit_is_named_with_file_and_line(tmp_path, head, body, code, words):
    [(level, found, message)] = await habits(tmp_path, body, head)
    assert (level, found) == ("warning", code)
    assert words in message
    [file] = tmp_path.iterdir()
    name, line, _ = message.split(":", 2)
    assert name == file.name
    assert file.read_text().splitlines()[int(line) - 1].strip() in body


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("import random", "random.Random(3).random()"),
        ("from random import Random", "rng = Random(3)\nrng.shuffle([])"),
        ("import random", "rng = random.SystemRandom()\nrng.random()"),
        ("import numpy as np", "np.random.default_rng(3).random()\nnp.random.RandomState(3)"),
        ("import asyncio, time", "await asyncio.to_thread(time.sleep, 0)\nawait asyncio.to_thread(lambda: time.sleep(0))"),
        ("import asyncio", "await asyncio.sleep(0)"),
        ("import time", "def pause():\n    time.sleep(1)"),
        ("", "try:\n    x = float('1')\nexcept ValueError:\n    return {'correct': 0.0}"),
        ("", "try:\n    x = float('1')\nexcept (ValueError, TypeError, KeyError):\n    return {'correct': 0.0}"),
        ("", "try:\n    x = 1\nexcept Exception as error:\n    raise RolloutFailure('reward_error', str(error)) from error"),
        ("import ast", "ast.literal_eval('1')\nast.parse('1', mode='eval')"),
        ("", "eval('1 + 1')"),
        ("", "a = b = 'x'\nif a in b or a == b or a in (b, b):\n    pass"),
        ("", "a = b = 'x'\nif a in b and b in a:\n    pass"),
        ("import re", "re.compile('x').search(rollout.messages[-1]['content'] or '')"),
        ("", "with open(__file__) as file:\n    file.read()"),
    ],
)  # fmt: skip
async def test_ordinary_code_is_left_alone(tmp_path, head, body):
    assert await habits(tmp_path, body, head) == []


async def test_a_function_that_a_coroutine_calls_runs_on_the_loop_and_a_threaded_one_does_not(tmp_path):
    head = "import time, asyncio\ndef slow_score():\n    time.sleep(1)\n    return 1.0\n"
    assert [h[1] for h in await habits(tmp_path, "slow_score()", head)] == ["blocking_call"]
    assert await habits(tmp_path, "await asyncio.to_thread(slow_score)", head) == []


async def test_golds_made_with_eval_are_the_authors_own_text(tmp_path):
    source = SUMS.replace('"answer": str(2 * n)', '"answer": str(eval(f"{n} + {n}"))')
    context = await make_context(tmp_path, source)
    assert check_source(context.environment) == []


async def test_a_parser_that_gives_up_is_no_score(tmp_path):
    head = "def read_number(text):\n    try:\n        return int(text)\n    except Exception:\n        return 0\n"
    assert await habits(tmp_path, "read_number('3')", head) == []


@pytest.mark.parametrize(("limit", "found"), [("", ["blocking_call"]), ("tool_timeout_seconds = 5", [])])
async def test_tools_run_on_the_loop_unless_they_have_a_time_limit(tmp_path, limit, found):
    tool = "import time\ndef look(name: str) -> str:\n    'Look.'\n    time.sleep(1)\n    return name\n"
    source = tool + SUMS.replace("max_turns = 1", f"max_turns = 3\n    tools = (look,)\n    {limit}")
    context = await make_context(tmp_path, source)
    assert [f.code for f in check_source(context.environment)] == found


async def test_several_places_are_one_finding(tmp_path):
    [(_, _, message)] = await habits(
        tmp_path, "random.random()\nrandom.random()\nrandom.random()", "import random"
    )
    assert message.endswith("(and in 2 more places)")


async def test_files_of_the_same_package_are_looked_at_and_others_are_not(tmp_path):
    (tmp_path / "scoring_beside.py").write_text("import random\ndef score():\n    return random.random()\n")
    path = write_environment(tmp_path, "import json\nimport scoring_beside\n" + SUMS)
    environment = load_environment(str(path)).environment
    assert [source.path.name for source in list_sources(environment)] == [path.name, "scoring_beside.py"]
    [finding] = check_source(environment)
    assert finding.message.startswith("scoring_beside.py:3: random.random in score")


async def test_an_installed_environment_is_followed_through_its_package():
    environment = load_environment("arith/add").environment
    modules = {source.module for source in list_sources(environment)}
    assert {
        "castform_env_arith.environment",
        "castform_env_arith.questions",
        "castform_env_arith.rewards",
        "castform_env_arith.config",
    } <= modules
    assert all(module.startswith("castform_env_arith") for module in modules)
    assert check_source(environment) == []
