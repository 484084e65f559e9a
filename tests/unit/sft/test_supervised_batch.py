"""Closed-form tests 5, 11 and 17: one denominator, and packed, unpacked and padded rows are one and the same step."""

from __future__ import annotations

import json
import random

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from castform.errors import UsageError
from castform.sft.config import SftConfig
from castform_trainer.losses.supervised import divide_weights, supervised_loss
from castform_trainer.models import load_causal_lm
from castform_trainer.sft.batch import Sample, make_batch
from castform_trainer.sft.isolation import check_isolation
from castform_trainer.sft.learner import SftLearner
from castform_trainer.testing import make_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module", params=["lora", "full"])
def learner(folder, request):
    return make_learner(folder, dtype="float64", run={"method": request.param})


def make_learner(folder, *, dtype="float32", steps=100, **sections):
    torch.set_num_threads(1)
    base = load_causal_lm(folder, device="cpu", dtype=dtype)
    if dtype == "float64":
        for module in list(base.modules()):
            for name, child in module.named_children():
                if type(child).__name__.endswith("RMSNorm"):  # computes in fp32 whatever it is given
                    double = torch.nn.RMSNorm(
                        child.weight.shape, eps=child.variance_epsilon, dtype=torch.float64
                    )
                    double.weight = child.weight
                    setattr(module, name, double)
    config = SftConfig.model_validate({"lora": {"rank": 4, "alpha": 8.0}, **sections})
    learner = SftLearner(base, config, seed=0, steps=steps, compute_dtype=getattr(torch, dtype))
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in learner.parameters.items():
            if "lora_" in name:
                weight.copy_(0.1 * torch.randn(weight.shape, generator=draw, dtype=torch.float64))
    return learner


def random_samples(seed, *, count=6):
    """Rows of one system prompt and of others, with fractional and zero weights and one-token turns."""
    draw = random.Random(seed)
    system = [1, 9, 8, 7]
    found = []
    for row in range(count):
        ids = list(system) if draw.random() < 0.6 else [draw.randrange(3, 40)]
        weights = [0.0] * len(ids)
        for _ in range(draw.randrange(1, 4)):
            length = draw.choice([1, 2, 5])
            ids += [draw.randrange(3, 6) for _ in range(length)]
            weights += [draw.choice([0.0, 1.0, 1.0, 0.25])] * length
        weights[-1] = 2.0
        found.append(Sample(row=row, ids=tuple(ids), weights=tuple(weights)))
    return found


def step_gradient(learner, samples, *, packing, tokens):
    learner.model.zero_grad()
    total = 0.0
    batch = make_batch(samples, tokens_per_microbatch=tokens, packing=packing, dtype=torch.float64)
    for micro in batch.micro_batches:
        loss = supervised_loss(learner.score_trained(micro), micro.tensors.weights_O)
        loss.backward()
        total += float(loss.detach())
    return total, {name: weight.grad.clone() for name, weight in learner.parameters.items()}


def padded_reference(learner, samples):
    """The same through plain transformers: right-padded rows and torch's own cross-entropy."""
    width = max(len(sample.ids) for sample in samples)
    ids = torch.tensor([[*s.ids, *[0] * (width - len(s.ids))] for s in samples])
    weights = torch.tensor([[*s.weights, *[0.0] * (width - len(s.ids))] for s in samples]).double()
    keep = torch.tensor([[1] * len(s.ids) + [0] * (width - len(s.ids)) for s in samples])
    learner.model.zero_grad()
    logits = learner.model(ids, attention_mask=keep).logits[:, :-1].double()
    nll = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    loss = (nll * weights[:, 1:].flatten()).sum() / weights[:, 1:].sum()
    loss.backward()
    return float(loss.detach()), {name: weight.grad.clone() for name, weight in learner.parameters.items()}


def assert_same_step(found, expected):
    assert found[0] == pytest.approx(expected[0], abs=1e-10)
    for name, gradient in expected[1].items():
        assert torch.allclose(found[1][name], gradient, rtol=0, atol=1e-10), name
    assert any(float(g.abs().max()) > 1e-4 for g in expected[1].values())


@pytest.mark.parametrize("seed", range(4))
def test_packed_unpacked_and_padded_rows_give_one_loss_and_one_gradient(learner, seed):
    samples = random_samples(seed)
    expected = padded_reference(learner, samples)
    for packing in (True, False):
        for tokens in (10_000, 30, 1):
            assert_same_step(step_gradient(learner, samples, packing=packing, tokens=tokens), expected)


def test_with_weights_of_one_it_is_the_loss_that_transformers_trains_on(learner):
    samples = [
        Sample(row=s.row, ids=s.ids, weights=tuple(float(w > 0) for w in s.weights))
        for s in random_samples(5)
    ]
    width = max(len(sample.ids) for sample in samples)
    ids = torch.tensor([[*s.ids, *[0] * (width - len(s.ids))] for s in samples])
    labels = torch.tensor(
        [
            [*(i if w else -100 for i, w in zip(s.ids, s.weights)), *[-100] * (width - len(s.ids))]
            for s in samples
        ]
    )
    with torch.no_grad():
        expected = float(learner.model(ids, labels=labels).loss)
    found, _ = step_gradient(learner, samples, packing=True, tokens=30)
    assert found == pytest.approx(expected, abs=1e-6)  # transformers takes the mean in fp32


def test_the_order_of_the_rows_does_not_matter(learner):
    samples = random_samples(7)
    expected = step_gradient(learner, samples, packing=True, tokens=24)
    assert_same_step(step_gradient(learner, samples[::-1], packing=True, tokens=24), expected)


def test_zero_two_one_on_nine_one_four_is_two():
    weights = torch.tensor(divide_weights([0, 2, 1]))
    assert float(supervised_loss(torch.tensor([-9.0, -1.0, -4.0]), weights)) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("weights", "word"), [([1, -0.5], "-0.5"), ([float("nan")], "nan"), ([0.0], "no token")]
)
def test_weights_without_a_sum_to_divide_by_are_refused(weights, word):
    with pytest.raises(ValueError, match=word):
        divide_weights(weights)


def test_the_denominator_is_that_of_the_whole_step():
    short = Sample(row=0, ids=(1, 5), weights=(0.0, 1.0))
    long = Sample(row=1, ids=(2, 6, 7, 8), weights=(0.0, 3.0, 2.0, 2.0))
    batch = make_batch([short, long], tokens_per_microbatch=2, packing=True)
    assert len(batch.micro_batches) == 2
    parts = {tuple(m.samples_O.tolist()): m.tensors.weights_O.tolist() for m in batch.micro_batches}
    assert parts[(0,)] == pytest.approx([1 / 8])
    assert parts[(1, 1, 1)] == pytest.approx([3 / 8, 2 / 8, 2 / 8])


def test_a_row_that_is_there_twice_counts_twice_and_is_computed_once():
    row = Sample(row=0, ids=(1, 5, 6, 2), weights=(0.0, 0.0, 1.0, 1.0))
    batch = make_batch([row, row], tokens_per_microbatch=64, packing=True)
    assert (batch.trained_tokens, batch.computed_tokens, batch.sample_tokens) == (4, 3, 8)


def test_a_shared_prompt_is_computed_once_and_rows_do_not_see_each_other():
    prompt = tuple(range(3, 53))
    rows = [Sample(row=i, ids=(*prompt, 100 + i, 2), weights=(*[0.0] * 50, 1.0, 1.0)) for i in range(4)]
    packed = make_batch(rows, tokens_per_microbatch=512, packing=True)
    alone = make_batch(rows, tokens_per_microbatch=512, packing=False)
    assert (packed.computed_tokens, alone.computed_tokens) == (50 + 4, 4 * 51)


def test_unpacked_rows_of_one_length_share_a_rectangle_within_the_budget():
    rows = [
        Sample(row=i, ids=(9,) * size, weights=(0.0, *[1.0] * (size - 1)))
        for i, size in enumerate([9, 5, 9, 3])
    ]
    batch = make_batch(rows, tokens_per_microbatch=16, packing=False)
    assert [(m.rows, len(m.tensors.ids_N)) for m in batch.micro_batches] == [(2, 16), (2, 8)]


@pytest.mark.parametrize("packing", [True, False])
def test_a_trained_first_token_is_refused(packing):
    with pytest.raises(ValueError, match="first token"):
        make_batch([Sample(row=0, ids=(1, 2), weights=(1.0, 1.0))], tokens_per_microbatch=16, packing=packing)


def test_a_held_out_loss_is_the_sum_of_each_row_whatever_the_cut(learner):
    samples = random_samples(11)
    found = [
        learner.measure(samples, tokens_per_microbatch=tokens, packing=packing)
        for tokens, packing in ((10_000, True), (20, True), (30, False))
    ]
    for sums in found:
        assert sums == pytest.approx(found[0], abs=1e-6)
    loss, _ = padded_reference(learner, samples)
    assert sum(found[0]) / sum(sum(s.weights) for s in samples) == pytest.approx(loss, abs=1e-7)
    assert learner.measure(samples, tokens_per_microbatch=64, packing=True, is_stopped=lambda: True) is None


def test_a_step_that_is_stopped_on_the_way_changes_nothing(folder):
    learner = make_learner(folder)
    before = {name: weight.clone() for name, weight in learner.parameters.items()}
    answers = iter([False, True])
    batch = make_batch(random_samples(0), tokens_per_microbatch=16, packing=True)
    assert learner.update(batch, lambda: next(answers)) is None
    assert learner.updates == 0
    assert all(torch.equal(weight, before[name]) for name, weight in learner.parameters.items())
    assert learner.update(batch).loss > 0
    assert not all(torch.equal(weight, before[name]) for name, weight in learner.parameters.items())


def test_full_finetuning_trains_every_weight_in_float32(folder):
    learner = make_learner(folder, run={"method": "full"})
    before = {name: weight.clone() for name, weight in learner.parameters.items()}
    learner.update(make_batch(random_samples(1), tokens_per_microbatch=512, packing=True))
    assert set(before) == {name for name, _ in learner.model.named_parameters()}
    assert all(weight.dtype == torch.float32 for weight in before.values())
    still = [name for name, weight in learner.parameters.items() if torch.equal(weight, before[name])]
    assert still == []


def test_attention_passes_the_isolation_probe_and_a_layer_that_reads_on_does_not(folder):
    learner = make_learner(folder)
    samples = random_samples(2, count=3)
    check_isolation(learner, samples)
    layer = learner.model.get_base_model().model.layers[0].mlp

    def read_on(module, inputs, output):
        return output + 0.5 * output.roll(1, dims=1)  # as a convolution over tokens would

    hook = layer.register_forward_hook(read_on)
    try:
        with pytest.raises(UsageError, match="does not keep packed rows apart") as caught:
            check_isolation(learner, samples)
    finally:
        hook.remove()
    assert "batch.packing = false" in caught.value.hint


def test_weights_that_are_no_numbers_are_told_apart_from_rows_that_leak(folder):
    learner = make_learner(folder)
    with torch.no_grad():
        next(iter(learner.model.parameters())).fill_(float("nan"))
    with pytest.raises(
        UsageError, match=r"no number as the likelihood of a row, in torch\.float32"
    ) as caught:
        check_isolation(learner, random_samples(2, count=3))
    assert "weights are damaged" in caught.value.hint


@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.parametrize("kind", ["qwen3", "gpt2"])
def test_the_dropout_of_a_models_config_is_never_applied(tmp_path, kind, method):
    if kind == "qwen3":  # a number in the attention
        folder = make_tiny_model(tmp_path)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "attention_dropout": 0.5}))
        base = load_causal_lm(folder, device="cpu", dtype="float32")
        assert base.model.layers[0].self_attn.attention_dropout == 0.5
    else:  # modules, and linear layers of another kind
        base = GPT2LMHeadModel(
            GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=100, bos_token_id=1, eos_token_id=2)
        )
        assert base.transformer.drop.p == 0.1
    config = SftConfig.model_validate({"run": {"method": method}})
    learner = SftLearner(base, config, seed=0, steps=1, compute_dtype=torch.float32)
    samples = [Sample(row=0, ids=tuple(range(5, 25)), weights=(0.0, *[1.0] * 19))]
    first, again = (learner.measure(samples, tokens_per_microbatch=64, packing=True) for _ in range(2))
    learner.model.eval()
    assert first == again == learner.measure(samples, tokens_per_microbatch=64, packing=True)


@pytest.mark.parametrize("kind", ["gemma3", "mistral"])
def test_packed_rows_longer_than_a_sliding_window_are_trained_as_unpacked_ones_are(tmp_path, kind):
    learner = make_learner(make_tiny_model(tmp_path, kind, sliding_window=6))
    samples = random_samples(1, count=8)
    sizes = [max(at for at, weight in enumerate(s.weights) if weight) for s in samples]
    assert {size > 6 for size in sizes} == {True, False}
    found = {}
    for packing in (True, False):
        batch = make_batch(samples, tokens_per_microbatch=64, packing=packing, window=learner.window)
        kinds = {micro.rows is None for micro in batch.micro_batches}
        assert kinds == ({True, False} if packing else {False})
        learner.optimizer.zero_grad()
        for micro in batch.micro_batches:
            supervised_loss(learner.score_trained(micro), micro.tensors.weights_O).backward()
        grads = torch.cat([weight.grad.flatten() for weight in learner.parameters.values()])
        sums = learner.measure(samples, tokens_per_microbatch=64, packing=packing)
        found[packing] = grads, torch.tensor(sums), batch.trained_tokens
    for ours, theirs in zip(found[True][:2], found[False][:2], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert found[True][2] == found[False][2]


@pytest.mark.parametrize("kind", ["gemma3", "mistral"])
def test_unpacked_rows_may_be_longer_than_a_sliding_window(tmp_path, kind):
    learner = make_learner(make_tiny_model(tmp_path, kind, sliding_window=4))
    ids = (1, 70, 80, 90, 71, 81, 33, 34, 2)
    sample = Sample(row=0, ids=ids, weights=(0.0, *[1.0] * 8))
    (found,) = learner.measure(
        [sample, Sample(row=1, ids=ids[:4], weights=(0, 1, 1, 1))][:1],
        tokens_per_microbatch=64,
        packing=False,
    )
    with torch.no_grad():
        logp = learner.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    assert found == pytest.approx(-sum(float(logp[t - 1, ids[t]]) for t in range(1, 9)), rel=1e-5)
