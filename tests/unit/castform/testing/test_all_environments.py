"""Every sound environment of tests/environments conforms, and every unsound reward is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from castform.testing import check_conformance

HERE = Path(__file__).parents[3] / "environments"
SOUND = sorted((HERE / "sound").glob("*.py"))
NOT_OF_THE_RULES = {"blocking_reward", "constant_majority", "duplicated_rows", "leaked_eval"}
"""Defects of speed and of data, which `castform env certify` finds."""
OTHER_RULES = {
    "clock_in_reward": "deterministic_rewards",
    "global_random": "no_global_randomness",
    "mutated_payload": "independent_rollouts",
    "raises_on_junk": "any_answer_is_scored",
    "shared_state": "independent_rollouts",
}
UNSOUND = sorted(path for path in (HERE / "unsound").glob("*.py") if path.stem not in NOT_OF_THE_RULES)


@pytest.mark.slow
@pytest.mark.parametrize("path", SOUND, ids=[path.stem for path in SOUND])
def test_a_sound_environment_keeps_every_rule(path):
    report = check_conformance(path)
    assert [result.describe() for result in report.results if result.state != "held"] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", UNSOUND, ids=[path.stem for path in UNSOUND])
def test_an_unsound_environment_breaks_the_rule_of_its_defect(path):
    rule = OTHER_RULES.get(path.stem, "probes_at_the_floor")
    [result] = check_conformance(path, only=[rule]).results
    assert (result.rule, result.state) == (rule, "broken")
