"""The canary stops a run whose engine does not serve the policy that was trained, and says what it serves."""

from __future__ import annotations

import pytest
import torch

from castform.config import LoraSection, OptimizerSection
from castform.errors import RunFailedError
from castform_trainer.learning.canary import CANARY_TOKENS, make_canary_ids
from castform_trainer.models import load_causal_lm
from castform_trainer.rl.canary import Canary, score_with_policy
from castform_trainer.rl.policy import Policy
from castform_trainer.testing import make_tiny_model, make_tiny_tokenizer

IDS = make_canary_ids(make_tiny_tokenizer())


class ServedValues:
    """The part of an engine that the canary asks: it answers with whatever was put in."""

    def __init__(self, values):
        self.values = values

    async def logprobs(self, ids, *, version=None):
        return self.values


@pytest.fixture
def policy(tmp_path):
    torch.set_num_threads(1)
    base = load_causal_lm(make_tiny_model(tmp_path), device="cpu", dtype="float32")
    return Policy(base, lora=LoraSection(rank=2, alpha=4.0), optimizer=OptimizerSection())


def move(policy, seed):
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.parameters.values():
            weight.copy_(0.2 * torch.randn(weight.shape, generator=draw))


def test_it_scores_a_fixed_number_of_fixed_tokens(policy):
    assert len(IDS) == CANARY_TOKENS
    assert make_canary_ids(make_tiny_tokenizer()) == IDS
    scores = score_with_policy(policy, IDS)
    with torch.no_grad():
        rows = policy.model(torch.tensor([IDS])).logits[0].log_softmax(-1)
    assert scores == pytest.approx([float(rows[i, t]) for i, t in enumerate(IDS[1:])], abs=1e-5)


async def test_an_engine_that_serves_the_policy_passes_and_the_movement_is_told(policy):
    canary = Canary(IDS, policy, dtype="float32")
    assert (await canary.check(ServedValues(score_with_policy(policy, IDS)), version=0)).moved == 0
    move(policy, 1)
    reading = await canary.check(ServedValues(score_with_policy(policy, IDS)), version=1)
    assert reading.gap == 0 and reading.moved > 0.01


async def test_an_engine_that_serves_something_else_is_named(policy):
    canary = Canary(IDS, policy, dtype="float32")
    base = score_with_policy(policy, IDS)
    move(policy, 1)
    first = score_with_policy(policy, IDS)
    await canary.check(ServedValues(first), version=1)
    move(policy, 2)
    with pytest.raises(RunFailedError, match="still answers as version 1"):
        await canary.check(ServedValues(first), version=2)
    with pytest.raises(RunFailedError, match="base model without any adapter"):
        await canary.check(ServedValues(base), version=2)
    with pytest.raises(RunFailedError, match="match no version"):
        await canary.check(ServedValues([value - 1 for value in base]), version=2)
    with pytest.raises(RunFailedError, match="nan nats"):
        await canary.check(ServedValues([float("nan")] * len(base)), version=2)


@pytest.mark.parametrize("fault", ["scale", "dropped module"])
async def test_a_changed_scale_or_a_dropped_module_is_caught(policy, fault):
    canary = Canary(IDS, policy, dtype="float32")
    move(policy, 1)
    served = score_with_policy(policy, IDS)
    for module in policy.model.modules():
        if fault == "scale" and isinstance(getattr(module, "scaling", None), dict):
            module.scaling["default"] *= 1.1
    if fault == "dropped module":
        with torch.no_grad():
            next(weight for name, weight in policy.parameters.items() if "lora_B" in name).zero_()
    with pytest.raises(RunFailedError, match="disagrees with the trainer"):
        await canary.check(ServedValues(served), version=1)
