"""Stored rollouts are scored again: exactly, in whole groups, without a model, and with nothing guessed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from environments import Bare, Sums, finished

from benchmax.envs import Environment
from castform.call_log import append_calls
from castform.calls import Sampling
from castform.errors import RunFailedError
from castform.evaluate import evaluate
from castform.rescore import RescoreOptions, rescore
from castform.rollouts import RolloutGroup
from castform.runs import RolloutRecord, RunStore
from castform.stored_groups import StoredCalls, calls_of_transcript, group_records
from castform.testing import FakeModel, Fault, Reply, ToolUse


class Run:
    """A stored evaluation of an environment, which can be scored again."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self.record = store.create_run(kind="eval", name="", config={}, environment={"id": "x"})
        assert self.record.run_dir is not None
        self.log = self.record.run_dir / "calls" / "all.jsonl"
        self.log.parent.mkdir(parents=True)
        self.examples: dict = {}

    def keep(self, groups: Sequence[RolloutGroup]) -> None:
        self.store.add_rollouts(self.record.run_id, groups, mode="eval", step=0, calls_path="calls/all.jsonl")
        append_calls(self.log, (call for g in groups for r in g.rollouts for call in r.calls))

    async def play(self, environment: Environment, script, *, examples: int = 2, samples: int = 2, **options):
        rows = list(await environment.create_dataset("train", Path()))[:examples]
        self.examples = {("train", row.id): row for row in rows}
        with FakeModel(script) as model:
            await evaluate(
                environment,
                rows,
                endpoint=model.endpoint,
                samples=samples,
                sampling=Sampling(),
                split="train",
                record=self.keep,
                **options,
            )
        return self

    async def again(self, environment: Environment, **options):
        groups = group_records(self.store.list_rollouts(self.record.run_id))
        return await rescore(
            environment,
            groups,
            examples=self.examples,
            read_calls=StoredCalls(self.store, self.record).read,
            options=RescoreOptions(weights={}, timeout_seconds=20),
            **options,
        )

    def stored(self) -> list[RolloutRecord]:
        return self.store.list_rollouts(self.record.run_id)


@pytest.fixture
def run(tmp_path):
    with RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db") as store:
        yield Run(store)


def sample_of(request) -> int:
    return int(request.session_id.rpartition("-")[2])


def counts(report) -> dict[str, int]:
    return {name: value for name, value in report.as_dict()["counts"].items() if value}


def right_if_first(request):
    number = int(request.messages[-1]["content"].split()[2])
    return str(2 * number + sample_of(request))


async def test_the_same_environment_gives_the_same_scores(run):
    await run.play(Sums(), right_if_first, examples=3)
    report = await run.again(Sums())
    assert counts(report) == {"rescored": 6, "unchanged": 6}
    [score, correct] = report.components
    assert (score.before, score.after, score.difference, score.low, score.high) == (0.5, 0.5, 0, 0, 0)
    assert (correct.name, correct.changed, correct.rollouts) == ("correct", 0, 6)
    assert report.changed == []


async def test_a_changed_reward_shows_the_exact_differences(run):
    await run.play(Sums(lambda text, answer: {"right": float(text == answer), "old": 1.0}), right_if_first)
    report = await run.again(
        Sums(lambda text, answer: {"right": 0.25 if text == answer else 0.0, "new": float(len(text))})
    )
    assert counts(report) == {"rescored": 4, "changed": 4}
    by_name = {found.name: found for found in report.components}
    assert list(by_name) == ["score", "new", "old", "right"]
    right = by_name["right"]
    assert (right.before, right.after, right.difference) == (0.5, 0.125, -0.375)
    assert (right.changed, right.rollouts, right.low, right.high) == (2, 4, -0.375, -0.375)
    new, old = by_name["new"], by_name["old"]
    assert (new.before, new.after, new.difference, new.low) == (None, 1.0, None, None)
    assert (old.before, old.after, old.difference, old.changed) == (1.0, None, None, 4)
    score = by_name["score"]
    assert (score.before, score.after, score.difference) == (1.5, 1.125, -0.375)
    first = report.changed[0]
    assert (first.rollout_id, first.example_id) == ("eval-0-0", "sum-0")
    assert first.changes == {"new": (None, 1.0), "old": (1.0, None), "right": (1.0, 0.25)}
    assert [(e.example_id, e.before, e.after, e.changed, e.rollouts) for e in report.examples] == [
        ("sum-0", 1.5, 1.125, 2, 2),
        ("sum-1", 1.5, 1.125, 2, 2),
    ]
    assert [(m.mode, m.before, m.after, m.changed, m.rollouts) for m in report.modes] == [
        ("eval", 1.5, 1.125, 4, 4)
    ]
    data = report.as_dict()
    assert json.loads(json.dumps(data)) == json.loads(json.dumps(data, default=str))
    assert data["changed"][0]["changes"]["right"] == {"before": 1.0, "after": 0.25}


async def test_examples_come_with_the_most_changed_first(run):
    await run.play(Sums(lambda text, answer: {"r": 0.0}), right_if_first, examples=3)
    report = await run.again(Sums(lambda text, answer: {"r": -float(answer)}))
    assert [(e.example_id, e.difference) for e in report.examples] == [
        ("sum-2", -4.0),
        ("sum-1", -2.0),
        ("sum-0", 0.0),
    ]


class Ranked(Sums):
    """Pays by place in the group: who has no siblings with a longer answer gets 1."""

    async def compute_group_rewards(self, rollouts):
        longest = max(len(r.messages[-1]["content"]) for r in rollouts)
        return {
            r.rollout_id: {
                "longest": float(len(r.messages[-1]["content"]) == longest),
                "of": float(len(rollouts)),
            }
            for r in rollouts
        }


async def test_groups_stay_whole_and_a_sibling_that_failed_stays_out_of_them(run):
    def script(request):
        sample = sample_of(request)
        return Fault(status=400, message="no") if sample == 1 else "x" * (sample + 1)

    await run.play(Ranked(), script, samples=4)
    assert [r.rewards.get("of") for r in run.stored()] == [3.0, None, 3.0, 3.0] * 2
    report = await run.again(Ranked())
    assert counts(report) == {"rescored": 6, "unchanged": 6, "skipped": 2}
    assert report.skipped == {"it ended by model_error": 2}


async def test_a_group_that_lost_the_calls_of_one_is_left_out_whole(run):
    class Quiet(Ranked):
        async def compute_reward(self, rollout):
            rollout.messages.append({"role": "assistant", "content": "one more than was said"})
            return await super().compute_reward(rollout)

    await run.play(Quiet(), right_if_first)
    lines = run.log.read_bytes().splitlines(keepends=True)
    run.log.write_bytes(b"".join(line for line in lines if b'"eval-0-1' not in line))
    report = await run.again(Quiet())
    assert report.skipped == {"its calls were not kept": 1, "calls of a sibling were not kept": 1}
    assert [r.rollout_id for r in report.rollouts] == ["eval-1-0", "eval-1-1"]


async def test_without_a_call_log_the_transcript_is_played(run):
    await run.play(Sums(), right_if_first)
    run.log.unlink()
    report = await run.again(Sums())
    assert counts(report) == {"rescored": 4, "unchanged": 4}


async def test_a_damaged_call_log_is_named_with_its_line(run):
    await run.play(Sums(), right_if_first)
    run.log.write_bytes(run.log.read_bytes() + b"{nope}\n")
    with pytest.raises(RunFailedError, match=r"all\.jsonl:5 is not a recorded call"):
        await run.again(Sums())


async def test_a_missing_example_is_counted_and_named(run):
    await run.play(Sums(), right_if_first)
    del run.examples["train", "sum-1"]
    report = await run.again(Sums())
    assert report.skipped == {"its example is missing": 2}
    assert report.missing_examples == ("sum-1",)
    assert {r.example_id for r in report.rollouts} == {"sum-0"}


async def test_what_failed_to_be_scored_then_may_be_scored_now(run):
    def broken(text, answer):
        if text == answer:
            raise ValueError("oops")
        return {"right": 0.0}

    await run.play(Sums(broken), right_if_first)
    assert [r.termination_reason for r in run.stored()] == ["reward_error", "finished"] * 2
    report = await run.again(Sums(lambda text, answer: {"right": float(text == answer)}))
    assert counts(report) == {"rescored": 4, "unchanged": 2, "changed": 2, "newly_scored": 2}
    assert report.changed[0].changes == {
        "termination reason": ("reward_error", "finished"),
        "right": (None, 1.0),
    }
    assert report.components[0].rollouts == 4
    assert report.components[0].difference == 0.0, "only what was scored both times is paired"

    report = await run.again(Sums(broken))
    assert counts(report) == {"rescored": 4, "unchanged": 4}


async def test_what_can_no_longer_be_scored_says_why(run):
    await run.play(Sums(), right_if_first)

    def broken(text, answer):
        raise ValueError(f"cannot read {text}")

    report = await run.again(Sums(broken))
    assert counts(report) == {"rescored": 4, "changed": 4, "no_longer_scored": 4}
    after = report.changed[0].after
    assert (after.score, after.termination_reason) == (None, "reward_error")
    assert "cannot read 0" in after.error
    score = report.components[0]
    assert (score.before, score.after, score.difference) == (0.5, None, None)


class Counts(Sums):
    """A tool that counts, so that a conversation has several turns."""

    max_turns = 4

    def __init__(self, step: int = 1) -> None:
        super().__init__(lambda text, answer: {"said": float(text)})

        def count(start: int) -> int:
            """Count on from a number."""
            return start + step

        self.tools = [count]


def counting(request):
    last = request.messages[-1]
    if last["role"] == "user":
        return Reply(tool_calls=[ToolUse(name="count", arguments={"start": 4})])
    return last["content"]


async def test_tools_run_again_and_the_conversation_is_the_same(run):
    await run.play(Counts(), counting)
    assert [r.turns for r in run.stored()] == [2] * 4
    report = await run.again(Counts())
    assert counts(report) == {"rescored": 4, "unchanged": 4}


async def test_a_conversation_that_goes_elsewhere_is_named(run):
    await run.play(Counts(), counting)
    report = await run.again(Counts(step=2))
    assert report.diverged == ["eval-0-0", "eval-0-1", "eval-1-0", "eval-1-1"]
    assert counts(report) == {"rescored": 4, "unchanged": 4, "diverged": 4}


async def test_fields_that_only_a_server_adds_are_no_other_conversation(run):
    await run.play(Counts(), counting)
    text = run.log.read_text().replace('"role":"tool"', '"extra":1,"role":"tool"')
    assert text.count('"extra"') == 4
    run.log.write_text(text)
    assert (await run.again(Counts())).diverged == []


async def test_a_prompt_that_was_too_long_is_too_long_again(run):
    full = Fault(status=400, message="full", code="context_budget_exceeded")
    await run.play(Sums(lambda text, answer: {"right": 0.0}), lambda request: full)
    assert {(r.termination_reason, r.turns) for r in run.stored()} == {("context_exceeded", 0)}
    report = await run.again(Sums(lambda text, answer: {"right": 0.0}))
    assert counts(report) == {"rescored": 4, "unchanged": 4}


async def test_a_rollout_that_made_no_recorded_call_is_not_played(run):
    await run.play(Bare(lambda request: finished(request, right=1.0)), lambda request: "never asked")
    report = await run.again(Bare(lambda request: finished(request, right=1.0)))
    assert report.rollouts == ()
    assert report.skipped == {"it made no call that was recorded": 4}
    assert (report.components[0].before, report.examples, report.modes) == (None, [], [])


async def test_a_reply_that_was_cut_off_is_cut_off_again(run):
    await run.play(Sums(), lambda request: Reply(content="0", finish_reason="length"))
    assert {r.termination_reason for r in run.stored()} == {"output_exceeded"}
    for _ in range(2):
        assert counts(await run.again(Sums())) == {"rescored": 4, "unchanged": 4}
        run.log.unlink(missing_ok=True)  # the second time from the transcripts


async def test_each_group_is_handed_on_with_what_was_compared(run):
    def script(request):
        return Fault(status=400) if sample_of(request) == 0 else "7"

    await run.play(Sums(), script, samples=3)
    kept = []
    await run.again(Sums(), on_group=lambda stored, again: kept.append((stored, again)))
    assert sorted(stored.group_id for stored, _ in kept) == ["eval-0", "eval-1"]
    for stored, again in kept:
        assert [r.sample for r in again.rollouts] == [1, 2]
        assert [r.rollout_id for r in again.rollouts] == [r.rollout_id for r in stored.rollouts][1:]


async def test_records_are_put_back_into_groups_in_order(run):
    await run.play(Sums(), right_if_first, samples=3)
    records = run.stored()
    groups = group_records([*records[3:], records[2], records[0], records[1]])
    assert [g.group_id for g in groups] == ["eval-1", "eval-0"]
    assert [r.sample for r in groups[1].rollouts] == [0, 1, 2]
    assert (groups[1].example_id, groups[1].split, groups[1].mode, groups[1].step) == (
        "sum-0",
        "train",
        "eval",
        0,
    )


async def test_a_transcript_that_does_not_show_every_call_is_no_record(run):
    await run.play(Counts(), counting, examples=1, samples=1)
    [record] = run.stored()
    messages = run.store.get_rollout(run.record.run_id, record.rollout_id).messages
    calls = calls_of_transcript(record, messages)
    assert calls is not None
    assert [(c.index, c.finish_reason, len(c.messages)) for c in calls] == [
        (0, "tool_calls", 1),
        (1, "stop", 3),
    ]
    assert calls_of_transcript(record, messages[:-1]) is None
    assert calls_of_transcript(record, [*messages, {"role": "assistant", "content": "x"}]) is None
