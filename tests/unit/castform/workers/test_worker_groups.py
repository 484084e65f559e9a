"""Groups in worker processes: cancelled, held up, counted and told as in this process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from acting_groups import ACTING, appear, play

from benchmax.envs import Example
from castform.environments import load_examples
from castform.plugins import load_environment


async def test_what_an_environment_does_wrong_is_told_in_the_same_words(start, tmp_path):
    here = load_environment(ACTING, {"folder": str(tmp_path)}).environment
    there = start(1)
    for act in ("break_the_contract", "leave", "give_up", "cancel_itself", "no_such_act"):
        expected, got = [
            [(r.rollout_id, r.termination_reason, r.error, r.rewards, r.score, r.seed) for r in rollouts]
            for rollouts in (await play(here, act, size=2), await play(there, act, size=2))
        ]
        assert got == expected, act


async def test_a_group_that_takes_too_long_is_cancelled_in_its_worker(start, tmp_path):
    environment = start(1)
    pids = environment.list_pids()
    late = await play(environment, "wait", size=2, timeout=0.3)
    assert {r.termination_reason for r in late} == {"rollout_timeout"}
    assert {path.name for path in tmp_path.glob("cancelled-*")} == {"cancelled-g-0", "cancelled-g-1"}
    assert [r.termination_reason for r in await play(environment, "answer")] == ["finished"]
    assert environment.list_pids() == pids


async def test_others_finish_while_one_worker_is_blocked(start, tmp_path, caplog):
    """Groups that the blocked worker was given before it was noticed are run by the other one."""
    environment = start(2)
    await asyncio.gather(play(environment, "answer"), play(environment, "answer"))
    blocked = asyncio.create_task(play(environment, "block", group_id="blocked"))
    pid = int(await appear(tmp_path / "here-blocked-0"))
    others = await asyncio.gather(*(play(environment, "answer", group_id=f"other{n}") for n in range(8)))
    assert not blocked.done()
    assert {rollout.rewards["pid"] for (rollout,) in others}.isdisjoint({pid})
    await told_of(caplog)
    (tmp_path / "go").touch()
    assert [r.score for r in await blocked] == [1.0]
    (told,) = caplog.messages
    assert "has held the event loop of worker" in told and "block (acting.py:" in told
    assert "score_in_thread = True" in told


async def test_the_limit_of_rollouts_holds_over_all_workers(start):
    environment = start(2, args={"slots": 1})
    assert environment.max_concurrent_rollouts == 1
    groups = await asyncio.gather(
        *(play(environment, "exclusive", group_id=f"g{n}", size=3) for n in range(4))
    )
    rollouts = [rollout for group in groups for rollout in group]
    assert [r.error for r in rollouts] == [None] * 12
    assert len({r.rewards["pid"] for r in rollouts}) == 2


async def test_a_lost_worker_gives_its_slot_back(start):
    environment = start(1, args={"slots": 1})
    assert [r.termination_reason for r in await play(environment, "gone", size=2)] == ["worker_lost"] * 2
    assert [r.termination_reason for r in await play(environment, "answer", size=2)] == ["finished"] * 2


async def test_what_is_printed_and_logged_in_a_worker_is_logged_here(start, caplog):
    caplog.set_level(logging.INFO)
    environment = start(1)
    await play(environment, "speak", group_id="talk")
    await environment.aclose()
    logged = {(r.name, r.levelname, r.getMessage()) for r in caplog.records}
    assert ("acting", "WARNING", "to the log of talk-0") in logged
    assert ("castform.workers.output", "INFO", "worker 0: to stdout") in logged


async def test_a_closed_environment_ran_its_aclose_and_starts_again_when_it_is_used(start, tmp_path):
    environment = start(1)
    (pid,) = environment.list_pids()
    await environment.aclose()
    await environment.aclose()
    assert (tmp_path / f"closed-{pid}").exists()
    assert environment.list_pids() == [] and not has_process(pid)
    assert [r.termination_reason for r in await play(environment, "answer")] == ["finished"]


async def test_examples_gold_and_diagnostics_come_from_the_worker(start, tmp_path):
    environment = start(1)
    examples = await load_examples(environment, "eval", tmp_path, limit=2)
    assert examples == [Example("eval-0", {"act": "answer"}), Example("eval-1", {"act": "gone"})]
    assert environment.gold(Example("x", {"ground_truth": (1, 2)})) == (1, 2)
    assert environment.gold(examples[0]) is None
    assert environment.validation_diagnostics() == []
    (attempt,) = [await environment.run_rollout(make_request(examples[0]))]
    assert (attempt.rollout_id, attempt.termination_reason) == ("alone", "finished")


def make_request(example):
    from benchmax.auth import StaticBearerAuth
    from benchmax.envs import RolloutRequest

    return RolloutRequest("alone", example, "m", "http://127.0.0.1:9/v1", StaticBearerAuth("k"))


def has_process(pid):
    return Path(f"/proc/{pid}").exists()


async def told_of(caplog):
    while not caplog.records:  # noqa: ASYNC110 - the log has no event
        await asyncio.sleep(0.05)
