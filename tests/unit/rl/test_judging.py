"""A failed, stale or untrainable member leaves the loss and the baseline; it is never a number."""

from __future__ import annotations

from castform.calls import ModelCall
from castform.rollouts import Rollout, RolloutGroup
from castform_trainer.rl.advantage import AdvantageConfig, compute_advantages
from castform_trainer.rl.judging import judge_group


def make_rollout(sample, score, *, reason="finished", version=3, calls=None, **changes):
    call = ModelCall(
        **{
            "call_id": f"c{sample}",
            "session_id": f"g-{sample}",
            "index": 0,
            "messages": [],
            "reply": {},
            "finish_reason": "stop",
            "prompt_ids": (1, 2),
            "sampled_ids": (5, 6 + sample),
            "logprobs": (-0.5, -0.25),
            "version": version,
            **changes,
        }
    )
    return Rollout(
        rollout_id=f"g-{sample}",
        example_id="e",
        sample=sample,
        split="train",
        rewards={} if score is None else {"correct": score},
        score=score,
        termination_reason=reason,
        calls=[call] if calls is None else calls,
    )


def judge(rollouts, **config):
    group = RolloutGroup(group_id="g", example_id="e", rollouts=tuple(rollouts))
    return judge_group(group, AdvantageConfig(**config), version=3)


def texts(judged):
    return {key: str(value) for key, value in judged.dispositions.items()}


def test_members_are_trained_with_their_groups_advantages():
    judged = judge([make_rollout(0, 1.0), make_rollout(1, 0.0)])
    assert [sequence.advantage for sequence in judged.sequences] == [0.5, -0.5]
    assert judged.sequences[1].ids == (1, 2, 5, 7)
    assert judged.sequences[1].mask == (0, 0, 1, 1)
    assert judged.sequences[1].logprobs[2:] == (-0.5, -0.25)
    assert texts(judged) == {"g-0": "trained", "g-1": "trained"}


def test_with_91_percent_failures_the_survivors_learn_as_if_alone():
    scores = [0.1, 0.7, 0.4]
    survivors = [make_rollout(index, score) for index, score in enumerate(scores)]
    failed = [make_rollout(10 + index, None, reason="sandbox_error") for index in range(31)]
    judged = judge([*failed[:20], *survivors, *failed[20:]])
    assert [sequence.advantage for sequence in judged.sequences] == compute_advantages(scores)
    assert [s.advantage for s in judge(survivors).sequences] == [s.advantage for s in judged.sequences]
    assert list(texts(judged).values()).count("failed(sandbox_error)") == 31


def test_equal_scores_are_filtered_for_want_of_signal():
    judged = judge([make_rollout(0, 1.0), make_rollout(1, 1.0), make_rollout(2, None, reason="tool_error")])
    assert not judged.has_signal
    assert texts(judged) == {
        "g-0": "filtered(no_signal)",
        "g-1": "filtered(no_signal)",
        "g-2": "failed(tool_error)",
    }


def test_too_few_scored_members_are_filtered():
    judged = judge([make_rollout(0, 1.0), make_rollout(1, None, reason="model_error")])
    assert texts(judged) == {"g-0": "filtered(too_few_valid)", "g-1": "failed(model_error)"}


def test_a_member_sampled_by_another_version_is_stale_and_leaves_the_baseline():
    judged = judge([make_rollout(0, 1.0), make_rollout(1, 0.0), make_rollout(2, 0.5, version=2)])
    assert texts(judged)["g-2"] == "stale"
    assert [sequence.advantage for sequence in judged.sequences] == [0.5, -0.5]


def test_a_member_without_token_data_is_failed_with_the_field_named():
    judged = judge([make_rollout(0, 1.0), make_rollout(1, 0.0), make_rollout(2, 0.5, logprobs=None)])
    assert texts(judged)["g-2"] == "failed(untrainable:logprobs)"


def test_a_member_that_sampled_nothing_is_failed():
    judged = judge([make_rollout(0, 1.0), make_rollout(1, 0.0), make_rollout(2, 0.5, calls=[])])
    assert texts(judged)["g-2"] == "failed(no_sampled_tokens)"
