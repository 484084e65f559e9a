"""A rule has a limit of its own, whatever the environment's code does with the thread it is checked in."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from dataclasses import replace

import breakers
import pytest

from castform.errors import UsageError
from castform.testing.conformance import RULES, check_conformance, time_limit
from castform.testing.conformance.rule import RuleTimeoutError
from castform.testing.conformance.run import check_rule, examine
from castform.testing.conformance.time_limit import limit_time

PATIENT = {"examples": 2, "scripts": 4, "rule_seconds": 60.0}
SOON = 1.0
"""Seconds in which an environment is where it stays, on a busy machine too."""


@pytest.fixture(autouse=True)
def _let_go(monkeypatch):
    monkeypatch.setattr(time_limit, "AGAIN_SECONDS", 1.0)  # nothing here takes long to be cancelled
    yield
    for stop in breakers.STOPS:
        stop.set()
    breakers.STOPS.clear()


@pytest.mark.parametrize(
    ("environment", "stood"),
    [
        (breakers.SleepsInReward, r"compute_reward \(breakers.py:\d+\)"),
        (breakers.ComputesInReward, r"compute_reward \(breakers.py:\d+\)"),
        (breakers.SleepsInGold, r"gold \(breakers.py:\d+\)"),
        (breakers.WaitsInReward, None),
        (breakers.SleepsInThread, None),
        (breakers.WaitsForData, None),
    ],
)
def test_a_rule_that_never_ends_is_broken_and_says_where_it_stood(environment, stood):
    names = ["loads", "same_first_observation", "deterministic_rewards", "gold_is_paid"]
    stuck = "loads" if environment is breakers.WaitsForData else "same_first_observation"
    results = {}
    with examine(environment, **PATIENT) as examined:
        for rule in (rule for name in names for rule in RULES if rule.name == name):
            if rule.name == stuck:  # what comes before has as long as it takes on a busy machine
                examined.options = replace(examined.options, rule_seconds=SOON)
            results[rule.name] = check_rule(rule, examined, {})
    first, *more = [name for name in names if results[name].state != "held"]
    assert (first, results[first].state) == (stuck, "broken")
    place = "" if stood is None else f": the environment stood at {stood}"
    [breach] = results[first].breaches
    assert re.fullmatch(f"not done after {SOON:g} s{place}", breach.message), breach.message
    assert breach.way_out.startswith("bound what rewards and tools compute")
    assert {results[name].state for name in more[:1]} <= {"not_checked"}
    reasons = [result.reason for result in results.values() if result.state == "not_checked"]
    assert all(reason.startswith("an earlier rule ran out of time over the ") for reason in reasons)


def test_a_limit_leaves_the_handler_of_ctrl_c_as_it_was_and_a_real_ctrl_c_alone():
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job of a shell
    try:
        with pytest.raises(RuleTimeoutError, match=r"not done after 0\.05 s"):
            with limit_time(0.05, called_from=__file__):
                threading.Event().wait(60)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        with pytest.raises(KeyboardInterrupt), limit_time(60, called_from=__file__):
            signal.raise_signal(signal.SIGINT)
        with limit_time(60, called_from=__file__):
            pass
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_block_that_swallows_the_interrupt_or_ends_with_it_is_out_of_time_all_the_same():
    with pytest.raises(RuleTimeoutError), limit_time(0.05, called_from=__file__):
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait(60)
    for _ in range(30):
        with contextlib.suppress(RuleTimeoutError), limit_time(0.002, called_from=__file__):
            threading.Event().wait(0.002)
    threading.Event().wait(0.01)  # nothing is on its way any more


def test_in_another_thread_there_is_no_limit():
    told = []

    def work():
        with limit_time(0.01, called_from=__file__):
            threading.Event().wait(0.05)
        told.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert told == ["done"]


def test_a_limit_that_is_none_is_refused():
    with pytest.raises(UsageError, match="rule_seconds is 0, not a number above 0"):
        check_conformance(breakers.Doubles, only=["loads"], rule_seconds=0)
