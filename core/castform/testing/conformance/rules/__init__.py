"""The rules that every environment keeps, in the order in which they are checked."""

from __future__ import annotations

from castform.testing.conformance.rule import Rule
from castform.testing.conformance.rules import dataset, packaging, process, replies, rewards, rollouts

RULES: tuple[Rule, ...] = (
    Rule(name="loads", promise="the environment gives examples", check=dataset.check_loads),
    Rule(
        name="stable_identity",
        promise="ids and payloads are the same over two builds and in another process",
        check=dataset.check_identity,
    ),
    Rule(name="fixed_order", promise="examples come in the same order every time", check=dataset.check_order),
    Rule(
        name="max_examples",
        promise="max_examples=n gives the first n of the whole",
        check=dataset.check_max_examples,
    ),
    Rule(
        name="same_first_observation",
        promise="all members of a group send the same first request",
        check=rollouts.check_first_observation,
    ),
    Rule(
        name="independent_rollouts",
        promise="a rollout does not depend on what runs beside it or ran before it",
        check=rollouts.check_independence,
    ),
    Rule(name="finite_rewards", promise="rewards are finite numbers with names", check=rewards.check_finite),
    Rule(
        name="deterministic_rewards",
        promise="the same transcript earns the same twice",
        check=rewards.check_determinism,
    ),
    Rule(name="gold_is_paid", promise="the right answer is paid in full", check=rewards.check_gold),
    Rule(
        name="probes_at_the_floor",
        promise="no lazy or gaming answer is paid like the right one",
        check=rewards.check_probes,
    ),
    Rule(
        name="any_answer_is_scored",
        promise="whatever the model says, the reward is a number and no exception",
        check=rewards.check_scoring,
    ),
    Rule(
        name="no_global_randomness",
        promise="nothing draws from the random generators that the process shares",
        check=rollouts.check_randomness,
    ),
    Rule(
        name="typed_outcomes",
        promise="random replies, tool calls and faults end in one typed outcome a request",
        check=replies.check_typed_outcomes,
    ),
    Rule(
        name="faults_are_no_scores",
        promise="a model server that fails costs the rollout its score, and never makes one",
        check=replies.check_faults,
    ),
    Rule(
        name="clean_cancel",
        promise="a group that is cancelled during a model call ends and leaves nothing",
        check=process.check_cancel,
    ),
    Rule(
        name="clean_timeout",
        promise="a group that runs out of time ends, leaves nothing, and the next one runs",
        check=process.check_timeout,
    ),
    Rule(
        name="nothing_left_behind",
        promise="rollouts leave no task, open file, thread, process or temporary file",
        check=process.check_leftovers,
    ),
    Rule(
        name="process_state_kept",
        promise="environment variables, folder, decimals, signals and the like stay as they were",
        check=process.check_state,
    ),
    Rule(
        name="pickles",
        promise="the environment and its examples survive cloudpickle",
        check=packaging.check_pickling,
    ),
    Rule(
        name="no_heavy_import",
        promise="loading the environment imports neither torch, transformers nor vllm",
        check=packaging.check_imports,
    ),
    Rule(
        name="no_network",
        promise="nothing reaches beyond this machine",
        check=packaging.check_network,
    ),
)
