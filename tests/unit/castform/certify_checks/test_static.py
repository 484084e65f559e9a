"""What the static check says of a class, a dataset and payloads, without a rollout."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contexts import SUMS, codes, make_context

from benchmax.envs import Example
from castform.certify.checks.static import check_static


async def test_nothing_is_said_of_a_sound_environment(tmp_path):
    assert await check_static(await make_context(tmp_path)) == []


@pytest.mark.parametrize(
    ("old", "new", "level", "code", "words"),
    [
        (
            "return Dataset(rows[:max_examples])",
            "return Dataset(rows)",
            "warning",
            "max_examples_ignored",
            "gave 24 examples where at most 2",
        ),
        ("max_turns = 1", "max_turns = None", "fault", "max_turns", "does not set max_turns"),
        ("max_turns = 1", "max_turns = 0\n    def __init__(self): pass", "fault", "max_turns", "positive"),
        ("async def compute_reward", "async def other", "fault", "no_reward", "neither compute_reward nor"),
        (
            'f"sum-{n}", {',
            '__import__("secrets").token_hex(4), {',
            "fault",
            "dataset_unsteady",
            "from place 1 on",
        ),
        (
            '"answer": str(2 * n)',
            '"answer": str(2 * n), "key": __import__("secrets").token_hex(4)',
            "fault",
            "dataset_unsteady",
            "24 of 24 examples have the same id and another payload",
        ),
        ('"answer": str(2 * n)', '"answer": float("nan")', "warning", "payload_not_json", "finite"),
        (
            '"answer": str(2 * n)',
            '"answer": (1, 2)',
            "note",
            "payload_types",
            "payload.answer: tuple to list",
        ),
        (
            "max_turns = 1",
            "max_turns = 1\n    def __init__(self): super().__init__(); self.check = lambda text: 0",
            "note",
            "not_picklable",
            "another process",
        ),
        (
            "rows[:max_examples]",
            "rows[:max_examples] if max_examples > 5 else rows[-max_examples:]",
            "note",
            "max_examples_changes_order",
            "others when fewer",
        ),
    ],
)
async def test_one_defect_is_one_finding(tmp_path, old, new, level, code, words):
    assert old in SUMS
    findings = await check_static(await make_context(tmp_path, SUMS.replace(old, new)))
    assert [(f.level, f.code, f.check) for f in findings] == [(level, code, "static")]
    assert words in findings[0].message


async def test_a_dataset_without_max_examples_is_a_fault(tmp_path):
    context = await make_context(tmp_path)

    class Old(type(context.environment)):
        async def create_dataset(self, split, base_dir):
            return await super().create_dataset(split, base_dir)

    findings = await check_static(replace(context, environment=Old()))
    assert codes(findings) == ["no_max_examples", "dataset_unsteady"]
    assert "Old.create_dataset does not take max_examples" in findings[0].message


async def test_group_rewards_alone_are_rewards(tmp_path):
    source = SUMS.replace("compute_reward(self, rollout)", "compute_group_rewards(self, rollouts)").replace(
        'text = rollout.messages[-1]["content"] or ""',
        "return {r.rollout_id: {'n': 1.0} for r in rollouts}",
    )
    assert await check_static(await make_context(tmp_path, source)) == []


async def test_ids_that_repeat_are_a_fault_and_named(tmp_path):
    context = await make_context(tmp_path)
    twice = [Example("same", example.payload) for example in context.examples["eval"]]
    [finding] = await check_static(replace(context, examples={**context.examples, "eval": twice}))
    assert (finding.level, finding.code, finding.example_id) == ("fault", "ids_repeat", "same")


async def test_a_dataset_that_cannot_be_loaded_again_is_a_fault(tmp_path):
    source = SUMS.replace(
        'start = 10 if split == "train" else 1000',
        "start = 10\n        self.loads = getattr(self, 'loads', 0) + 1\n        assert self.loads < 3, 'used up'",
    )
    context = await make_context(tmp_path, source)
    [finding] = await check_static(context)
    assert finding.code == "dataset_unsteady"
    assert "AssertionError: used up" in finding.message


async def test_without_examples_that_is_said(tmp_path):
    context = await make_context(tmp_path)
    [finding] = await check_static(replace(context, examples={}))
    assert (finding.level, finding.code) == ("unchecked", "no_examples")


async def test_a_payload_that_rollouts_changed_is_not_blamed_on_the_dataset(tmp_path):
    context = await make_context(tmp_path)
    context.examples["train"][0].payload["answer"] = "changed"
    assert await check_static(context) == []
