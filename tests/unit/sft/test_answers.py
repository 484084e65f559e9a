"""Greedy answers of the model that is trained: transformers' own, in batches, and nothing else moves."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from castform.sft.config import SftConfig
from castform_trainer.models import load_causal_lm
from castform_trainer.sft.answers import generate_replies, open_slots
from castform_trainer.sft.learner import SftLearner
from castform_trainer.sft.questions import AnswerReader, Question
from castform_trainer.sft.turn_template import load_turn_template
from castform_trainer.testing import make_tiny_model

END = 2
SIZES = [9, 4, 17, 9, 30, 5, 12]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def reader(folder):
    return AnswerReader(load_turn_template(folder), end_ids=(END,))


def make_learner(model, method="lora", *, compute_dtype=torch.float32):
    config = SftConfig.model_validate({"run": {"method": method}, "lora": {"rank": 4, "alpha": 8.0}})
    learner = SftLearner(model, config, seed=0, steps=1, compute_dtype=compute_dtype)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in learner.parameters.items():
            if "lora_B" in name:
                weight.copy_(0.3 * torch.randn(weight.shape, generator=draw))
    return learner


@pytest.fixture(scope="module")
def learner(folder):
    torch.set_num_threads(1)
    return make_learner(load_causal_lm(folder, device="cpu", dtype="float32"))


def make_questions(limit=12):
    """Prompts of different lengths, two of them equal in what they begin with, and one long limit."""
    draw = torch.Generator().manual_seed(3)
    shared = torch.randint(3, 250, (8,), generator=draw).tolist()
    return [
        Question(
            row=row,
            prompt_ids=(*shared[: min(size, 8)], *torch.randint(3, 250, (size - 8,), generator=draw).tolist())
            if size > 8
            else tuple(torch.randint(3, 250, (size,), generator=draw).tolist()),
            answer_ids=(5, END),
            max_new_tokens=limit + 3 * row,
            message={"role": "assistant", "content": ""},
            tools=(),
        )
        for row, size in enumerate(SIZES)
    ]


def answer_alone(model, question):
    """What transformers' generate gives for one prompt."""
    settings = GenerationConfig(
        do_sample=False, max_new_tokens=question.max_new_tokens, eos_token_id=END, pad_token_id=0
    )
    ids = torch.tensor([question.prompt_ids])
    with torch.no_grad():
        out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings)
    return tuple(out[0, len(question.prompt_ids) :].tolist())


def test_replies_are_those_of_transformers_one_by_one(learner, reader):
    questions = make_questions()
    replies = generate_replies(learner, questions, reader)
    assert [reply.ids for reply in replies] == [answer_alone(learner.model, each) for each in questions]
    for question, reply in zip(questions, replies, strict=True):
        ended = reply.ids[-1] == END
        assert reply.finish_reason == ("stop" if ended else "length")
        assert ended or len(reply.ids) == question.max_new_tokens
    few_at_once = generate_replies(learner, questions, reader, max_batch=2)
    assert [reply.ids for reply in few_at_once] == [reply.ids for reply in replies]


def test_a_sampled_end_token_ends_a_reply(learner, reader, folder):
    (question,) = make_questions()[:1]
    (whole,) = generate_replies(learner, [question], reader)
    ends = AnswerReader(load_turn_template(folder), end_ids=(whole.ids[3],))
    (cut,) = generate_replies(learner, [question], ends)
    assert cut.finish_reason == "stop"
    assert cut.ids == whole.ids[: whole.ids.index(whole.ids[3]) + 1]


def test_neither_weights_nor_random_state_change(learner, reader):
    weights = {name: weight.clone() for name, weight in learner.model.named_parameters()}
    before = torch.get_rng_state(), learner.model.training
    generate_replies(learner, make_questions(), reader)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert learner.model.training is before[1]
    assert all(torch.equal(weight, weights[name]) for name, weight in learner.model.named_parameters())
    assert all(weight.grad is None for weight in learner.parameters.values())


def test_a_stop_ends_the_answering_at_once(learner, reader):
    asked = []

    def is_stopped():
        asked.append(1)
        return len(asked) > 4

    assert generate_replies(learner, make_questions(), reader, is_stopped=is_stopped) is None
    assert len(asked) == 5


def test_a_model_that_is_trained_in_full_answers_with_its_live_weights(folder, reader):
    learner = make_learner(load_causal_lm(folder, device="cpu", dtype="float32"), "full")
    questions = make_questions()
    first = [reply.ids for reply in generate_replies(learner, questions, reader)]
    assert first == [answer_alone(learner.model, each) for each in questions]
    with torch.no_grad():
        for weight in learner.parameters.values():
            weight.mul_(0.9).add_(0.01)
    second = [reply.ids for reply in generate_replies(learner, questions, reader)]
    assert second != first
    assert second == [answer_alone(learner.model, each) for each in questions]


def test_answers_are_computed_in_the_format_that_training_computes_in(folder, reader):
    learner = make_learner(
        load_causal_lm(folder, device="cpu", dtype="float32"), "full", compute_dtype=torch.bfloat16
    )
    (question,) = make_questions()[4:5]
    (reply,) = generate_replies(learner, [question], reader)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        logits = learner.model(torch.tensor([[*question.prompt_ids, *reply.ids]])).logits[0].float()
    start = len(question.prompt_ids) - 1
    for place, token in enumerate(reply.ids):  # the largest logit, up to what rounding may swap
        row = logits[start + place]
        assert float(row.max() - row[token]) < 0.3


def test_a_model_with_another_kind_of_layer_answers_by_reading_anew(reader):
    config = AutoConfig.for_model(
        "lfm2",
        vocab_size=260,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        layer_types=["conv", "full_attention"],
        bos_token_id=1,
        eos_token_id=END,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    learner = make_learner(model)
    with torch.no_grad():
        assert open_slots(learner) is None
    questions = make_questions()
    replies = generate_replies(learner, questions, reader)
    assert [reply.ids for reply in replies] == [answer_alone(learner.model, each) for each in questions]
    assert len({i for reply in replies for i in reply.ids}) > 5  # not one token for ever
    assert generate_replies(learner, questions, reader, is_stopped=lambda: True) is None
