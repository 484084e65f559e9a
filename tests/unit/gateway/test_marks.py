"""The marks of a call log: equal for copies of one tokenizer, other for another one or another template."""

from __future__ import annotations

import pytest

from castform.token_marks import marks_path, read_marks, write_marks
from castform_trainer.gateway.marks import make_marks
from castform_trainer.gateway.record import CallLog
from castform_trainer.testing import make_tiny_tokenizer


def marks_of(tokenizer, template="t"):
    return make_marks(tokenizer, template, model_name="m")


def test_a_tokenizer_has_the_same_marks_whatever_was_encoded_with_it():
    tokenizer = make_tiny_tokenizer()
    before = marks_of(tokenizer)
    tokenizer(["a", "bc"], padding=True, truncation=True, max_length=4)
    assert marks_of(tokenizer) == before == marks_of(make_tiny_tokenizer())


def test_another_tokenizer_and_another_template_have_other_marks():
    one = marks_of(make_tiny_tokenizer())
    merged, other = marks_of(make_tiny_tokenizer(merges=[("a", "n")])), marks_of(make_tiny_tokenizer(), "u")
    assert merged.tokenizer_sha256 != one.tokenizer_sha256 == other.tokenizer_sha256
    assert other.template_sha256 != one.template_sha256 == merged.template_sha256


def test_marks_stand_beside_their_log_and_come_back(tmp_path):
    marks = marks_of(make_tiny_tokenizer())
    CallLog(tmp_path / "calls/000.jsonl", marks).close()
    assert read_marks(tmp_path / "calls/000.jsonl") == marks
    assert [path.name for path in (tmp_path / "calls").glob("*.jsonl")] == ["000.jsonl"]  # logs are counted


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"model": "m", "tokenizer_sha256": 1, "template_sha256": ""}']
)
def test_marks_that_cannot_be_read_are_none(tmp_path, text):
    log = tmp_path / "000.jsonl"
    assert read_marks(log) is None
    write_marks(log, marks_of(make_tiny_tokenizer()))
    marks_path(log).write_text(text)
    assert read_marks(log) is None
