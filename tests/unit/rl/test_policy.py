"""Closed-form test 13 and what an update promises: LoRA alone moves, the base never does."""

from __future__ import annotations

import copy
import hashlib
import math

import pytest
import torch

from castform.config import LoraSection, OptimizerSection, RlSection
from castform.errors import RunFailedError
from castform_trainer.learning.lora import LoraLinear
from castform_trainer.losses import make_loss
from castform_trainer.models import load_causal_lm
from castform_trainer.rl.batch import make_batch
from castform_trainer.rl.policy import Policy
from castform_trainer.rl.sequence import TrainSequence
from castform_trainer.testing import make_tiny_model

IDS = [1, 70, 80, 90, 71, 81, 2]
LOSS = make_loss(RlSection())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    return make_tiny_model(tmp_path_factory.mktemp("model"))


def make_policy(folder, **options):
    base = load_causal_lm(folder, device="cpu", dtype=options.pop("dtype", "float32"))
    optimizer = OptimizerSection(learning_rate=options.pop("rate", 1e-2), warmup_steps=0)
    return Policy(base, lora=LoraSection(rank=4, alpha=8.0), optimizer=optimizer, **options)


def make_step(*, advantage=1.0, logprob=-5.0, repeat=1, dtype=torch.float32):
    count = len(IDS)
    sequences = [
        TrainSequence(
            ids=[*IDS[:3], *IDS[3:], 10 + index],
            mask=[0, 0, 0] + [1] * (count - 2),
            logprobs=[0.0] * 3 + [logprob] * (count - 2),
            advantage=advantage if index % 2 == 0 else -advantage,
            rollout=str(index),
        )
        for index in range(repeat)
    ]
    return make_batch(sequences, tokens_per_microbatch=64, dtype=dtype)


def base_digest(policy):
    digest = hashlib.sha256()
    for name, weight in sorted(policy.model.state_dict().items()):
        if "lora_" not in name:
            digest.update(name.encode() + weight.numpy().tobytes())
    return digest.hexdigest()


def logits(model, ids=IDS):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits


def test_a_new_adapter_leaves_the_model_exactly_as_it_was(folder):
    base = logits(load_causal_lm(folder, device="cpu", dtype="float32"))
    assert torch.equal(logits(make_policy(folder).model), base)


def test_the_base_keeps_every_bit_over_updates_and_saves(folder, tmp_path):
    policy = make_policy(folder)
    before = base_digest(policy)
    for number in range(5):
        policy.update([make_step(repeat=2)], LOSS)
        policy.save_adapter(tmp_path / str(number))
    assert base_digest(policy) == before


def test_a_saved_adapter_loaded_by_peft_gives_the_same_logits(folder, tmp_path):
    from peft import PeftModel

    policy = make_policy(folder)
    base = logits(policy.model)
    policy.update([make_step(repeat=2)], LOSS)
    policy.save_adapter(tmp_path / "adapter")
    loaded = PeftModel.from_pretrained(
        load_causal_lm(folder, device="cpu", dtype="float32"), str(tmp_path / "adapter")
    )
    trained = logits(policy.model)
    assert not torch.allclose(trained, base, atol=1e-3)
    assert torch.allclose(logits(loaded), trained, atol=1e-5)
    assert torch.allclose(logits(loaded.merge_and_unload()), trained, atol=1e-4)
    card = (tmp_path / "adapter" / "README.md").read_text()
    assert f"# Adapters for {folder.name}\n" in card
    assert str(folder.parent) not in card


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_the_fused_lora_product_is_pefts(folder, dtype):
    policy = make_policy(folder, dtype=dtype)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in policy.parameters.values():
            weight.copy_(0.2 * torch.randn(weight.shape, generator=draw))
    slow = copy.deepcopy(policy.model)
    for module in slow.modules():
        if type(module) is LoraLinear:
            del module.forward
    tolerance = {"float64": 1e-12, "float32": 1e-4, "bfloat16": 0.3}[dtype]
    results = []
    for model in (policy.model, slow):
        model.zero_grad()
        out = model(torch.tensor([IDS])).logits
        out.double().log_softmax(-1)[0, :, 7].sum().backward()
        results.append((out.detach(), [w.grad for _, w in model.named_parameters() if w.requires_grad]))
    (fast_out, fast_grads), (slow_out, slow_grads) = results
    assert torch.allclose(fast_out.double(), slow_out.double(), atol=tolerance)
    for fast, reference in zip(fast_grads, slow_grads):
        gap = float((fast - reference).norm() / (1e-9 + reference.norm()))
        assert gap < {"float64": 1e-6, "float32": 1e-3, "bfloat16": 0.1}[dtype]


def test_adapters_are_fp32_on_a_bf16_base_and_nothing_else_learns(folder):
    policy = make_policy(folder, dtype="bfloat16")
    assert {weight.dtype for weight in policy.parameters.values()} == {torch.float32}
    assert all("lora_" in name for name in policy.parameters)
    assert not any("lm_head" in name or "embed" in name for name in policy.parameters)
    stats = policy.update([make_step(repeat=2)], LOSS)[0]
    assert math.isfinite(stats.loss) and stats.grad_norm > 0


def test_updates_favour_what_was_rewarded_over_what_was_not(folder):
    policy = make_policy(folder)
    batch = make_step(repeat=2)
    with torch.no_grad():
        before = policy.score(batch.micro_batches[0])
    for _ in range(5):
        policy.update([batch], LOSS)
    with torch.no_grad():
        after = policy.score(batch.micro_batches[0])
    tokens = batch.micro_batches[0].pair_tokens_U.tolist()
    good, bad = tokens.index(10), tokens.index(11)
    assert after[good] - after[bad] > before[good] - before[bad] + 0.1


def test_one_batch_is_exactly_on_policy_and_later_ones_are_not(folder):
    policy = make_policy(folder)
    first, second = policy.update([make_step(repeat=2), make_step(repeat=2)], LOSS)
    assert first.ratio_mean == pytest.approx(1.0)
    assert second.ratio_mean != pytest.approx(1.0, abs=1e-4)
    assert policy.update([make_step(repeat=2)], LOSS)[0].ratio_mean == 1.0


def test_the_learning_rate_warms_up_and_then_stays(folder):
    base = load_causal_lm(folder, device="cpu", dtype="float32")
    optimizer = OptimizerSection(learning_rate=0.6, warmup_steps=2)
    policy = Policy(base, lora=LoraSection(rank=2), optimizer=optimizer)
    rates = []
    for policy.updates in range(5):
        rates.append(policy.learning_rate)
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.6, 0.6])


def test_a_linear_decay_ends_at_zero_after_the_last_update(folder):
    base = load_causal_lm(folder, device="cpu", dtype="float32")
    optimizer = OptimizerSection(learning_rate=0.6, warmup_steps=2, decay="linear")
    policy = Policy(base, lora=LoraSection(rank=2), optimizer=optimizer, total_updates=5)
    rates = []
    for policy.updates in range(7):
        rates.append(policy.learning_rate)
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.4, 0.2, 0.0, 0.0])


def test_a_gradient_that_is_not_finite_stops_the_run_and_changes_nothing(folder):
    policy = make_policy(folder)
    before = {name: weight.clone() for name, weight in policy.parameters.items()}
    with pytest.raises(RunFailedError, match="loss is nan"):
        policy.update([make_step(advantage=math.nan)], LOSS)
    assert all(torch.equal(before[name], weight) for name, weight in policy.parameters.items())
    assert policy.updates == 0


def test_state_goes_on_bit_for_bit(folder):
    straight, first, second = (make_policy(folder) for _ in range(3))
    for _ in range(4):
        straight.update([make_step(repeat=2)], LOSS)
    for _ in range(2):
        first.update([make_step(repeat=2)], LOSS)
    second.load_state(copy.deepcopy(first.state()))
    for _ in range(2):
        second.update([make_step(repeat=2)], LOSS)
    for name, weight in straight.parameters.items():
        assert torch.equal(second.parameters[name], weight)


def test_the_same_seed_gives_the_same_adapter(folder):
    one, same, other = (make_policy(folder, seed=seed) for seed in (1, 1, 2))
    name = next(name for name in one.parameters if "lora_A" in name)
    assert torch.equal(one.parameters[name], same.parameters[name])
    assert not torch.equal(one.parameters[name], other.parameters[name])


def test_a_sequence_beyond_a_sliding_window_is_refused(tmp_path):
    folder = make_tiny_model(tmp_path, "mistral", sliding_window=4)
    with pytest.raises(RunFailedError, match="attends within 4 only"):
        make_policy(folder).update([make_step()], LOSS)


@pytest.mark.parametrize("kind", ["llama", "gemma3", "mistral"])
def test_other_families_score_as_transformers_does(tmp_path, kind):
    policy = make_policy(make_tiny_model(tmp_path, kind))
    micro = make_step().micro_batches[0]
    with torch.no_grad():
        found = policy.score(micro)
    ids = [*IDS, 10]
    expected = logits(policy.model, ids)[0].log_softmax(-1)
    assert found.tolist() == pytest.approx([float(expected[t - 1, ids[t]]) for t in range(3, 8)], abs=1e-4)
