"""Evaluation: every rollout counted once, a bounded number in flight, stored as it goes."""

from __future__ import annotations

import asyncio
import random

import pytest
from environments import Bare, Sums, finished, make_example
from test_run_group import Recorder

from benchmax.envs import Dataset, Example, JsonlDataset, RolloutFailure
from castform.calls import Sampling
from castform.environments import load_examples
from castform.errors import CastformError, UsageError
from castform.evaluate import RECORD_BATCH, evaluate
from castform.safe_text import safe_line, safe_text
from castform.scripted_endpoint import ScriptedEndpoint

EXAMPLES = [make_example(i) for i in range(30)]


async def measure(environment, endpoint=None, examples=EXAMPLES, **options):
    defaults = {"endpoint": endpoint or Recorder(), "samples": 2, "sampling": Sampling()}
    return await evaluate(environment, examples, **{**defaults, **options})


def lucky(request):
    """Fails, or earns something, by the rollout's name alone."""
    luck = random.Random(request.rollout_id)
    if luck.random() < 0.3:
        raise RolloutFailure(luck.choice(["sandbox_error", "model_error"]), "bad luck")
    return finished(request, correct=float(luck.random() < 0.5), style=luck.random())


async def test_issued_is_scored_plus_failed_with_every_rollout_once():
    recorded = []
    result = await measure(Bare(lucky), samples=5, record=recorded.extend)
    rollouts = result.rollouts
    scored = [r for r in rollouts if r.score is not None]
    assert len(rollouts) == len({r.rollout_id for r in rollouts}) == 150
    assert len(scored) + sum(result.failures.values()) == 150
    assert set(result.failures) == {"sandbox_error", "model_error"}
    assert sum(result.termination_reasons.values()) == 150
    assert result.termination_reasons["finished"] == len(scored)
    assert all(not r.rewards for r in rollouts if r.score is None)
    assert sorted(r.rollout_id for group in recorded for r in group.rollouts) == sorted(
        r.rollout_id for r in rollouts
    )
    counts = result.as_dict()["counts"]
    assert counts["rollouts"] == counts["scored"] + counts["failed"] == 150


async def test_survivors_means_are_those_without_the_failures():
    """A failure is in no mean: the figures equal those of an evaluation that never had it."""
    examples = EXAMPLES[:10]

    def some_fail(request):
        if request.rollout_id.endswith("-1"):
            raise RolloutFailure("sandbox_error", "no box")
        return finished(request, correct=float(len(request.example.id) % 2))

    with_failures = await measure(Bare(some_fail), examples=examples, samples=2)
    without = await measure(
        Bare(lambda request: finished(request, correct=float(len(request.example.id) % 2))),
        examples=examples,
        samples=1,
    )
    assert with_failures.score().mean == without.score().mean
    assert with_failures.failures == {"sandbox_error": 10}


async def test_at_most_the_asked_number_of_rollouts_is_in_flight():
    now = most = 0

    async def attempt(request):
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(20):
            await asyncio.sleep(0)
        now -= 1
        return finished(request, correct=1.0)

    await measure(Bare(attempt), samples=3, concurrency=12)
    assert most == 12
    most = 0
    await measure(Bare(attempt), samples=3, concurrency=1)  # one group cannot be cut
    assert most == 3


async def test_seeds_do_not_depend_on_which_other_examples_there_are():
    all_of_them, few = Recorder(), Recorder()
    environment = Bare(lambda request: finished(request, correct=1.0))
    await measure(environment, all_of_them, seed=5)
    await measure(environment, few, examples=EXAMPLES[7:9], seed=5)
    by_seed = {spec.sampling.seed for spec in all_of_them.opened}
    assert len(by_seed) == 60
    assert {spec.sampling.seed for spec in few.opened} <= by_seed
    other = Recorder()
    await measure(environment, other, seed=6)
    assert not by_seed & {spec.sampling.seed for spec in other.opened}


async def test_groups_are_stored_in_batches():
    batches = []
    await measure(
        Bare(lambda request: finished(request, correct=1.0)),
        examples=[make_example(i) for i in range(200)],
        samples=1,
        concurrency=16,
        record=lambda groups: batches.append(len(groups)),
    )
    assert sum(batches) == 200
    assert len(batches) <= 200 / RECORD_BATCH + 1


async def test_a_store_that_fails_ends_the_evaluation():
    def record(groups):
        raise OSError("no space left")

    endpoint = Recorder()
    with pytest.raises(OSError, match="no space left"):
        await measure(
            Bare(lambda request: finished(request, correct=1.0)),
            endpoint,
            samples=RECORD_BATCH,
            record=record,
        )
    assert sorted(endpoint.closed) == sorted(spec.session_id for spec in endpoint.opened)


async def test_a_store_that_failed_is_not_asked_again():
    asked = []

    def record(groups):
        asked.append(len(groups))
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        await measure(
            Bare(lambda request: finished(request, correct=1.0)),
            examples=[make_example(i) for i in range(3 * RECORD_BATCH)],
            samples=1,
            concurrency=2 * RECORD_BATCH,
            record=record,
        )
    assert len(asked) == 1


async def test_what_was_scored_before_an_evaluation_was_cancelled_is_stored():
    waiting = asyncio.Event()
    recorded = []

    async def attempt(request):
        if request.example.id == "sum-2":
            waiting.set()
            await asyncio.Event().wait()
        return finished(request, correct=1.0)

    examples = [make_example(i) for i in range(3)]
    work = measure(Bare(attempt), examples=examples, samples=1, concurrency=1, record=recorded.extend)
    task = asyncio.create_task(work)
    await waiting.wait()
    assert recorded == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [group.example_id for group in recorded] == ["sum-0", "sum-1"]


async def test_cancelling_an_evaluation_closes_every_session():
    started = asyncio.Event()

    async def attempt(request):
        started.set()
        await asyncio.Event().wait()

    endpoint = Recorder()
    task = asyncio.create_task(measure(Bare(attempt), endpoint))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(endpoint.closed) == sorted(spec.session_id for spec in endpoint.opened)


async def test_lengths_and_finish_reasons_come_from_the_calls():
    endpoint = ScriptedEndpoint(lambda request: "one two three")
    result = await measure(Sums(), endpoint, examples=EXAMPLES[:4])
    await endpoint.aclose()
    assert result.finish_reasons == {"stop": 8}
    assert result.length("completion_tokens") == {"mean": 3.0, "median": 3.0, "p95": 3, "max": 3}
    assert result.length("context_tokens")["max"] == 8
    assert result.signal_share == 0.0


class Loads(Sums):
    def __init__(self, load):
        super().__init__()
        self.load = load

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return self.load(base_dir, max_examples)


def row_to_example(row):
    return Example(row["id"], {"prompt_messages": row["messages"]})


async def test_examples_are_loaded_up_to_the_limit(tmp_path):
    environment = Loads(lambda base, n: Dataset(EXAMPLES))  # ignores max_examples
    assert await load_examples(environment, "eval", tmp_path, limit=3) == EXAMPLES[:3]


@pytest.mark.parametrize(
    ("load", "kind", "message"),
    [
        (lambda base, n: Dataset([]), UsageError, "the eval dataset has no examples"),
        (lambda base, n: EXAMPLES, CastformError, "returned list, not a benchmax.envs.Dataset"),
        (lambda base, n: Dataset([EXAMPLES[0], EXAMPLES[0]]), UsageError, "'sum-0' for one"),
        (lambda base, n: 1 / 0, CastformError, "ZeroDivisionError: division by zero"),
        (
            lambda base, n: JsonlDataset(base / "none.jsonl", row_to_example=row_to_example),
            UsageError,
            "none.jsonl, which does not exist",
        ),
        (
            lambda base, n: JsonlDataset(base / "broken.jsonl", row_to_example=row_to_example),
            UsageError,
            "broken.jsonl:2",
        ),
        (
            lambda base, n: JsonlDataset(base / "keys.jsonl", row_to_example=row_to_example),
            CastformError,
            "keys.jsonl:1",
        ),
    ],
)
async def test_a_dataset_that_cannot_be_read_is_one_clear_error(tmp_path, load, kind, message):
    (tmp_path / "broken.jsonl").write_text('{"id": "a", "messages": []}\n{"id": oops\n')
    (tmp_path / "keys.jsonl").write_text('{"id": "a"}\n')
    with pytest.raises(kind) as caught:
        await load_examples(Loads(load), "eval", tmp_path)
    assert message in str(caught.value)


def test_printed_text_cannot_steer_a_terminal():
    assert safe_text("a\tb\nc é 漢 👩‍🚀") == "a\tb\nc é 漢 👩‍🚀"
    assert safe_text("\x1b[31m\x07\r\x00\x9b") == "\\x1b[31m\\x07\\x0d\\x00\\x9b"
    assert safe_text("a\u202eb\ud800\u2028") == "a\\u202eb\\ud800\\u2028"
    assert safe_line("a\nb\tc") == "a\\nb\\tc"
