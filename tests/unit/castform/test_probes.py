"""Each probe finds the reward that only it games, and leaves sound ones alone."""

from __future__ import annotations

import re
import time

import pytest
from environments import Bare, Sums, make_example

from benchmax.envs import BaseEnv, Dataset, Example, RolloutFailure
from castform.certify.rates import measure_rates
from castform.gold import RENDERINGS, unwrap_golds
from castform.probe_findings import judge_probes
from castform.probes import PROBES
from castform.probes.contexts import is_right, make_contexts
from castform.probes.shotgun import PROBES as SHOTGUNS
from castform.probing import count_at_once, run_probes
from castform.scripted_replies import ScriptedRequest

EXAMPLES = [make_example(i) for i in range(3, 11)]
REQUEST = ScriptedRequest(session_id="s", index=0, choice=0, body={"messages": []})


def question(example_id: str, prompt: str, answer: object) -> Example:
    payload = {"prompt_messages": [{"role": "user", "content": prompt}], "answer": answer}
    return Example(example_id, payload)


WORDS = [
    question(f"q{i}", f"What rhymes with number {i}?", word)
    for i, word in enumerate(["tree", "door", "hive", "sticks", "heaven", "gate", "wine", "hen"])
]


async def play(environment, examples=EXAMPLES, **options):
    return await run_probes(environment, examples, split="train", weights={}, timeout_seconds=20, **options)


def found(report, *levels):
    return {finding.code: finding for finding in judge_probes(report) if finding.level in levels}


def exactly(text, answer):
    return text.strip() == answer


GAMED = {
    "empty": lambda text, answer: text == "",
    "dont_know": lambda text, answer: "not know" in text,
    "refusal": lambda text, answer: text.startswith("I'm sorry"),
    "junk": lambda text, answer: 1000 < len(text) < 10_000,
    "nonsense": lambda text, answer: bool(re.fullmatch("zq[a-z]{6}", text)),
    "flood": lambda text, answer: len(text) > 500_000,
    "echo": lambda text, answer: text.startswith("What is"),
    "other_answer": lambda text, answer: text.isdigit() and text != answer and len(text) < 4,
    "shotgun_list": lambda text, answer: answer in text.split(", ") and "," in text,
    "shotgun_full": lambda text, answer: answer in text.splitlines() and text.count("\n") > 4,
    "nan": lambda text, answer: text == "nan",
    "inf": lambda text, answer: text == "inf",
    "huge": lambda text, answer: len(text) == 400,
    "judge_order": lambda text, answer: "full marks" in text,
}


@pytest.mark.parametrize("probe", sorted(GAMED))
async def test_a_reward_that_pays_one_wrong_answer_is_a_fault_that_names_it(probe):
    def reward(text, answer):
        return {"correct": float(exactly(text, answer) or GAMED[probe](text, answer))}

    report = await play(Sums(reward=reward))
    faults = found(report, "fault")
    assert f"reward_pays_{probe}" in faults
    assert faults[f"reward_pays_{probe}"].check == probe
    assert faults[f"reward_pays_{probe}"].example_id == "sum-3"
    alike = {"empty": ["none"], "other_answer": ["constant", "common_start"]}.get(probe, [])
    assert set(faults) == {f"reward_pays_{name}" for name in [probe, *alike]}
    ceiling = measure_rates(report).false_pass_ceiling
    assert (ceiling.share, ceiling.n) == (1.0, 2 if probe == "flood" else 8)


async def test_a_sound_reward_has_no_fault_and_a_ceiling_of_zero():
    report = await play(Sums())
    assert found(report, "fault") == {}
    rates = measure_rates(report)
    assert rates.false_pass_ceiling.share == rates.any_false_pass.share == 0.0
    assert rates.false_pass_ceiling.n == rates.any_false_pass.n == 8
    assert rates.false_pass_ceiling.high == pytest.approx(0.324, abs=0.001)
    assert rates.lazy_policy.share == pytest.approx(1 / 8)
    assert rates.lazy_policy.what == "6"
    assert rates.false_fail.n == 4 * 8
    assert rates.false_fail.share == pytest.approx(0.5)  # in a sentence and in a box it is not paid


async def test_no_text_at_all_is_told_from_an_empty_text():
    class PaysNull(BaseEnv):
        max_turns = 1

        async def create_dataset(self, split, base_dir, *, max_examples=None):
            return Dataset(EXAMPLES)

        async def compute_reward(self, rollout):
            said = rollout.messages[-1].get("content")
            return {"correct": float(said is None or said == rollout.example_args["answer"])}

    faults = found(await play(PaysNull()), "fault")
    assert set(faults) == {"reward_pays_none"}


async def test_an_empty_answer_in_the_form_that_pays_is_found():
    def reward(text, answer):
        inner = re.fullmatch("<answer>(.*)</answer>", text, re.DOTALL)
        return {"correct": float(inner is not None and (inner[1].strip() == answer or inner[1] == ""))}

    report = await play(Sums(reward=reward))
    assert report.rendering == "<answer> tags"
    assert set(found(report, "fault")) == {"reward_pays_blank"}


async def test_the_beginning_that_answers_share_is_found_where_prefixes_are_paid():
    examples = [question(f"p{i}", f"chance {i}?", f"0.{i}25") for i in range(1, 9)]

    def reward(text, answer):
        return {"correct": float(text.strip() != "" and answer.startswith(text.strip()))}

    faults = found(await play(Sums(reward=reward), examples), "fault")
    assert "reward_pays_common_start" in faults
    assert measure_rates(await play(Sums(), examples)).false_pass_ceiling.share == 0.0


async def test_the_most_common_answer_is_wrong_only_where_it_is_not_right():
    examples = [question(f"q{i}", f"is {i} even?", "yes" if i < 6 else "no") for i in range(8)]
    sound = await play(Sums(), examples)
    constant = sound.outcome("constant")
    assert (constant.scored, constant.counted, constant.paid_in_full) == (8, 2, ())
    assert found(sound, "fault") == {}
    rates = measure_rates(sound)
    assert (rates.lazy_policy.share, rates.lazy_policy.what) == (0.75, "yes")

    gamed = await play(
        Sums(reward=lambda text, answer: {"correct": float(text in ("yes", answer))}), examples
    )
    faults = found(gamed, "fault")
    assert {"reward_pays_constant", "reward_pays_other_answer"} >= set(faults) > set()


@pytest.mark.parametrize(
    ("probe", "pays"),
    [
        ("retracted", lambda text, answer: text.split()[:1] == [answer]),
        ("negated", lambda text, answer: f"but {answer}," in text),
        ("longer", lambda text, answer: bool(re.fullmatch(f"7{answer}1", text))),
    ],
)
async def test_pay_for_a_wrong_answer_that_takes_knowing_the_right_one_is_a_warning(probe, pays):
    reward = lambda text, answer: {"correct": float(exactly(text, answer) or pays(text, answer))}  # noqa: E731
    report = await play(Sums(reward=reward))
    assert found(report, "fault") == {}
    assert f"reward_pays_{probe}" in found(report, "warning")
    assert measure_rates(report).false_pass_ceiling.share == 0.0


@pytest.mark.parametrize(
    ("probe", "accepts"),
    [
        ("gold_newline", lambda text, answer: text in (answer, f"  {answer} ")),
        ("gold_spaces", lambda text, answer: text.rstrip("\n") == answer),
        ("gold_case", lambda text, answer: text.strip() == answer),
        ("gold_sentence", lambda text, answer: text.strip().lower() in (answer, f"\\boxed{{{answer}}}")),
        (
            "gold_box",
            lambda text, answer: text.strip(" .\n").lower().split()[-1] == answer if text else False,
        ),
    ],
)
async def test_a_right_answer_that_is_unpaid_for_its_form_is_a_warning(probe, accepts):
    reward = lambda text, answer: {"correct": float(accepts(text, answer))}  # noqa: E731
    report = await play(Sums(reward=reward), WORDS)
    warnings = found(report, "warning")
    assert f"false_fail_{probe}" in warnings
    assert "8 of 8" in warnings[f"false_fail_{probe}"].message
    assert found(report, "fault") == {}


async def test_capitals_are_not_changed_where_the_task_is_about_them():
    examples = [question(w, f"Write {w} in capitals.", w.upper()) for w in ("cat", "dog", "hen")]
    report = await play(Sums(), examples)
    assert report.outcome("gold_case") is None
    assert "gold_case" in report.inapplicable


async def test_one_coincidence_is_a_note_and_two_are_a_fault():
    examples = [question(f"q{i}", f"question {i}", "nothing") for i in range(20)]
    lucky = {"question 0"}

    class Lucky(Sums):
        async def compute_reward(self, rollout):
            text = rollout.messages[-1]["content"] or ""
            asked = rollout.messages[0]["content"]
            return {"correct": float(text.strip() == "nothing" or (not text and asked in lucky))}

    names = [p for p in PROBES if p.name in ("empty", "junk")]
    once = await play(Lucky(), examples, probes=names)
    assert found(once, "fault") == {}
    assert "on 1 of 20 examples" in found(once, "note")["empty_sometimes_right"].message
    lucky.add("question 1")
    twice = await play(Lucky(), examples, probes=names)
    assert "2 of 20 examples" in found(twice, "fault")["reward_pays_empty"].message


@pytest.mark.parametrize(("pays_others", "fault"), [(1, False), (8, True)])
async def test_a_list_is_not_faulted_where_another_examples_answer_is_right_in_it(pays_others, fault):
    class Mazes(Sums):
        async def compute_reward(self, rollout):
            text = rollout.messages[-1]["content"] or ""
            place = int(rollout.example_args["answer"]) // 2 - 3
            also_right = place < pays_others and str(2 * ((place + 1) % 8 + 3)) in text.split(", ")
            return {"correct": float(text.strip() == rollout.example_args["answer"] or also_right)}

    report = await play(Mazes())
    assert len(report.outcome("shotgun_list").paid_in_full) == pays_others
    assert ("reward_pays_shotgun_list" in found(report, "fault")) is fault
    assert ("reward_pays_other_answer" in found(report, "fault")) is fault


@pytest.mark.parametrize(("quick", "most"), [(60.0, 1), (0.0, 7)])
async def test_one_group_is_played_at_a_time_where_the_first_was_quick(monkeypatch, quick, most):
    from castform import probing

    monkeypatch.setattr(probing, "QUICK_SECONDS", quick)
    playing: set[str] = set()
    at_once: list[int] = []

    class Watched(Sums):
        async def run_group(self, requests):
            playing.add(requests[0].example.id)
            at_once.append(len(playing))
            try:
                return await super().run_group(requests)
            finally:
                playing.discard(requests[0].example.id)

    empty = [probe for probe in PROBES if probe.name == "empty"]
    report = await play(Watched(), probes=empty)
    assert max(at_once) == most
    assert [group.group_id for group in report.groups if group.group_id == "probe-0"] == ["probe-0"]
    assert report.outcome("empty").scored == len(EXAMPLES)


async def test_tool_spam_calls_the_offered_tools_and_one_that_is_not_there():
    from test_scripted_endpoint import Adder

    class Tooled(Adder):
        async def compute_reward(self, rollout):
            called = {c["function"]["name"] for m in rollout.messages for c in m.get("tool_calls") or ()}
            right = rollout.messages[-1].get("content") == rollout.example_args["answer"]
            return {"correct": float(right or called == {"add", "no_such_tool"})}

    report = await play(Tooled(), EXAMPLES[:5])
    assert set(found(report, "fault")) == {"reward_pays_tool_spam"}
    assert report.outcome("tool_spam").examples == 4


async def test_a_judge_that_cannot_be_reached_is_unchecked_and_no_fault():
    def attempt(request):
        raise RolloutFailure("judge_error", "connection refused")

    report = await play(Bare(attempt))
    assert found(report, "fault") == {}
    unchecked = found(report, "unchecked")
    assert "the judge was not reachable" in unchecked["judge_error"].message
    assert "connection refused" in unchecked["judge_error"].message
    assert measure_rates(report).false_pass_ceiling is None


async def test_a_reward_that_raises_on_some_answers_is_a_fault_that_names_them():
    report = await play(Sums(reward=lambda text, answer: {"correct": float(float(text) == float(answer))}))
    faults = found(report, "fault")
    assert "ValueError" in faults["reward_raises"].message
    assert "junk" in faults["reward_raises"].message
    assert faults["reward_raises"].check in {probe.name for probe in PROBES}
    assert faults["reward_raises"].example_id == "sum-3"


async def test_an_answer_that_hangs_is_named_and_the_others_are_still_played(monkeypatch, skip_seconds):
    import asyncio

    monkeypatch.setattr("castform.probing.ALONE_SECONDS", 60.0)

    async def slow(text, answer):
        if len(text) > 500_000:
            skip_seconds(121)
            await asyncio.Event().wait()
        return {"correct": float(text == answer)}

    class Slow(Sums):
        async def compute_reward(self, rollout):
            return await slow(rollout.messages[-1]["content"] or "", rollout.example_args["answer"])

    report = await run_probes(Slow(), EXAMPLES[:1], split="train", weights={}, timeout_seconds=120.0)
    fault = found(report, "fault")["reward_hangs"]
    assert "flood" in fault.message
    assert "junk" not in fault.message
    assert report.outcome("junk").scored == 1


async def test_after_the_deadline_examples_are_skipped_and_reported():
    report = await play(Sums(), deadline=time.monotonic() - 1)
    assert len(report.skipped) == 8
    assert "8 examples" in found(report, "unchecked")["probes_skipped"].message


async def test_one_example_is_played_alone_with_the_others_answers_at_hand():
    everything = await play(Sums())
    alone = await play(Sums(), only_examples={"sum-5"})
    assert alone.gold.examples == 1
    text = {
        r.rollout_id: r.messages[-1]["content"]
        for report in (everything, alone)
        for g in report.groups
        if g.example_id == "sum-5"
        for r in g.rollouts
        if report.probe_of[r.rollout_id] == "shotgun_list"
    }
    assert len(text) == 1
    assert next(iter(text.values())).split(", ").index("10") not in (0, 8)


def contexts(examples, rendering=RENDERINGS[0]):
    golds = {e.id: e.payload["answer"] for e in examples}
    return make_contexts(examples, golds, rendering, seed=0)


def test_shotguns_hold_the_right_answer_in_the_middle():
    for example, context in zip(WORDS, contexts(WORDS).values(), strict=True):
        for probe in SHOTGUNS:
            answers = re.split(r", |\n", probe.make(context)(REQUEST))
            assert sorted(answers) == sorted(e.payload["answer"] for e in WORDS)
            assert example.payload["answer"] not in (answers[0], answers[-1])


def test_shotguns_give_the_options_of_the_prompt():
    options = "Which one?\n(A) red\n(B) green\n(C) blue\n(D) black"
    made = contexts([question("one", options, "C"), question("two", options, "C")])
    assert SHOTGUNS[0].make(made["one"])(REQUEST) == "A, C, B, D"
    assert SHOTGUNS[0].make(contexts([question("alone", "How many?", "3")])["alone"]) is None


def test_another_answer_differs_by_value_not_by_spelling():
    examples = [question("a", "?", "7"), question("b", "?", "7.0"), question("c", "?", "8")]
    made = contexts(examples)
    assert made["a"].other_gold == "8"
    assert made["a"].candidates == ("8",)
    assert made["c"].candidates == ("7", "7.0")
    assert is_right("1/2", ["a half", 0.5])
    assert not is_right("a", ["b", "c"])


def test_right_answers_lose_the_form_that_all_of_them_have():
    assert unwrap_golds({"a": "<answer>1</answer>", "b": None}) == {"a": "1", "b": None}
    assert unwrap_golds({"a": "\\boxed{\\frac{1}{2}}"}) == {"a": "\\frac{1}{2}"}
    mixed = {"a": "<answer>1</answer>", "b": "2"}
    assert unwrap_golds(mixed) == mixed
    two = {"a": "<answer>1</answer><answer>2</answer>"}
    assert unwrap_golds(two) == two
    assert unwrap_golds({"a": None}) == {"a": None}


async def test_answers_in_tags_are_probed_in_tags():
    examples = [question(f"q{i}", f"{i}?", f"<answer>{i}</answer>") for i in range(5, 9)]
    report = await play(Sums(), examples)
    assert report.rendering == "<answer> tags"
    assert report.unpaid_gold == ()
    assert report.majority == "5"


def test_names_are_unique_and_costly_probes_are_few():
    names = [probe.name for probe in PROBES]
    assert len(names) == len(set(names)) == 27
    assert [p.name for p in PROBES if p.max_examples is not None] == ["flood", "tool_spam"]
    assert {p.name for p in PROBES if p.needs_gold} == {
        "retracted", "negated", "longer",
        "gold_newline", "gold_spaces", "gold_case", "gold_sentence", "gold_box",
    }  # fmt: skip


async def test_siblings_that_are_ranked_are_measured_beside_the_right_answer():
    class Ranked(Sums):
        async def compute_reward(self, rollout):
            return None

        async def compute_group_rewards(self, rollouts):
            texts = [r.messages[-1]["content"] or "" for r in rollouts]
            right = [
                text.strip() == r.example_args["answer"] for text, r in zip(texts, rollouts, strict=True)
            ]
            return {
                r.rollout_id: {"rank": float(ok) / max(1, sum(right))}
                for ok, r in zip(right, rollouts, strict=True)
            }

    report = await play(Ranked(), EXAMPLES[:3])
    assert found(report, "fault") == {}
    # Beside the right answer stand two right rewritings, and on the first example the most common one.
    assert report.gold.mean_score == pytest.approx((1 / 4 + 1 / 3 + 1 / 3) / 3)


@pytest.mark.parametrize(
    ("seconds", "timeout_seconds", "groups"),
    [(0.01, 30.0, 1), (1.0, 30.0, 8), (3.0, 30.0, 5), (12.0, 30.0, 2), (30.0, 30.0, 2)],
)
def test_slow_groups_are_played_so_many_at_a_time_as_have_time_for_each_other(
    seconds, timeout_seconds, groups
):
    assert count_at_once(seconds, timeout_seconds) == groups
