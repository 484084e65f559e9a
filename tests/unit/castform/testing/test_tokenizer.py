"""The fake tokenizer loses nothing, and spells texts in ways that encoding would not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.testing import FakeTokenizer
from castform.testing.tokenizer import MERGES, SPECIALS

TOKENIZER = FakeTokenizer()
TEXTS = st.text(max_size=40) | st.lists(
    st.sampled_from([*MERGES, *SPECIALS, "hello sunflower", "the tool", "1000", "ü😀", "\n"]), max_size=8
).map(lambda parts: "".join(parts).replace("Ċ", "\n"))
VALID = TEXTS.filter(lambda text: not any(0xD800 <= ord(character) < 0xE000 for character in text))


@settings(deadline=None, max_examples=40)
@given(VALID, st.integers(0, 2**32))
def test_canonical_and_sampled_ids_decode_to_the_text(text, seed):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text
    assert TOKENIZER.decode(TOKENIZER.spell(text, seed=seed)) == text
    assert TOKENIZER.is_canonical(TOKENIZER.encode(text))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(["hello", "flower", "tool", "the", "100", "and"]), min_size=3, max_size=6))
def test_most_spellings_of_a_text_are_not_canonical(words):
    text = " ".join(words)
    spelled = [TOKENIZER.spell(text, seed=seed) for seed in range(20)]
    canonical = TOKENIZER.encode(text)
    other = [ids for ids in spelled if ids != canonical]
    assert len(other) >= 15
    assert all(TOKENIZER.encode(TOKENIZER.decode(ids)) == canonical for ids in other)


def test_it_is_known_token_by_token():
    assert len(TOKENIZER.tokens) == 3 + 256 + len(MERGES)
    assert TOKENIZER.encode("hello") == [TOKENIZER.vocabulary["hello"]]
    assert [TOKENIZER.tokens[id] for id in TOKENIZER.encode("hell")] == ["he", "ll"]
    assert [TOKENIZER.tokens[id] for id in TOKENIZER.encode("<|im_start|>the")] == ["<|im_start|>", "t", "he"]
    assert not TOKENIZER.is_canonical([TOKENIZER.vocabulary["the"]])
    assert TOKENIZER.end_of_turn_id == 2
    assert TOKENIZER.spell("hello", seed=3) == TOKENIZER.spell("hello", seed=3)
    assert TOKENIZER.decode([1, *TOKENIZER.encode("hi"), 2], skip_special_tokens=True) == "hi"
    assert TOKENIZER.decode(TOKENIZER.encode("é")[:1]) == "\ufffd"


def test_what_is_no_token_or_no_text_is_refused():
    with pytest.raises(IndexError):
        TOKENIZER.decode([len(TOKENIZER.tokens)])
    with pytest.raises(UnicodeEncodeError):
        TOKENIZER.encode("\ud800")


@pytest.fixture(scope="module")
def real():
    pytest.importorskip("transformers")
    from castform_trainer.gateway.fake_tokenizer import make_fake_tokenizer

    return make_fake_tokenizer()


@settings(deadline=None, max_examples=40)
@given(text=VALID)
def test_transformers_reads_it_the_same(real, text):
    ids = real.encode(text, add_special_tokens=False)
    assert ids == TOKENIZER.encode(text)
    assert real.decode(ids, clean_up_tokenization_spaces=False) == text
