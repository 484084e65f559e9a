"""Groups in worker processes: cancelled, held up, counted and told as in this process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from acting_groups import ACTING, appear, make_request, play

from benchmax.envs import Example
from castform.environments import load_examples
from castform.plugins import load_environment


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("acting")


@pytest.fixture(scope="module")
def environment(folder):
    """Two workers, for every test that leaves them as they were."""
    environment = load_environment(ACTING, {"folder": str(folder)}, workers=2).environment
    yield environment
    asyncio.run(environment.aclose())


async def test_what_an_environment_does_wrong_is_told_in_the_same_words(environment, folder):
    here = load_environment(ACTING, {"folder": str(folder)}).environment
    for act in ("break_the_contract", "leave", "give_up", "cancel_itself", "no_such_act"):
        expected, got = [
            [(r.rollout_id, r.termination_reason, r.error, r.rewards, r.score, r.seed) for r in rollouts]
            for rollouts in (await play(here, act, size=2), await play(environment, act, size=2))
        ]
        assert got == expected, act


async def test_a_group_that_is_cancelled_ends_in_its_worker_before_it_does_here(environment, folder):
    pids = environment.list_pids()
    late = asyncio.create_task(play(environment, "wait", group_id="late", size=2))
    await appear(folder / "here-late-0")
    await appear(folder / "here-late-1")
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    assert {path.name for path in folder.glob("cancelled-*")} == {"cancelled-late-0", "cancelled-late-1"}
    assert [r.termination_reason for r in await play(environment, "answer")] == ["finished"]
    assert environment.list_pids() == pids


async def test_others_finish_while_one_worker_is_blocked(environment, folder, caplog):
    """Groups that the blocked worker was given before it was noticed are run by the other one."""
    await asyncio.gather(play(environment, "answer"), play(environment, "answer"))
    blocked = asyncio.create_task(play(environment, "block", group_id="blocked"))
    pid = int(await appear(folder / "here-blocked-0"))
    others = await asyncio.gather(*(play(environment, "answer", group_id=f"other{n}") for n in range(8)))
    assert not blocked.done()
    assert {rollout.rewards["pid"] for (rollout,) in others}.isdisjoint({pid})
    await told_of(caplog)
    (folder / "go-blocked").touch()
    assert [r.score for r in await blocked] == [1.0]
    (told,) = caplog.messages
    assert "has held the event loop of worker" in told and "block (acting.py:" in told
    assert "score_in_thread = True" in told


async def test_what_is_printed_and_logged_in_a_worker_is_logged_here(environment, caplog):
    caplog.set_level(logging.INFO)
    await play(environment, "speak", group_id="talk")
    logged = {(r.name, r.levelname, r.getMessage()) for r in caplog.records}
    assert ("acting", "WARNING", "to the log of talk-0") in logged
    while not any(name == "castform.workers.output" for name, _, _ in logged):
        await asyncio.sleep(0.01)  # what is printed comes on a pipe of its own
        logged = {(r.name, r.levelname, r.getMessage()) for r in caplog.records}
    assert any(level == "INFO" and text.endswith(": to stdout") for _, level, text in logged)


async def test_examples_gold_diagnostics_and_attempts_come_from_the_worker(environment, folder):
    examples = await load_examples(environment, "eval", folder, limit=2)
    assert examples == [Example("eval-0", {"act": "answer"}), Example("eval-1", {"act": "gone"})]
    assert environment.gold(Example("x", {"ground_truth": (1, 2)})) == (1, 2)
    assert environment.gold(examples[0]) is None
    assert environment.validation_diagnostics() == []
    attempt = await environment.run_rollout(make_request(examples[0]))
    assert (attempt.rollout_id, attempt.termination_reason) == ("alone", "finished")
    assert set(attempt.rewards) == {"r", "pid"}


async def test_the_limit_of_rollouts_holds_over_all_workers_and_outlives_one(start):
    environment = start(2, args={"slots": 1})
    assert environment.max_concurrent_rollouts == 1
    lost = await play(environment, "gone", size=2)
    assert [r.termination_reason for r in lost] == ["worker_lost"] * 2
    groups = await asyncio.gather(
        *(play(environment, "exclusive", group_id=f"g{n}", size=3) for n in range(4))
    )
    rollouts = [rollout for group in groups for rollout in group]
    assert [r.error for r in rollouts] == [None] * 12
    assert len({r.rewards["pid"] for r in rollouts}) == 2


async def test_a_closed_environment_ran_its_aclose_and_starts_again_when_it_is_used(start, tmp_path):
    environment = start(1)
    (pid,) = environment.list_pids()
    await environment.aclose()
    await environment.aclose()
    assert (tmp_path / f"closed-{pid}").exists()
    assert environment.list_pids() == [] and not has_process(pid)
    assert [r.termination_reason for r in await play(environment, "answer")] == ["finished"]


def has_process(pid):
    return Path(f"/proc/{pid}").exists()


async def told_of(caplog):
    while not caplog.records:  # noqa: ASYNC110 - the log has no event
        await asyncio.sleep(0.05)
