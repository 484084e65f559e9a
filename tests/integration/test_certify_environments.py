"""Certify finds the defect of every unsound environment, and none in the sound ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from castform.certify.certification import CertifyOptions
from castform.certify.certify import certify_environment

HERE = Path(__file__).parents[1] / "environments"
OPTIONS = CertifyOptions(examples=12)
BARE = {"false_fail_gold_box", "false_fail_gold_sentence"}
"""Reads a reply that is the answer and nothing else, so a box or a sentence around it is another answer."""
TAGS = {"false_fail_gold_box", "reward_pays_retracted"}
"""Reads the last answer tags, whatever is said after them; a box inside them is another answer."""
CASE = {"false_fail_gold_case"}
"""Upper and lower case are different answers here."""
WARNED: dict[str, set[str]] = {
    **dict.fromkeys(
        (
            "anagrams", "any_divisor", "date_formatting", "guess_game", "json_output", "multiple_choice",
            "parity", "partial_credit", "ranked_group", "regex_extraction", "short_summary", "sorting",
        ),
        BARE,
    ),
    **dict.fromkeys(("citations", "divisor_sets", "expression_target", "integer_sums"), TAGS),
    "decimals_with_units": {"false_fail_gold_box"},  # looks for "Answer: 3 m", and a box is in between
    "latex_answers": {"reward_pays_negated"},  # reads the last box, whatever is said of it
    "polite_exchange": set(),
    "roman_numerals": CASE,
    "stock_lookup": set(),
    "string_reversal": TAGS | CASE,
}  # fmt: skip
"""The warnings that hold for a sound environment, by its name, and why."""

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
    "any_expression": BARE | {"reward_pays_constant"},
    "blocking_reward": BARE | {"blocking_call"},
    "bool_of_text": {"reward_pays_"},
    "clock_in_reward": BARE | {"false_fail_gold_newline", "false_fail_gold_spaces"},
    "constant_majority": BARE,
    "duplicated_rows": BARE,
    "empty_paid": BARE | {"gold_not_paid"},
    "echo_paid": TAGS | {"reward_pays_shotgun_full"},
    "error_is_full_marks": {"reward_pays_", "gold_not_paid"},
    "global_random": BARE | {"global_random_call", "false_fail_gold_newline", "false_fail_gold_spaces"},
    "leaked_eval": BARE,
    "length_paid": BARE,
    "lists_everything": {"reward_pays_", "false_fail_gold_box"},
    "mutated_payload": BARE,
    "nan_accepted": BARE,
    "prefix_match": BARE,
    "shared_state": BARE | {"state_carried_over", "nondeterministic"},
    "substring_both_ways": {"reward_pays_", "gold_not_paid"},
}
"""What else holds for it, or shows the same defect, by the beginning of the code. All else is a false alarm."""


def certify(path):
    return certify_environment(str(path), options=OPTIONS)


def found_codes(certification):
    return {finding.code for finding in certification.findings if finding.level in ("fault", "warning")}


def test_every_environment_here_is_tested():
    assert {path.stem for path in (HERE / "unsound").glob("*.py")} == set(DEFECTS)
    assert {path.stem for path in (HERE / "sound").glob("*.py")} == set(WARNED)
    assert len(WARNED) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((HERE / "sound").glob("*.py")), ids=lambda path: path.stem)
def test_a_sound_environment_gets_no_fault_and_no_false_alarm(path):
    certification = certify(path)
    assert found_codes(certification) <= WARNED[path.stem], certification.findings
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
