"""Global generators: who draws from them is named, whose outcome depends on them is at fault."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from contexts import SUMS, load_context, make_context

from castform.certify.checks.global_randomness import check_global_randomness

SCORE = 'float(text.strip() == rollout.example_args["answer"])'


async def test_a_sound_environment_draws_from_none(tmp_path):
    assert await check_global_randomness(await make_context(tmp_path)) == []


@pytest.mark.parametrize(
    "noise",
    ["random.Random(7).random()", "random.Random(rollout.example_args['answer']).random()", "np.random.default_rng(3).random()"],
)  # fmt: skip
async def test_generators_of_its_own_are_sound(tmp_path, noise):
    source = "import random\nimport numpy as np\n" + SUMS.replace(SCORE, f"{SCORE} + {noise}")
    assert await check_global_randomness(await make_context(tmp_path, source)) == []


@pytest.mark.parametrize(
    ("head", "noise", "name", "place"),
    [
        ("import random", "random.random()", "global random", True),
        ("import random", "random.choice([1, 2, 3, 4, 5, 6, 7, 8])", "global random", True),
        ("import numpy as np", "np.random.rand()", "global numpy.random", False),
    ],
)
async def test_a_reward_that_depends_on_one_is_at_fault(tmp_path, head, noise, name, place):
    source = f"{head}\n" + SUMS.replace(SCORE, f"{SCORE} + {noise}")
    context = await make_context(tmp_path, source)
    [finding] = await check_global_randomness(context)
    assert (finding.level, finding.code, finding.check) == ("fault", "global_randomness", "global_randomness")
    assert finding.example_id == "sum-10"
    assert f"reward correct of example sum-10 depends on the {name}" in finding.message
    if place:
        [file] = tmp_path.iterdir()
        line = next(i for i, t in enumerate(file.read_text().splitlines(), 1) if noise in t)
        assert finding.message.endswith(f"({file.name}:{line})")


async def test_a_first_observation_that_depends_on_one_is_at_fault(tmp_path):
    source = "import random\n" + SUMS.replace(
        "    async def compute_reward",
        "    async def run_rollout(self, request):\n"
        "        payload = dict(request.example.payload)\n"
        "        payload['prompt_messages'] = [{'role': 'user', 'content': f'{random.random()}'}]\n"
        "        example = Example(request.example.id, payload)\n"
        "        import dataclasses\n"
        "        return await super().run_rollout(dataclasses.replace(request, example=example))\n\n"
        "    async def compute_reward",
    )
    [finding] = await check_global_randomness(await make_context(tmp_path, source))
    assert finding.code == "global_randomness"
    assert finding.message.startswith("the first observation of example sum-10 depends on the global random")


async def test_draws_without_consequence_are_a_warning_with_the_line(tmp_path):
    source = "import random\n" + SUMS.replace("        text =", "        random.random()\n        text =")
    [finding] = await check_global_randomness(await make_context(tmp_path, source))
    assert (finding.level, finding.code) == ("warning", "global_draws")
    assert "rollouts draw from the global random (environment_0.py:" in finding.message


async def test_a_dataset_that_seeds_the_global_generator_is_a_warning(tmp_path):
    source = "import random\n" + SUMS.replace("start = 10 if", "random.seed(0)\n        start = 10 if")
    [finding] = await check_global_randomness(await make_context(tmp_path, source))
    assert (finding.level, finding.code) == ("warning", "global_draws")
    assert "create_dataset draws from or seeds the global random" in finding.message


async def test_what_is_not_repeatable_anyway_is_not_blamed_on_a_draw(tmp_path):
    source = "import random, itertools\nCOUNT = itertools.count()\n" + SUMS.replace(
        SCORE, "next(COUNT) + 0 * random.random()"
    )
    [finding] = await check_global_randomness(await make_context(tmp_path, source))
    assert (finding.level, finding.code) == ("unchecked", "not_repeatable")


async def test_a_reward_of_the_group_is_looked_at_in_the_group(tmp_path):
    source = (
        "import random\n"
        + SUMS
        + """
    async def compute_group_rewards(self, rollouts):
        assert len(rollouts) > 1
        return {r.rollout_id: {"rank": random.random()} for r in rollouts}
"""
    )
    [finding] = await check_global_randomness(await make_context(tmp_path, source))
    assert finding.code == "global_randomness"
    assert "reward rank of example" in finding.message


async def test_the_generators_are_put_back(tmp_path):
    source = "import random\nimport numpy as np\n" + SUMS.replace(SCORE, "random.random() + np.random.rand()")
    context = await make_context(tmp_path, source)
    before = random.getstate(), np.random.get_state()[1].tobytes()
    await check_global_randomness(context)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == before


async def test_without_examples_or_answers_that_is_said_or_done_without(tmp_path):
    context = await make_context(tmp_path)
    [finding] = await check_global_randomness(replace(context, examples={}))
    assert (finding.level, finding.code) == ("unchecked", "no_examples")
    assert await check_global_randomness(replace(context, golds={})) == []


async def test_an_environment_of_the_repository_is_sound(request):
    path = request.config.rootpath / "examples" / "reverse.py"
    assert await check_global_randomness(await load_context(path)) == []
