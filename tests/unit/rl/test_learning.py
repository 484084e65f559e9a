"""Closed-form test 19: a toy bandit is learned, and not with a broken sign or mask."""

from __future__ import annotations

import pytest
import torch

from castform.config import LoraSection, OptimizerSection, RlSection
from castform_trainer.losses import LossTerms, make_loss
from castform_trainer.models import load_causal_lm
from castform_trainer.rl.advantage import compute_advantages
from castform_trainer.rl.batch import make_batch
from castform_trainer.rl.policy import Policy
from castform_trainer.rl.sequence import TrainSequence
from castform_trainer.testing import make_tiny_model

PROMPT = [1, 50, 51]
GROUP = 16
STEPS = 30
START = 0.1
"""Chance of a paying arm before training."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    return make_tiny_model(tmp_path_factory.mktemp("model"), layers=1, width=32)


def play(folder, loss, *, mask=(0, 0, 0, 1)):
    """Train on one state and return the chance of a right arm at the end."""
    base = load_causal_lm(folder, device="cpu", dtype="float32")
    base.get_input_embeddings().weight.mul_(4.0)  # tied to the head: the tiny model can be sure of one arm
    policy = Policy(
        base,
        lora=LoraSection(rank=8, alpha=16.0),
        optimizer=OptimizerSection(learning_rate=2e-2, warmup_steps=0),
    )
    draw = torch.Generator().manual_seed(0)
    paying = pick_paying_arms(arm_chances(policy))
    for _ in range(STEPS):
        chances = arm_chances(policy)
        arms = torch.multinomial(chances, GROUP, replacement=True, generator=draw).tolist()
        advantages = compute_advantages([float(arm in paying) for arm in arms])
        sequences = [
            TrainSequence(
                ids=[*PROMPT, arm],
                mask=mask,
                logprobs=[0.0, -5.0, -5.0, float(chances[arm].log())],
                advantage=advantage,
                rollout=str(index),
            )
            for index, (arm, advantage) in enumerate(zip(arms, advantages))
        ]
        policy.update([make_batch(sequences, tokens_per_microbatch=256)], loss)
    return float(arm_chances(policy)[paying].sum())


def pick_paying_arms(chances):
    """Return arms, none of them likely, that together have about the chance START."""
    arms, total = [], 0.0
    for arm, chance in enumerate(chances.tolist()):
        if chance < START / 4 and total < START:
            arms.append(arm)
            total += chance
    return arms


def arm_chances(policy):
    with torch.no_grad():
        return policy.model(torch.tensor([PROMPT])).logits[0, -1].softmax(-1)


def test_grpo_learns_the_bandit(folder):
    assert play(folder, make_loss(RlSection())) > 0.95


def test_a_broken_sign_does_not_learn_it(folder):
    sound = make_loss(RlSection())

    def broken(new, old, sampler, advantages) -> LossTerms:
        return sound(new, old, sampler, -advantages)

    assert play(folder, broken) < 0.2


def test_a_mask_on_the_prompt_does_not_learn_it(folder):
    assert play(folder, make_loss(RlSection()), mask=(0, 1, 1, 0)) < 0.9
