"""Rows that are there twice are found; questions of one template are not taken for it."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from contexts import codes, make_context

from castform.certify.checks.duplicates import Row, check_duplicates, find_near

STORY = (
    "A farmer keeps {a} goats in the meadow behind the old mill. One rainy morning a trader offers to buy some of "
    "them for the market in the next valley, and the farmer agrees to part with {b}. How many are left?"
)


def rows_environment(train, held_out="[]", *, max_turns=1):
    """Return an environment whose rows are expressions of lists of (question, answer)."""
    return f"""
TRAIN = {train}
HELD_OUT = {held_out}

class Rows(BaseEnv):
    max_turns = {max_turns}

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        rows = TRAIN if split == "train" else HELD_OUT
        return Dataset([
            Example(f"{{split}}-{{i}}", {{"prompt_messages": [{{"role": "user", "content": q}}], "answer": a}})
            for i, (q, a) in enumerate(rows[:max_examples])
        ])

    async def compute_reward(self, rollout):
        return {{"correct": 1.0}}
"""


async def found(folder, train, held_out=(), **options):
    context = await make_context(folder, rows_environment(list(train), list(held_out), **options))
    return await check_duplicates(context)


SUM_ROWS = [(f"What is {a} + {b}?", str(a + b)) for a in range(3, 9) for b in range(4)]


@pytest.mark.parametrize(
    ("train", "held_out"),
    [
        (SUM_ROWS, [(f"What is {a} + {b}?", str(a + b)) for a in range(10, 16) for b in range(4)]),
        ([(f"Is {n} odd?", "yes" if n % 2 else "no") for n in range(20)], []),
        ([(f"Spell {w} backwards.", w[::-1]) for w in "cat car cart cast case cash can cap cab".split()], []),
        ([(STORY.format(a=n + 9, b=n), "9") for n in range(9)], [(STORY.format(a=90 + n, b=n), "90") for n in range(9)]),
        ([(f"Which letter is number {n} of the alphabet? A) x B) y C) z D) w", "ABCD"[n % 4]) for n in range(24)], []),
        ([("Sort: " + " ".join(random.Random(n).sample("abcdefghijkl", 8)), str(n)) for n in range(24)], []),
    ],
    ids=["sums", "parity", "words", "stories", "choices", "lists"],
)  # fmt: skip
async def test_questions_of_one_template_are_no_duplicates(tmp_path, train, held_out):
    assert codes(await found(tmp_path, train, held_out)) == []


async def test_a_sound_environment_has_nothing_to_report(tmp_path):
    assert await check_duplicates(await make_context(tmp_path)) == []


@pytest.mark.parametrize(("repeats", "level"), [(1, "warning"), (7, "warning"), (8, "fault"), (24, "fault")])
async def test_repeated_rows_are_counted(tmp_path, repeats, level):
    rows = SUM_ROWS + [(q.upper().replace(" ", "  "), a) for q, a in SUM_ROWS[:repeats]]
    context = await make_context(tmp_path, rows_environment(rows))
    context = replace(context, examples={"train": context.examples["train"]})
    [finding] = await check_duplicates(context)
    assert (finding.level, finding.code, finding.check) == (level, "duplicate_rows", "duplicates")
    assert f"{repeats} of {24 + repeats} train examples repeat an earlier one" in finding.message
    assert "train-24 is train-0 again" in finding.message
    assert finding.example_id == "train-24"


@pytest.mark.parametrize(("leaked", "level"), [(1, "warning"), (2, "fault"), (20, "fault")])
async def test_eval_rows_that_are_train_rows_are_a_leak(tmp_path, leaked, level):
    own = [(f"What is {a} + 99?", str(a + 99)) for a in range(20 - leaked)]
    [finding] = await found(tmp_path, SUM_ROWS, own + SUM_ROWS[:leaked])
    assert (finding.level, finding.code) == (level, "eval_leak")
    assert finding.message.startswith(f"{leaked} of 20 eval examples are among the 24 train examples")
    assert f"eval-{20 - leaked} is train-0" in finding.message


ESSAYS = [
    "Explain to a child why the {0} sleeps through the {1} and wakes hungry, using no more than {2} words in all",
    "A merchant carries {0} across the {1} pass while it snows; describe what the {2} guards would demand of him",
    "Translate the proverb about the {0} and the {1} into plain prose, then say whom the {2} stands for in it",
]


async def test_nearly_the_same_question_with_the_same_answer_is_a_warning(tmp_path):
    text = ESSAYS[0].format("bear", "winter", "many")
    rows = [*SUM_ROWS, (text, "hibernation"), (text + ", please", "hibernation")]
    context = await make_context(tmp_path, rows_environment(rows))
    findings = await check_duplicates(replace(context, examples={"train": context.examples["train"]}))
    assert codes(findings) == ["near_duplicates"]
    assert "1 of 26 train examples are nearly the same" in findings[0].message
    assert "train-25 and train-24" in findings[0].message
    other_answer = [*SUM_ROWS, (text, "hibernation"), (text + ", please", "torpor")]
    context = await make_context(tmp_path, rows_environment(other_answer))
    assert codes(await check_duplicates(context)) == []


async def test_a_near_leak_is_a_warning(tmp_path):
    text = ESSAYS[1].format("salt", "northern", "sleepy")
    findings = await found(tmp_path, [*SUM_ROWS[:20], (text, "toll")], [(text + ".", "toll"), *SUM_ROWS[20:]])
    assert codes(findings) == ["near_leak"]
    assert "1 of 5 eval examples are nearly the same" in findings[0].message
    assert "eval-0 and train-20" in findings[0].message


async def test_the_same_question_with_two_answers_is_a_warning(tmp_path):
    rows = [*SUM_ROWS[:20], ("What is the answer to all?", "42"), ("What is the answer to all?", "43")]
    findings = await found(tmp_path, rows)
    assert codes(findings) == ["duplicate_rows", "conflicting_golds"]
    assert "train-20 and train-21 ask the same" in findings[1].message


async def test_tasks_behind_one_prompt_are_not_compared_by_the_prompt(tmp_path):
    rows = [("Guess my number; the tool says higher or lower.", str(n)) for n in range(24)]
    findings = await found(tmp_path, rows, rows, max_turns=8)
    assert [(f.level, f.code) for f in findings] == [("unchecked", "same_prompts")]
    assert codes(await found(tmp_path, rows, rows, max_turns=1)) == [
        "duplicate_rows", "duplicate_rows", "eval_leak", "conflicting_golds",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("golds", "level"),
    [
        (["no"] * 24, "warning"),
        (["no"] * 14 + [str(n) for n in range(10)], "warning"),
        (["no"] * 12 + [str(n) for n in range(12)], "warning"),
        (["no"] * 11 + [str(n) for n in range(13)], None),
        (["no"] * 12 + ["yes"] * 12, "note"),
        (["no"] * 14 + ["yes"] * 10, "note"),
        (["no"] * 20 + ["yes"] * 4, "warning"),
        (["no"] * 9, None),
    ],
)
async def test_what_a_constant_answer_gets_right_is_told(tmp_path, golds, level):
    findings = await found(tmp_path, [(f"Question {n}?", gold) for n, gold in enumerate(golds)])
    assert [(f.level, f.code) for f in findings] == ([] if level is None else [(level, "constant_answer")])
    if level is not None:
        count = golds.count("no")
        assert f"a constant answer ('no') is right on {count} of {len(golds)} examples" in findings[0].message


async def test_more_rows_are_looked_at_where_loading_is_quick(tmp_path):
    rows = [(f"What is {n} + 1?", str(n + 1)) for n in range(300)]
    [finding] = await found(tmp_path, rows, rows[290:])
    assert finding.message.startswith("10 of 10 eval examples are among the 300 train examples")


async def test_slow_loading_is_not_repeated(tmp_path):
    source = rows_environment([(f"What is {n} + 1?", str(n + 1)) for n in range(100)]).replace(
        "rows = TRAIN",
        "self.asked.append(max_examples); end = time.thread_time() + 0.3\n"
        "        while self.slow and time.thread_time() < end: pass\n        rows = TRAIN",
    )
    source = "import time\n" + source.replace(
        "    max_turns", "    asked = []\n    slow = False\n    max_turns"
    )
    context = await make_context(tmp_path, source)
    context.environment.slow = True
    context.environment.asked.clear()
    assert await check_duplicates(context) == []
    assert context.environment.asked == [25]  # of the one split that has rows
    context.environment.slow = False
    context.environment.asked.clear()
    assert await check_duplicates(context) == []
    assert context.environment.asked == [25, 26, 28, 32, 40, 56, 88, 152]  # of 100: there are no more


async def test_without_examples_that_is_said(tmp_path):
    context = await make_context(tmp_path)
    [finding] = await check_duplicates(replace(context, examples={}))
    assert (finding.level, finding.code) == ("unchecked", "no_examples")


def test_a_thousand_long_rows_are_compared_in_little_time():
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnop", k=6)) for _ in range(400)]
    rows = [
        Row(id=str(i), question=" ".join(rng.choices(words, k=30)), rest="", gold="same") for i in range(1000)
    ]
    rows.append(replace(rows[500], id="copy", question=rows[500].question + " indeed"))
    began = time.thread_time()
    assert find_near(rows) == [(500, 1000)]
    assert time.thread_time() - began < 5.0


async def test_payloads_without_a_prompt_are_compared_by_what_is_in_them(tmp_path):
    source = """
class Bare(Environment):
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        rows = [{"id": i, "text": f"word {i % 12}", "answer": str(i % 12)} for i in range(24)]
        return Dataset([Example(f"{split}{i}", row) for i, row in enumerate(rows)][: max_examples if split == "train" else 0])

    async def run_rollout(self, request):
        return RolloutAttempt(rollout_id=request.rollout_id, termination_reason="finished", rewards={"r": 1.0})
"""
    [finding] = await check_duplicates(await make_context(tmp_path, source))
    assert (finding.level, finding.code) == ("fault", "duplicate_rows")
    assert "12 of 24 train examples" in finding.message
