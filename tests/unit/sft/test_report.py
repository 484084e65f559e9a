"""Token figures and the preview of a row, counted by hand and against the checks of a run."""

from __future__ import annotations

import json

import pytest

from benchmax.sft import SftDataset
from castform.errors import UsageError
from castform.sft.config import SftConfig
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.masking import load_turn_template
from castform_trainer.sft.preflight import prepare
from castform_trainer.sft.preview import cut_spans
from castform_trainer.sft.report import measure_files, measure_samples
from castform_trainer.testing import CHATML_TEMPLATE, make_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_tiny_model(tmp_path_factory.mktemp("model"), layers=1, width=16)


def talk(question, answer, **answering):
    return {
        "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer, **answering},
        ]
    }


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def make_config(model, train, held_out=None, **data):
    return SftConfig.model_validate(
        {
            "model": {"id": str(model), "dtype": "float32", "device": "cpu"},
            "data": {"train": train, "eval": held_out, **data},
        }
    )


def measure(config, **options):
    datasets = {
        split: SftDataset.from_jsonl(path)
        for split, path in (("train", config.data.train), ("eval", config.data.eval))
        if path is not None
    }
    return measure_files(config, datasets, **options)


def end_of_a_run(config):
    """Return what a run of this config would end on by its own checks; None when it would start."""
    try:
        prepare(config)
    except UsageError as error:
        return str(error.args[0])
    return None


# A byte is a token here, and so is a control token: `<|im_start|>user\n` + text + `<|im_end|>\n` + …
def tokens_of(question, answer):
    return len(f"_user\n{question}_\n_assistant\n{answer}_".encode())


def test_the_figures_of_a_file_are_those_that_one_counts_by_hand(tmp_path, model):
    rows = [talk("q" * n, "a" * n) for n in (1, 2, 3, 4, 50)]
    found = measure(make_config(model, write(tmp_path / "t.jsonl", rows)))
    figures = found.figures["train"]
    sizes = [tokens_of("q" * n, "a" * n) for n in (1, 2, 3, 4, 50)]
    assert (figures.tokens.min, figures.tokens.median, figures.tokens.p95, figures.tokens.max) == (
        sizes[0],
        sizes[2],
        sizes[4],
        sizes[4],
    )
    assert (figures.total_tokens, figures.trained_tokens) == (sum(sizes), 1 + 2 + 3 + 4 + 50 + 5)
    assert figures.trained_share == pytest.approx(65 / sum(sizes))
    assert (figures.rows, figures.samples, figures.over_context, figures.cannot_mask) == (5, 5, (), ())
    assert (found.faults, found.context_tokens, found.preview) == ((), 512, None)


def test_a_row_of_several_samples_counts_its_longest_against_the_context_and_all_of_its_tokens():
    dataset = SftDataset.from_rows([talk("q", "a"), talk("r", "b")])
    samples = [
        Sample(row=0, ids=[1] * 9, weights=[0.0] * 7 + [1.0] * 2),
        Sample(row=0, ids=[1] * 12, weights=[0.0] * 11 + [1.0]),
        Sample(row=1, ids=[1] * 10, weights=[0.0] * 5 + [1.0] * 5),
    ]
    figures = measure_samples(samples, dataset, limit=11)
    assert (figures.rows, figures.samples, figures.total_tokens, figures.trained_tokens) == (2, 3, 31, 8)
    assert (figures.tokens.min, figures.tokens.max, figures.trained.max) == (10, 12, 5)
    assert [(row.row, row.line, row.tokens) for row in figures.over_context] == [(0, None, 12)]
    assert measure_samples(samples, dataset, limit=12).over_context == ()
    assert measure_samples([], dataset, limit=12).trained_share is None


def test_rows_over_the_context_are_all_listed_and_the_longest_that_fits_is_not(tmp_path, model):
    fits = 100 - tokens_of("", "a")
    rows = [talk("q", "a"), talk("q" * fits, "a"), talk("q" * (fits + 1), "a"), talk("q" * 300, "a")]
    path = tmp_path / "t.jsonl"
    path.write_text("\n" + "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = make_config(model, path, max_context_tokens=100)
    found = measure(config)
    assert [(r.row, r.line, r.tokens) for r in found.figures["train"].over_context] == [
        (2, 4, 101),
        (3, 5, tokens_of("q" * 300, "a")),
    ]
    assert [fault.code for fault in found.faults] == ["over_context"]
    assert found.faults[0].message == end_of_a_run(config)


def test_every_fault_is_told_and_the_first_is_the_one_a_run_ends_on(tmp_path, model):
    train = [talk("q", "a"), talk("q" * 600, "a")]
    held_out = [talk(f"{n}", "a") for n in range(2048)] + [train[0]]
    config = make_config(model, write(tmp_path / "t.jsonl", train), write(tmp_path / "e.jsonl", held_out))
    found = measure(config)
    assert [fault.code for fault in found.faults] == ["over_context", "eval_too_large", "held_out_is_trained"]
    assert all(fault.hint for fault in found.faults)
    for fault in found.faults[:2]:
        assert fault.message == end_of_a_run(config)
        if fault.code == "over_context":
            write(tmp_path / "t.jsonl", train[:1])
        elif fault.code == "eval_too_large":
            write(tmp_path / "e.jsonl", [*held_out[:5], held_out[-1]])
            found_again = measure(config)
            assert [each.message for each in found_again.faults] == [end_of_a_run(config)]
    write(tmp_path / "e.jsonl", held_out[:1])
    assert (measure(config).faults, end_of_a_run(config)) == ((), None)


def test_rows_without_a_mask_are_named_and_stay_out_of_the_figures(tmp_path):
    refusing = "{%- if messages[-1]['content'] == 'lost' %}{{ raise_exception('no') }}{%- endif %}"
    model = make_tiny_model(tmp_path / "m", layers=1, width=16, chat_template=refusing + CHATML_TEMPLATE)
    rows = [talk("q", "a"), talk("q", "lost"), talk("q" * 600, "a")]
    config = make_config(model, write(tmp_path / "t.jsonl", rows))
    found = measure(config, preview_row=1)
    assert [fault.code for fault in found.faults] == ["cannot_mask", "over_context"]
    assert found.faults[0].message == end_of_a_run(config)
    assert "1 of 3 rows cannot be masked" in found.faults[0].message
    (fault,) = found.figures["train"].cannot_mask
    assert (fault.row, fault.line) == (1, 2)
    assert "messages[1]" in fault.message
    assert found.figures["train"].rows == 2
    assert found.preview.samples == ()


def test_a_template_without_turns_leaves_no_row_to_measure(tmp_path):
    bare = "{{ messages[0]['content'] }}"
    model = make_tiny_model(tmp_path / "m", layers=1, width=16, chat_template=bare)
    config = make_config(model, write(tmp_path / "t.jsonl", [talk("q", "a"), talk("r", "b")]))
    found = measure(config)
    assert [fault.code for fault in found.faults] == ["cannot_mask"]
    assert "2 of 2 rows cannot be masked" in found.faults[0].message
    assert (found.figures["train"].tokens, found.figures["train"].trained_share) == (None, None)


def test_a_preview_is_the_row_as_text_cut_where_training_begins_and_ends(tmp_path, model):
    row = {
        "messages": [
            {"role": "user", "content": "é?"},
            {"role": "assistant", "content": "no", "weight": 0},
            {"role": "user", "content": "and?"},
            {"role": "assistant", "content": "ja ♥"},
        ]
    }
    config = make_config(model, write(tmp_path / "t.jsonl", [talk("q", "a"), row]))
    preview = measure(config, preview_row=1).preview
    assert (preview.row, preview.line, len(preview.samples)) == (1, 2, 1)
    spans = preview.samples[0]
    assert [(span.text, span.trained) for span in spans] == [
        (
            "<|im_start|>user\né?<|im_end|>\n<|im_start|>assistant\nno<|im_end|>\n"
            "<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n",
            False,
        ),
        ("ja ♥<|im_end|>", True),
    ]
    assert spans[1].tokens == len("ja ♥".encode()) + 1


def test_a_cut_inside_a_character_loses_no_text(model):
    template = load_turn_template(model)
    ids = template.codec.encode("a♥b")
    spans = cut_spans(Sample(row=0, ids=ids, weights=[0.0, 0.0, 1.0, 1.0, 0.0]), template)
    assert [span.tokens for span in spans] == [2, 2, 1]
    assert spans[-1].text == "b"


def test_a_file_that_is_not_sound_is_left_out_and_the_other_measured(tmp_path, model):
    held_out = write(tmp_path / "e.jsonl", [talk("q", "a")])
    config = make_config(model, tmp_path / "not-read.jsonl", held_out)
    found = measure_files(config, {"eval": SftDataset.from_jsonl(held_out)}, preview_row=0)
    assert list(found.figures) == ["eval"]
    assert (found.faults, found.preview) == ((), None)
