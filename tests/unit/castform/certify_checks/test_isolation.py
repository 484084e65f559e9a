"""Rollouts come out the same alone, beside others and after others, or that is a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contexts import SUMS, codes, make_context

from castform.certify.checks.isolation import check_isolation

REWARD = 'text = rollout.messages[-1]["content"] or ""'
SCORE = 'float(text.strip() == rollout.example_args["answer"])'
START = "    async def compute_reward"


async def test_a_sound_environment_passes(tmp_path):
    assert await check_isolation(await make_context(tmp_path)) == []


async def test_state_that_is_kept_for_each_rollout_is_sound(tmp_path):
    source = "from contextlib import asynccontextmanager\n" + SUMS.replace(
        START,
        "    def __init__(self):\n        super().__init__()\n        self.state = {}\n\n"
        "    @asynccontextmanager\n    async def rollout_context(self, rollout_id, example):\n"
        "        self.state[rollout_id] = example.payload['answer']\n"
        "        try:\n            yield\n        finally:\n            del self.state[rollout_id]\n\n"
        f"{START}",
    ).replace('rollout.example_args["answer"]', "self.state[rollout.rollout_id]")
    assert await check_isolation(await make_context(tmp_path, source)) == []


async def test_state_on_the_environment_is_overwritten_by_rollouts_beside(tmp_path):
    source = "from contextlib import asynccontextmanager\n" + SUMS.replace(
        START,
        "    @asynccontextmanager\n    async def rollout_context(self, rollout_id, example):\n"
        "        self.answer = example.payload['answer']\n        yield\n\n"
        f"{START}",
    ).replace('rollout.example_args["answer"]', "self.answer")
    [finding] = await check_isolation(await make_context(tmp_path, source))
    assert (finding.level, finding.code, finding.check) == ("fault", "rollouts_interfere", "isolation")
    assert "reward correct is 1 alone and 0 with other rollouts beside it" in finding.message
    assert finding.example_id in finding.message


async def test_a_novelty_bonus_is_state_that_is_carried_over(tmp_path):
    source = SUMS.replace(
        START, "    def __init__(self):\n        super().__init__()\n        self.seen = set()\n\n" + START
    ).replace(
        f'return {{"correct": {SCORE}}}',
        "new = (text, rollout.example_args['answer']) not in self.seen\n"
        "        self.seen.add((text, rollout.example_args['answer']))\n"
        f'        return {{"correct": {SCORE}, "new": float(new)}}',
    )
    assert "self.seen.add" in source
    [finding] = await check_isolation(await make_context(tmp_path, source))
    assert (finding.level, finding.code) == ("fault", "state_carried_over")
    assert "reward new is 1 in a fresh environment and 0 in one that has run" in finding.message


async def test_a_count_of_all_rollouts_interferes_and_is_carried_over(tmp_path):
    source = SUMS.replace(REWARD, f"self.count = getattr(self, 'count', 0) + 1\n        {REWARD}").replace(
        SCORE, f"{SCORE} / self.count"
    )
    findings = await check_isolation(await make_context(tmp_path, source))
    assert codes(findings) == ["rollouts_interfere", "state_carried_over"]


BARE = """
class Bare(Environment):
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset([Example(f"e{i}", {"words": ["b", "a"], "answer": "a b"}) for i in range(4)][:max_examples])

    async def run_rollout(self, request):
        words = request.example.payload["words"]
        CHANGE
        return RolloutAttempt(rollout_id=request.rollout_id, termination_reason="finished", rewards={"r": 1.0})
"""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("words = sorted(words)", []),
        ("words.sort()", ["payload_mutated"]),
        ("words.append('c')", ["payload_mutated"]),
        ("request.example.payload['seen'] = 1", ["payload_mutated"]),
    ],
)
async def test_a_payload_that_is_changed_is_at_fault(tmp_path, change, found):
    context = await make_context(tmp_path, BARE.replace("CHANGE", change))
    findings = await check_isolation(context)
    assert codes(findings) == found
    assert all(f.level == "fault" and "on 4 of 4 examples" in f.message for f in findings)


async def test_a_payload_that_was_used_up_before_is_loaded_again(tmp_path):
    source = BARE.replace("CHANGE", "if words: words.pop()")
    context = await make_context(tmp_path, source)
    for example in context.examples["train"]:
        example.payload["words"].clear()
    assert codes(await check_isolation(context)) == ["payload_mutated"]


async def test_payloads_that_equal_only_themselves_are_compared_by_their_text(tmp_path):
    source = BARE.replace("CHANGE", "pass").replace('"answer": "a b"', '"thing": Thing()')
    source = "class Thing:\n    def __repr__(self): return 'Thing'\n" + source
    assert await check_isolation(await make_context(tmp_path, source)) == []
    changed = source.replace("pass", "request.example.payload['words'].append('c')")
    assert codes(await check_isolation(await make_context(tmp_path, changed))) == ["payload_mutated"]


PROMPTED = """    async def run_rollout(self, request):
        import dataclasses
        payload = dict(request.example.payload)
        payload["prompt_messages"] = [{"role": "user", "content": CONTENT}]
        example = Example(request.example.id, payload)
        return await super().run_rollout(dataclasses.replace(request, example=example))

"""


async def test_siblings_that_start_differently_are_at_fault(tmp_path):
    content = 'f"Seat {request.rollout_id[-1]}: say something"'
    source = SUMS.replace(START, PROMPTED.replace("CONTENT", content) + START)
    findings = await check_isolation(await make_context(tmp_path, source))
    assert "siblings_start_differently" in codes(findings)
    [finding] = [f for f in findings if f.code == "siblings_start_differently"]
    assert "3 different first observations" in finding.message


async def test_a_rollouts_own_id_in_its_prompt_is_not_another_task(tmp_path):
    source = SUMS.replace(START, PROMPTED.replace("CONTENT", "request.rollout_id") + START)
    assert await check_isolation(await make_context(tmp_path, source)) == []


async def test_what_is_not_repeatable_anyway_is_not_blamed_on_other_rollouts(tmp_path):
    source = SUMS.replace(SCORE, "float(__import__('time').perf_counter_ns())")
    [finding] = await check_isolation(await make_context(tmp_path, source))
    assert (finding.level, finding.code) == ("unchecked", "not_repeatable")
    assert "on 4 of 4 examples" in finding.message


GROUP = """
    async def compute_group_rewards(self, rollouts):
        best = max(len(r.messages[-1]["content"]) for r in rollouts)
        return {r.rollout_id: {"longest": float(len(r.messages[-1]["content"]) == best)} for r in rollouts}
"""


async def test_group_rewards_may_depend_on_siblings_and_that_is_said(tmp_path):
    [finding] = await check_isolation(await make_context(tmp_path, SUMS + GROUP))
    assert (finding.level, finding.code) == ("unchecked", "group_rewards")
    assert "only what the model is shown was compared" in finding.message


async def test_group_rewards_that_remember_are_carried_over(tmp_path):
    source = SUMS + GROUP.replace("return {", "self.n = getattr(self, 'n', 0) + 1\n        return {").replace(
        "float(", "self.n + float("
    )
    findings = await check_isolation(await make_context(tmp_path, source))
    assert codes(findings) == ["state_carried_over"]


async def test_what_cannot_be_made_twice_is_unchecked(tmp_path):
    context = await make_context(tmp_path)

    def refuse():
        raise OSError("the port is in use")

    [finding] = await check_isolation(replace(context, make_environment=refuse))
    assert (finding.level, finding.code) == ("unchecked", "no_second_environment")
    assert "OSError: the port is in use" in finding.message
    [finding] = await check_isolation(replace(context, examples={}))
    assert (finding.level, finding.code) == ("unchecked", "no_examples")


async def test_fresh_environments_are_closed(tmp_path):
    source = SUMS.replace(START, "    async def aclose(self):\n        self.closed = True\n\n" + START)
    context = await make_context(tmp_path, source)
    made = []

    def make():
        made.append(type(context.environment)())
        return made[-1]

    await check_isolation(replace(context, make_environment=make))
    assert len(made) == 3
    assert all(environment.closed for environment in made)
