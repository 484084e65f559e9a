"""Faults that were reported on runners of Harbor tasks, and the test that holds each one here.

The numbers are those of the public reports (H: the Harbor repository). What a sandbox has to hold,
whatever runs in it, is in castform.testing.sandboxes and the providers' own tests.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HELD = {
    "H#776: a background child of the tests kept the verifier waiting": (
        "test_trial.py",
        "test_a_background_child_of_the_tests_keeps_nobody_waiting",
    ),
    "H#1119, SkyRL#1160: a cancelled run left its boxes": (
        "test_sandboxed.py",
        "test_ctrl_c_leaves_no_box_behind",
    ),
    "H#1447, stella#2131: what ran out of time ran on, under the verifier": (
        "test_sandboxed.py",
        "test_an_oracle_that_runs_out_of_time_is_ended_inside_with_all_it_started",
    ),
    "pier#51, verifiers#2152: the agent wrote its own reward": (
        "test_sandboxed.py",
        "test_nothing_of_an_agents_is_a_reward",
    ),
    "H#1655: an artifact carried a reward into the verifier's box": (
        "test_trial.py",
        "test_an_artifact_is_no_way_to_plant_a_reward",
    ),
    "H#1367: a file that was made beforehand broke the redirection": (
        "test_trial.py",
        "test_a_planted_reward_is_none",
    ),
    "H#771, PostTrainBench#68: test output in the reward file, and an error that did not show it": (
        "test_rewards.py",
        "test_anything_else_is_an_error_that_shows_what_was_there",
    ),
    "verifiers#2067, reef#215: bare numbers ignored, several names read as zero": (
        "test_rewards.py",
        "test_finite_numbers_are_rewards",
    ),
    "verifiers#1674: which file counts changed silently": (
        "test_rewards.py",
        "test_json_counts_before_text_and_a_disagreement_is_reported",
    ),
    "jacobian#831: names given twice": (
        "test_rewards.py",
        "test_a_key_that_is_named_twice_is_reported",
    ),
    "H#2053: a truncated result broke the whole resume": (
        "test_job.py",
        "test_a_second_run_runs_only_what_has_no_reward",
    ),
    "vero#23: what was finished was thrown away with what was not": (
        "test_job.py",
        "test_a_job_that_is_cancelled_closes_every_box_and_keeps_what_it_had",
    ),
    "VSS#833: two runs in one folder": (
        "test_job.py",
        "test_two_processes_do_not_run_one_job",
    ),
    "one task that cannot be made cancelled all others": (
        "test_job.py",
        "test_one_task_that_cannot_be_run_costs_the_others_nothing",
    ),
    "resume deleted trials, then found that the tasks had changed": (
        "test_job.py",
        "test_a_task_that_changed_is_not_mixed_with_its_past",
    ),
    "miles#2228, OpenEnv#1036: the outer limit fired before the inner one": (
        "test_trial.py",
        "test_an_agent_that_ignores_its_limit_is_given_up_and_verified",
    ),
    "cookbook#692, NeMo#1792: what a timeout with a reward means, and an error hidden in a step": (
        "test_steps.py",
        "test_an_agent_that_runs_out_of_time_goes_on_to_the_next_step",
    ),
    "agent-fleet#36: an exit code after success cost the reward": (
        "test_trial.py",
        "test_the_agents_own_endings_keep_what_it_earned",
    ),
    "agenc-core#2517: the agent is not told its limit": (
        "test_trial.py",
        "test_the_agent_is_told_what_the_task_says",
    ),
    "H#1566: state of one step in the next": (
        "test_steps.py",
        "test_no_step_sees_the_tests_of_an_earlier_one",
    ),
    "H#2323: keys in the files of a job": (
        "test_trial.py",
        "test_secrets_do_not_stay_in_the_files",
    ),
    "agent-fleet#197: 100 MB of test output in memory and on disk": (
        "test_trial.py",
        "test_output_that_is_too_large_costs_the_log_and_not_the_reward",
    ),
    "inspect_ai#4709: a dead box scored as a failed task": (
        "test_trial.py",
        "test_a_box_that_dies_under_the_agent_is_no_zero",
    ),
    "an unknown error kept the reward as valid": (
        "test_trial.py",
        "test_what_is_not_the_agents_doing_leaves_no_reward",
    ),
    "a reward file that is a link, a pipe, or huge": (
        "test_rewards.py",
        "test_a_huge_file_is_refused_unread",
    ),
    "misspelt keys did nothing, silently": (
        "test_task_parsing.py",
        "test_unknown_keys_are_named_with_their_place",
    ),
}


@pytest.mark.parametrize("fault", HELD)
def test_a_reported_fault_has_a_test(fault):
    file, name = HELD[fault]
    tree = ast.parse((Path(__file__).parent / file).read_text())
    tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in tests
