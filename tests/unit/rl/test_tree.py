"""Closed-form tests 5, 11 and 15: packed, padded and tree batches are one and the same step."""

from __future__ import annotations

import random

import pytest
import torch

from castform.config import LoraSection, OptimizerSection, RlSection
from castform_trainer.learning.tree import make_trees
from castform_trainer.losses import make_loss
from castform_trainer.models import load_causal_lm
from castform_trainer.rl.batch import make_batch, pack
from castform_trainer.rl.policy import Policy
from castform_trainer.rl.sequence import TrainSequence
from castform_trainer.testing import make_tiny_model

LOSS = make_loss(RlSection())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def policy(folder):
    return make_policy(folder)


def make_policy(folder):
    torch.set_num_threads(1)
    base = load_causal_lm(folder, device="cpu", dtype="float64")
    for module in list(base.modules()):
        for name, child in module.named_children():
            # transformers' own norm computes in fp32 whatever it is given
            if type(child).__name__.endswith("RMSNorm"):
                setattr(module, name, make_double_norm(child))
    policy = Policy(base, lora=LoraSection(rank=4, alpha=8.0), optimizer=OptimizerSection(), temperature=0.7)
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in policy.parameters.values():
            weight.copy_(0.1 * torch.randn(weight.shape, generator=draw, dtype=torch.float64))
    return policy


def make_double_norm(norm):
    double = torch.nn.RMSNorm(norm.weight.shape, eps=norm.variance_epsilon, dtype=torch.float64)
    double.weight = norm.weight
    return double


def random_sequences(seed, *, groups=2, depth=3):
    """Random trees: siblings share a prompt, branches end early, are empty, or have one token."""
    draw = random.Random(seed)
    system = [1] + [draw.randrange(3, 40) for _ in range(3)]
    found = []
    for group in range(groups):
        prompt = system + [draw.randrange(3, 40) for _ in range(draw.randrange(4))]
        for sample in range(3):
            ids, mask = list(prompt), [0] * len(prompt)
            for _ in range(draw.randrange(depth + 1)):
                length = draw.choice([1, 1, 2, 5])
                sampled = draw.random() < 0.7
                ids += [draw.randrange(3, 6) for _ in range(length)]
                mask += [int(sampled)] * length
            logprobs = [draw.uniform(-6, -4) if m else float("nan") for m in mask]
            found.append(
                TrainSequence(
                    ids=ids,
                    mask=mask,
                    logprobs=logprobs,
                    advantage=draw.uniform(-1, 1),
                    rollout=f"g{group}-{sample}",
                )
            )
    return found


def step_gradient(policy, sequences, tokens_per_microbatch):
    """Loss and gradient of every adapter weight through the tree batch."""
    batch = make_batch(sequences, tokens_per_microbatch=tokens_per_microbatch, dtype=torch.float64)
    policy.model.zero_grad()
    total = 0.0
    for micro in batch.micro_batches:
        logprobs = policy.score(micro)[micro.pairs_O]
        terms = LOSS(logprobs, logprobs.detach() - 0.05, micro.sampler_logprobs_O, micro.advantages_O)
        value = (terms.terms_O * micro.weights_O).sum()
        value.backward()
        total += float(value)
    return total, {name: weight.grad.clone() for name, weight in policy.parameters.items()}


def reference_gradient(policy, sequences, *, packed):
    """The same through plain transformers: right-padded rows, or one packed row with isolation."""
    places = [(s, t) for s, seq in enumerate(sequences) for t, m in enumerate(seq.mask) if m]
    policy.model.zero_grad()
    if packed:
        row = pack([{"ids": s.ids, "mask": s.mask, "logprobs": s.logprobs} for s in sequences])
        owner = torch.tensor(row["seq_ids"])
        causal = torch.ones(len(owner), len(owner)).tril().bool()
        mask = (owner[:, None] == owner[None, :]) & causal
        ids, positions = torch.tensor([row["ids"]]), torch.tensor([row["position_ids"]])
        logits = policy.model(ids, attention_mask=mask[None, None], position_ids=positions).logits[0]
        starts = [0]
        for seq in sequences:
            starts.append(starts[-1] + len(seq.ids))
        rows = torch.stack([logits[starts[s] + t - 1] for s, t in places])
    else:
        width = max(len(s.ids) for s in sequences)
        ids = torch.tensor([[*s.ids, *[0] * (width - len(s.ids))] for s in sequences])
        keep = torch.tensor([[1] * len(s.ids) + [0] * (width - len(s.ids)) for s in sequences])
        logits = policy.model(ids, attention_mask=keep).logits
        rows = torch.stack([logits[s, t - 1] for s, t in places])
    tokens = torch.tensor([sequences[s].ids[t] for s, t in places])
    logprobs = torch.log_softmax(rows / policy.temperature, -1).gather(1, tokens[:, None])[:, 0]
    mu = torch.tensor([sequences[s].logprobs[t] for s, t in places], dtype=torch.float64)
    advantages = torch.tensor([sequences[s].advantage for s, _ in places], dtype=torch.float64)
    terms = LOSS(logprobs, logprobs.detach() - 0.05, mu, advantages)
    value = terms.terms_O.sum() / len(places)
    value.backward()
    return float(value), {name: weight.grad.clone() for name, weight in policy.parameters.items()}


def assert_same_step(found, expected):
    assert found[0] == pytest.approx(expected[0], abs=1e-10)
    for name, gradient in expected[1].items():
        assert torch.allclose(found[1][name], gradient, rtol=0, atol=1e-10), name
    assert any(float(g.abs().max()) > 1e-6 for g in expected[1].values())


@pytest.mark.parametrize("seed", range(6))
def test_tree_packed_and_padded_give_one_loss_and_one_gradient(policy, seed):
    sequences = random_sequences(seed)
    padded = reference_gradient(policy, sequences, packed=False)
    assert_same_step(reference_gradient(policy, sequences, packed=True), padded)
    assert_same_step(step_gradient(policy, sequences, 10_000), padded)


@pytest.mark.parametrize("seed", range(3))
def test_no_cut_and_no_order_changes_the_step(policy, seed):
    sequences = random_sequences(seed, groups=3)
    whole = step_gradient(policy, sequences, 10_000)
    for size in (1, 16, 23, 40):
        assert_same_step(step_gradient(policy, sequences, size), whole)
    shuffled = list(sequences)
    random.Random(seed).shuffle(shuffled)
    assert_same_step(step_gradient(policy, shuffled, 23), whole)


def test_splitting_a_rollout_into_branches_changes_nothing(policy):
    ids, logprobs = [1, 9, 8, 5, 6, 7, 4], [0.0, 0.0, -5.0, -5.1, 0.0, -5.2, -5.3]
    whole = TrainSequence(ids=ids, mask=[0, 0, 1, 1, 0, 1, 1], logprobs=logprobs, advantage=0.5, rollout="a")
    other = TrainSequence(
        ids=[1, 9, 8, 3], mask=[0, 0, 1, 1], logprobs=[0.0, 0.0, -5.0, -4.0], advantage=-0.5, rollout="b"
    )
    first = TrainSequence(ids=ids[:4], mask=[0, 0, 1, 1], logprobs=logprobs[:4], advantage=0.5, rollout="a")
    rest = TrainSequence(ids=ids, mask=[0, 0, 0, 0, 0, 1, 1], logprobs=logprobs, advantage=0.5, rollout="a")
    expected = step_gradient(policy, [whole, other], 100)
    for variant in ([first, rest, other], [whole, first, other], [whole, whole, other, first]):
        batch = make_batch(variant, tokens_per_microbatch=100)
        assert batch.trained_tokens == 6
        assert_same_step(step_gradient(policy, variant, 100), expected)
        assert_same_step(step_gradient(policy, variant, 4), expected)


def test_siblings_that_sampled_the_same_token_both_count():
    sequence = TrainSequence(ids=[1, 5], mask=[0, 1], logprobs=[0.0, -1.0], advantage=1.0, rollout="a")
    twin = TrainSequence(ids=[1, 5], mask=[0, 1], logprobs=[0.0, -1.0], advantage=-1.0, rollout="b")
    batch = make_batch([sequence, twin], tokens_per_microbatch=16)
    assert batch.trained_tokens == 2
    assert len(batch.micro_batches[0].pair_tokens_U) == 1


def test_two_calls_of_one_rollout_that_sampled_the_same_both_count_and_one_call_counts_once():
    def segment(call):
        return TrainSequence(
            ids=[1, 5], mask=[0, 1], logprobs=[0.0, -1.0], advantage=1.0, rollout="a", calls=["", call]
        )

    assert make_batch([segment("x"), segment("y")], tokens_per_microbatch=16).trained_tokens == 2
    assert make_batch([segment("x"), segment("x")], tokens_per_microbatch=16).trained_tokens == 1


def test_shared_tokens_are_computed_once():
    prompt = list(range(3, 60))
    sequences = [
        TrainSequence(
            ids=[*prompt, 100 + i, 7, 2],
            mask=[0] * 57 + [1] * 3,
            logprobs=[0.0] * 57 + [-1.0] * 3,
            advantage=1.0,
            rollout=str(i),
        )
        for i in range(8)
    ]
    (tree,) = make_trees(sequences, max_nodes=10_000)
    assert len(tree.ids) == 57 + 8 * 2  # a last token predicts nothing and is not computed
    assert len(make_trees(sequences, max_nodes=64)) == 3


def test_a_rollout_with_nothing_sampled_costs_nothing():
    silent = TrainSequence(ids=[1, 2, 3], mask=[0, 0, 0], logprobs=[0.0] * 3, advantage=1.0, rollout="a")
    batch = make_batch([silent], tokens_per_microbatch=16)
    assert (batch.micro_batches, batch.trained_tokens) == ((), 0)


def test_unequal_lengths_are_refused():
    wrong = TrainSequence(ids=[1, 2], mask=[0, 1], logprobs=[-1.0], advantage=1.0, rollout="r7")
    with pytest.raises(ValueError, match=r"r7.*2, 2 and 1"):
        make_batch([wrong], tokens_per_microbatch=16)


def test_a_step_with_signal_in_a_quarter_of_its_groups_counts_a_quarter():
    sequence = TrainSequence(ids=[1, 2, 3], mask=[0, 1, 1], logprobs=[0, -1, -1], advantage=1.0, rollout="a")
    whole = make_batch([sequence], tokens_per_microbatch=16).micro_batches[0].weights_O
    quarter = make_batch([sequence], tokens_per_microbatch=16, share=0.25).micro_batches[0].weights_O
    assert float(whole.sum()) == pytest.approx(1.0)
    assert torch.equal(quarter, whole * 0.25)
