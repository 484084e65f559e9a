"""Each rule is broken by an environment that breaks it, by its name, and by no sound one."""

from __future__ import annotations

import decimal
import os
import re
import socket
from pathlib import Path

import breakers
import pytest

from castform.testing.conformance import RULES, check_conformance

UNSOUND = Path(__file__).parents[3] / "environments" / "unsound"
SMALL = {"examples": 3, "scripts": 8}
BROKEN = [
    ("stable_identity", breakers.FreshIds, "3 of 3 examples have other ids"),
    ("stable_identity", breakers.FreshPayloads, r"1 of 3 examples .* another payload \[example double-4\]"),
    ("fixed_order", breakers.Shuffled, r"another order, from place 1 on \[example double-\d"),
    ("max_examples", breakers.IgnoresMax, r"create_dataset\(max_examples=1\) gave 37 examples"),
    ("max_examples", breakers.SamplesMax, "are not the first of the 3 of max_examples=3"),
    ("same_first_observation", breakers.CountsSiblings, r"different first observations.*\[example double-"),
    ("independent_rollouts", UNSOUND / "shared_state.py", "correct is 1 alone and 0.3"),
    ("independent_rollouts", UNSOUND / "mutated_payload.py", "change the payload"),
    ("finite_rewards", breakers.PaysInfinity, "reward 'correct' must be finite, not inf"),
    ("deterministic_rewards", UNSOUND / "clock_in_reward.py", "scored again, .* early was"),
    ("gold_is_paid", breakers.WrongGold, "earns no more than any wrong one on 3 of 3 examples"),
    (
        "gold_is_paid",
        breakers.HalfGold,
        r"earns 0.5 on 1 of 3 .* others' right answers earn 1 \[example double-4\]",
    ),
    ("gold_is_paid", breakers.GoldRaises, r"gold\(\) raised KeyError: 'answer_key'"),
    (
        "probes_at_the_floor",
        UNSOUND / "empty_paid.py",
        "earns as much as the right answer.*probe none.*empty",
    ),
    ("probes_at_the_floor", UNSOUND / "prefix_match.py", "common_start"),
    ("any_answer_is_scored", UNSOUND / "raises_on_junk.py", "fails to score.*invalid literal for int"),
    ("no_global_randomness", UNSOUND / "global_random.py", r"global random.*global_random.py:\d+"),
    ("typed_outcomes", breakers.FragileTool, r"ends with tool_error.*IndexError.*share\(.*n.*-"),
    ("typed_outcomes", UNSOUND / "raises_on_junk.py", "ends with reward_error"),
    ("faults_are_no_scores", breakers.FailureIsZero, "with HTTP 400 .* is scored 0, though the model never"),
    ("clean_cancel", breakers.LeavesTask, r"cancelled during model call 1 there is left: task watcher"),
    ("clean_cancel", breakers.LeavesFiles, "there is left: temporary file scratch-"),
    ("clean_timeout", breakers.LeavesFiles, "ran out of time there is left: temporary file scratch-"),
    ("clean_timeout", breakers.LocksUp, "works no more.*the simulator is in use"),
    ("nothing_left_behind", breakers.KeepsFile, r"open file .*breakers.py \(8 of them\)"),
    ("nothing_left_behind", breakers.KeepsThread, r"thread grader \(8 of them\)"),
    ("nothing_left_behind", breakers.KeepsProcess, r"child process .*-S -c import time; time.sleep\(60\)"),
    ("process_state_kept", breakers.SetsPrecision, r"the decimal context \(\(28, .*\(7, "),
    ("process_state_kept", breakers.SetsVariable, r"os.environ \(DOUBLES_SEEN\)"),
    ("pickles", breakers.HoldsLock, "cannot be pickled: TypeError: cannot pickle '_thread.lock'"),
    ("no_network", breakers.CallsHome, "reaches for 192.0.2.7:443, scores.example.org:443"),
]


@pytest.fixture(autouse=True)
def _let_go():
    yield
    for stop in breakers.STOPS:
        stop.set()
    for process in breakers.PROCESSES:
        process.kill()
        process.wait()
    breakers.STOPS.clear()
    breakers.PROCESSES.clear()


@pytest.mark.parametrize(
    "rule, environment, told",
    BROKEN,
    ids=[f"{rule}-{getattr(e, '__name__', None) or e.stem}" for rule, e, _ in BROKEN],
)
def test_a_broken_rule_is_named_with_what_was_seen_and_the_way_out(rule, environment, told):
    only = [rule] if rule != "no_network" else ["process_state_kept", rule]  # it judges what the others did
    if rule == "stable_identity":
        only = ["loads", rule]
    report = check_conformance(environment, only=only, **SMALL)
    [broken] = report.broken
    assert broken.rule == rule
    text = broken.describe()
    assert text.startswith(f"{rule}:\n")
    assert re.search(told, text, re.DOTALL), text
    assert "way out: " in text


def test_every_rule_has_an_environment_here_that_breaks_it():
    elsewhere = {"loads", "no_heavy_import"}
    assert {rule for rule, _, _ in BROKEN} | elsewhere == {rule.name for rule in RULES}


def test_what_an_environment_changed_is_put_back():
    before = decimal.getcontext().prec
    check_conformance(breakers.SetsPrecision, only=["process_state_kept"], **SMALL)
    check_conformance(breakers.SetsVariable, only=["process_state_kept"], **SMALL)
    assert decimal.getcontext().prec == before
    assert "DOUBLES_SEEN" not in os.environ
    assert "connect" not in vars(socket.socket)
    assert socket.getaddrinfo.__module__ == "socket"


def test_a_pool_that_fills_up_is_not_left_behind():
    [result] = check_conformance(breakers.FillsPool, only=["nothing_left_behind"], **SMALL).results
    assert result.state == "held", result.describe()
    assert len(breakers.STOPS) == 4


def test_a_rule_without_what_it_needs_is_not_checked_and_says_so():
    report = check_conformance(breakers.NoGold, only=["gold_is_paid", "probes_at_the_floor"], **SMALL)
    [result] = report.not_checked
    assert result.rule == "gold_is_paid"
    assert "gives no right answers" in result.reason
    assert "not checked: the environment gives no right answers" in report.describe()
