"""Validation names what makes an environment untrainable, and lets a sound one pass."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from environments import Bare, Sums, finished, make_example

from benchmax.envs import Example, RolloutFailure, ValidationDiagnostic
from castform.calls import Sampling
from castform.gold import read_gold
from castform.probing import run_probes
from castform.replay import replay_groups
from castform.rollouts import run_group
from castform.scripted_endpoint import ScriptedEndpoint
from castform.validate import ValidateOptions, validate

EXAMPLES = [make_example(i) for i in range(3, 11)]


def model_that(answers):
    """A scripted model; `answers(number, sample)` gets the question's number and which sibling asks."""

    def script(request):
        number = int(request.messages[-1]["content"].split()[2])
        return answers(number, int(request.session_id.rpartition("-")[2]))

    return ScriptedEndpoint(script)


def half_right(number, sample):
    return str(2 * number) if (sample + number) % 2 else "no idea"


async def check(environment, answers=half_right, **options):
    endpoint = model_that(answers) if answers else None
    try:
        return await validate(
            environment, EXAMPLES, endpoint=endpoint, options=ValidateOptions(timeout_seconds=20, **options)
        )
    finally:
        if endpoint:
            await endpoint.aclose()


def codes(report, level="fault"):
    return {finding.code for finding in report.findings if finding.level == level}


async def test_a_sound_environment_can_be_trained_on():
    report = await check(Sums())
    assert codes(report) == set(), report.findings
    assert report.trainable is True
    assert report.describe() == "can be trained on with scripted"
    assert report.result.signal_share == 1.0
    assert (report.result.pass_at_k(1), report.result.pass_at_k(4)) == (0.5, 1.0)
    assert report.probes.full_score == 1.0
    assert report.replay.rollouts == 32
    assert not report.replay.differences
    data = report.as_dict()
    assert data["result"]["counts"] == {"examples": 8, "rollouts": 32, "scored": 32, "failed": 0}
    wrong = {o["name"]: o["scores"] for o in data["probes"]["outcomes"] if o["verdict"] == "wrong"}
    assert {"empty", "echo", "other_answer", "refusal", "junk"} < set(wrong)
    assert set(wrong.values()) == {False}


async def test_without_a_model_it_says_what_was_not_checked():
    report = await check(Sums(), answers=None)
    assert report.trainable is None
    assert codes(report, "unchecked") == {"model"}
    assert "not checked with a model" in report.describe()
    assert report.replay.rollouts > 0


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (lambda number, sample: "no", "all_zero"),
        (lambda number, sample: str(2 * number), "all_one"),
        (lambda number, sample: str(2 * number) if number % 2 else "no", "no_signal"),
    ],
)
async def test_a_model_without_differing_siblings_gives_no_gradient(answers, code):
    report = await check(Sums(), answers)
    assert codes(report) == {code}
    assert report.trainable is False
    assert code.replace("_", " ") in report.describe()


async def test_a_reward_that_never_moves_is_constant():
    report = await check(Sums(reward=lambda text, answer: {"effort": 0.5}))
    assert {"constant", "gold_not_paid"} <= codes(report)


async def test_little_signal_is_a_warning_with_the_share():
    def rarely(number, sample):
        return str(2 * number) if number == 3 and sample == 0 else "no"

    endpoint = model_that(rarely)
    examples = [make_example(i) for i in range(3, 19)]
    report = await validate(Sums(), examples, endpoint=endpoint)
    await endpoint.aclose()
    [warning] = [f for f in report.findings if f.code == "little_signal"]
    assert "only 6% of the groups" in warning.message
    assert report.trainable is True


@pytest.mark.parametrize(
    ("reward", "probe"),
    [
        (lambda text, answer: {"correct": float(answer in text or not text)}, "empty"),
        (lambda text, answer: {"correct": float(len(text) >= 1000 or text == answer)}, "junk"),
        (lambda text, answer: {"correct": float(text.startswith("What") or text == answer)}, "echo"),
        (lambda text, answer: {"correct": float(text.isdigit())}, "other_answer"),
        (lambda text, answer: {"correct": float("sorry" in text or text == answer)}, "refusal"),
    ],
)
async def test_a_reward_that_pays_a_wrong_answer_is_named(reward, probe):
    report = await check(Sums(reward=reward))
    assert f"reward_pays_{probe}" in codes(report)
    [fault] = [f for f in report.findings if f.code == f"reward_pays_{probe}"]
    assert "on 8 of 8 examples" in fault.message
    assert "correct 1" in fault.message
    assert report.trainable is False


async def test_format_credit_is_shown_but_is_no_fault():
    report = await check(
        Sums(reward=lambda text, answer: {"correct": float(text == answer), "digits": float(text.isdigit())})
    )
    assert codes(report) == set()
    [note] = [f for f in report.findings if f.code == "partial_credit"]
    assert note.message.endswith(
        "50% other_answer, common_start, huge, longer (other_answer: correct 0, digits 1)"
    )


async def test_a_right_answer_that_is_not_paid_is_a_fault():
    report = await check(Sums(reward=lambda text, answer: {"correct": float(text == f"answer: {answer}")}))
    [fault] = [f for f in report.findings if f.code == "gold_not_paid"]
    assert "on 8 of 8 examples" in fault.message


@pytest.mark.parametrize(
    ("write", "rendering"),
    [
        (lambda answer: f"<answer>{answer}</answer>", "<answer> tags"),
        (lambda answer: f"\\boxed{{{answer}}}", "\\boxed{}"),
        (lambda answer: answer, "as given"),
    ],
)
async def test_the_right_answer_is_written_as_the_environment_reads_it(write, rendering):
    environment = Sums(reward=lambda text, answer: {"correct": float(text == write(answer))})
    report = await run_probes(environment, EXAMPLES, split="train", weights={})
    assert (report.rendering, report.unpaid_gold) == (rendering, ())
    assert report.gold.mean_score == 1.0


async def test_an_environment_without_right_answers_is_checked_as_far_as_it_goes():
    class NoGold(Sums):
        def gold(self, example):
            return None

    report = await check(NoGold(reward=lambda text, answer: {"correct": float(len(text) > 1500)}))
    assert "gold" in codes(report, "unchecked")
    assert "reward_pays_junk" in codes(report)


async def test_a_gold_that_raises_is_a_fault():
    class Broken(Sums):
        def gold(self, example):
            raise KeyError("answer")

    report = await check(Broken(), answers=None)
    [fault] = report.faults
    assert fault.code == "gold_raises"
    assert "KeyError: 'answer'" in fault.message


@pytest.mark.parametrize(
    ("gold", "words"),
    [
        (b"2", "gold() gave a bytes, not a text"),
        (object(), "gold() gave a object, not a text"),
        (len, "gold() gave a builtin_function_or_method, not a text"),
        (10**5000, "gold() gave a int that cannot be written down: ValueError"),
    ],
    ids=["bytes", "object", "function", "digits"],
)
async def test_a_gold_that_cannot_be_written_down_is_a_fault_that_says_so(gold, words):
    class Odd(Sums):
        def gold(self, example):
            return gold

    report = await check(Odd(), answers=None)
    assert [fault.code for fault in report.faults] == ["gold_raises"]
    assert words in report.faults[0].message


async def test_an_async_gold_is_a_fault_that_says_so():
    class Late(Sums):
        async def gold(self, example):
            return "2"

    report = await check(Late(), answers=None)
    [fault] = report.faults
    assert (fault.code, fault.message) == (
        "gold_raises",
        "gold() is async, but is not awaited: make it a plain method",
    )


@pytest.mark.parametrize(
    "gold", [3, 2.5, Decimal("1.50"), ["a", 2], {"a": 1}, {"role": "assistant", "content": "x"}]
)
def test_what_can_be_written_down_is_a_gold(gold):
    class Plain(Sums):
        def gold(self, example):
            return gold

    assert read_gold(Plain(), Example("x", {})) == gold


async def test_a_gold_of_several_turns_is_played_in_order():
    from test_scripted_endpoint import Adder

    class Tooled(Adder):
        def gold(self, example):
            arguments = '{"a": 1, "b": 1}'
            call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": arguments}}
            return [{"role": "assistant", "content": None, "tool_calls": [call]}, {"content": "2"}]

        async def compute_reward(self, rollout):
            used = any(message["role"] == "tool" for message in rollout.messages)
            return {"correct": float(used and rollout.messages[-1]["content"] == "2")}

    report = await run_probes(Tooled(), [make_example(1)], split="train", weights={})
    assert report.gold.mean_score == 1.0
    assert report.unpaid_gold == ()


async def test_a_reward_that_changes_its_mind_is_found():
    ticks = itertools.count()
    report = await check(
        Sums(reward=lambda text, answer: {"correct": float(text == answer), "mood": 0.001 * next(ticks)})
    )
    [fault] = [f for f in report.findings if f.code == "nondeterministic"]
    assert "32 of 32 transcripts differ in mood" in fault.message


async def test_prompts_that_change_are_a_warning():
    ticks = itertools.count()

    class Shifting(Sums):
        def __init__(self):
            super().__init__()

        async def run_rollout(self, request):
            from benchmax.envs import Example, RolloutRequest

            payload = dict(request.example.payload)
            payload["prompt_messages"] = [
                {"role": "system", "content": f"tick {next(ticks)}"},
                *payload["prompt_messages"],
            ]
            return await super().run_rollout(
                RolloutRequest(
                    rollout_id=request.rollout_id,
                    example=Example(request.example.id, payload),
                    model=request.model,
                    base_url=request.base_url,
                    model_auth=request.model_auth,
                    split=request.split,
                )
            )

    report = await check(Shifting())
    assert "prompts_differ" in codes(report, "warning")
    assert "nondeterministic" not in codes(report)


async def test_a_reward_that_raises_on_noise_is_a_fault_with_the_probe_named():
    def reward(text, answer):
        return {"correct": float(int(text) == int(answer))}

    report = await check(Sums(reward=reward), lambda number, sample: str(2 * number + sample % 2))
    [fault] = [f for f in report.findings if f.code == "reward_raises"]
    assert "ValueError" in fault.message
    assert "junk" in fault.message and "echo" in fault.message


async def test_one_answer_that_breaks_the_group_does_not_hide_the_others():
    class Fragile(Sums):
        async def compute_group_rewards(self, rollouts):
            return None

        async def run_rollout(self, request):
            attempt = await super().run_rollout(request)
            if len(attempt.messages[-1]["content"] or "") > 1000:
                raise MemoryError("too long for me")
            return attempt

    report = await run_probes(Fragile(), EXAMPLES[:2], split="train", weights={})
    assert report.gold.mean_score == 1.0
    assert {str(crash) for crash in report.crashes} == {
        "junk: MemoryError: too long for me",
        "flood: MemoryError: too long for me",
    }


async def test_an_environment_that_fails_every_rollout_stops_at_the_siblings():
    def attempt(request):
        raise RolloutFailure("sandbox_error", "no Docker here")

    report = await check(Bare(attempt))
    assert "contract" in codes(report)
    [fault] = [f for f in report.findings if f.code == "contract"]
    assert "2 of 2 siblings failed: sandbox_error: no Docker here" in fault.message
    assert report.result is None


async def test_many_failures_are_a_fault_with_the_reason():
    def answers(number, sample):
        from castform.testing import Fault

        return half_right(number, sample) if number < 6 else Fault(status=400, message="overloaded")

    report = await check(Sums(), answers)
    [fault] = [f for f in report.findings if f.code == "many_failed"]
    assert "20 of 32 rollouts were not scored (model_error 20)" in fault.message
    assert "overloaded" in fault.message
    counts = report.as_dict()["result"]["counts"]
    assert counts["rollouts"] == counts["scored"] + counts["failed"] == 32


async def test_an_environment_that_never_calls_the_model_is_found():
    report = await check(Bare(lambda request: finished(request, luck=float(hash(request.rollout_id) % 2))))
    assert "contract" in codes(report)
    assert "it never called the model" in next(f.message for f in report.findings if f.code == "contract")


async def test_errors_that_the_environment_knows_end_it_before_anything_runs():
    class Misconfigured(Sums):
        def validation_diagnostics(self):
            return [
                ValidationDiagnostic("error", "no_judge", "a judge is needed", "judge.url"),
                ValidationDiagnostic("warning", "slow", "this will be slow"),
            ]

    report = await check(Misconfigured())
    assert codes(report) == {"no_judge"}
    assert codes(report, "warning") == {"slow"}
    assert report.probes is None
    assert report.faults[0].message == "a judge is needed at judge.url"


async def test_cut_replies_and_a_component_that_is_never_paid_are_warnings():
    from castform.testing import Reply

    def answers(number, sample):
        return Reply(content=half_right(number, sample), finish_reason="length")

    reward = lambda text, answer: {"correct": float(text == answer), "cited": 0.0}  # noqa: E731
    report = await check(Sums(reward=reward), answers)
    assert {"replies_cut", "constant_component"} <= codes(report, "warning")


async def test_a_transcript_that_ended_by_its_context_replays_to_the_same_end():
    from test_scripted_endpoint import Adder

    from castform.testing import Fault, Reply, ToolUse

    def script(request):
        if request.index == 0:
            return Reply(tool_calls=[ToolUse(name="add", arguments={"a": 1, "b": 1})])
        return Fault(status=400, code="context_budget_exceeded", message="full")

    endpoint = ScriptedEndpoint(script)
    example = make_example(1)
    group = await run_group(
        Adder(),
        example,
        endpoint=endpoint,
        split="train",
        group_id="g",
        size=2,
        sampling=Sampling(),
        seed=0,
        weights={},
        timeout_seconds=20,
    )
    await endpoint.aclose()
    assert {r.termination_reason for r in group.rollouts} == {"context_exceeded"}
    report = await replay_groups(Adder(), [(example, group)], split="train", weights={}, timeout_seconds=20)
    assert (report.rollouts, report.differences, report.diverged) == (2, (), ())
