"""Certify finds the defect of every unsound environment, and none in the sound ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from castform.certify.certification import CertifyOptions
from castform.certify.certify import certify_environment

HERE = Path(__file__).parents[1] / "environments"
OPTIONS = CertifyOptions(examples=12)
TRUE_OF_STRICT_ONES = ("false_fail_", "reward_pays_retracted", "reward_pays_negated")
"""Warnings that hold for a sound environment which reads one form of an answer, or the last block only."""

DEFECTS: dict[str, set[str]] = {
    "any_expression": {"reward_pays_other_answer"},
    "blocking_reward": {"blocks_event_loop"},
    "bool_of_text": {"reward_pays_dont_know", "reward_pays_junk", "reward_pays_other_answer"},
    "clock_in_reward": {"nondeterministic"},
    "constant_majority": {"constant_answer"},
    "duplicated_rows": {"duplicate_rows"},
    "echo_paid": {"reward_pays_echo"},
    "empty_paid": {"reward_pays_none", "reward_pays_empty"},
    "error_is_full_marks": {"reward_pays_junk", "failure_becomes_score"},
    "global_random": {"global_randomness", "nondeterministic"},
    "leaked_eval": {"eval_leak"},
    "length_paid": {"reward_pays_junk", "reward_pays_flood"},
    "lists_everything": {"reward_pays_shotgun_list"},
    "mutated_payload": {"payload_mutated"},
    "nan_accepted": {"reward_pays_nan"},
    "prefix_match": {"reward_pays_common_start"},
    "raises_on_junk": {"reward_raises"},
    "shared_state": {"rollouts_interfere"},
    "substring_both_ways": {"reward_pays_empty", "two_way_substring"},
}
"""What must be found, fault or warning; a reward that pays anything pays more than one probe."""
AND_ALSO: dict[str, set[str]] = {
    "any_expression": {"reward_pays_constant"},
    "blocking_reward": {"blocking_call"},
    "bool_of_text": {"reward_pays_"},
    "empty_paid": {"gold_not_paid"},
    "echo_paid": {"reward_pays_shotgun_full"},
    "error_is_full_marks": {"reward_pays_", "gold_not_paid"},
    "global_random": {"global_random_call"},
    "lists_everything": {"reward_pays_"},
    "raises_on_junk": set(),
    "shared_state": {"state_carried_over", "nondeterministic"},
    "substring_both_ways": {"reward_pays_", "gold_not_paid"},
}
"""What the same defect may show as besides, by the beginning of the code. Anything else is a false alarm."""


def certify(path):
    return certify_environment(str(path), options=OPTIONS)


def found_codes(certification):
    return {
        finding.code
        for finding in certification.findings
        if finding.level in ("fault", "warning") and not finding.code.startswith(TRUE_OF_STRICT_ONES)
    }


def test_every_environment_here_is_tested():
    assert {path.stem for path in (HERE / "unsound").glob("*.py")} == set(DEFECTS)
    assert len(list((HERE / "sound").glob("*.py"))) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((HERE / "sound").glob("*.py")), ids=lambda path: path.stem)
def test_a_sound_environment_gets_no_fault_and_no_false_alarm(path):
    certification = certify(path)
    assert found_codes(certification) == set(), certification.findings
    assert certification.passed
    assert certification.probes.gold.scored == certification.examples


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_the_defect_of_an_unsound_environment_is_found_and_nothing_else(name):
    certification = certify(HERE / "unsound" / f"{name}.py")
    found = found_codes(certification)
    assert DEFECTS[name] <= found, certification.findings
    besides = tuple(AND_ALSO.get(name, ()))
    others = {code for code in found - DEFECTS[name] if not code.startswith(besides)}
    assert others == set(), certification.findings
