"""Copies of rows: which are found, how many of all, and the same ones every time."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from benchmax.sft import SftDataset
from castform.sft.checking.copies import NEAR, find_copies
from castform.sft.checking.sketches import SLOTS, SketchTable, make_sketch
from castform.sft.checking.wordings import conversation_key, shingles_of, similarity

WORDS = [f"w{n}" for n in range(5000)]
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}


def talk(question, answer, **row):
    return {
        "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
        **row,
    }


def pairs(found):
    return [(each.row, each.of) for each in found]


def test_a_row_is_an_exact_copy_when_the_same_is_shown_and_trained():
    said = talk("one two three four", "five six")
    weighted = talk("one two three four", "five six")
    weighted["messages"][1]["weight"] = 1
    other = [*said["messages"], {"role": "user", "content": "so?"}, {"role": "assistant", "content": "yes"}]
    context = {"messages": [{**m, "weight": 0} if m["content"] == "five six" else m for m in other]}
    rows = [said, {**said, "metadata": {"id": 2}}, {**weighted, "tools": []}, {"messages": other}, context]
    found = find_copies(SftDataset.from_rows(rows))
    assert pairs(found.within.exact) == [(1, 0), (2, 0)]
    assert pairs(found.within.near) == [(4, 3)]  # the same words, trained otherwise
    assert found.within.near[0].similarity == 1.0
    assert found.overlap is None


def test_tools_make_another_conversation():
    said = talk("a", "b")
    assert conversation_key(said) != conversation_key({**said, "tools": [TOOL]})


def test_case_punctuation_and_system_messages_make_no_other_words():
    one = talk("What is the capital of Peru?", "Lima.")
    two = talk("what is  the capital of PERU", "lima!")
    two["messages"].insert(0, {"role": "system", "content": "Be short, be kind and be quick."})
    assert shingles_of(one) == shingles_of(two)
    assert similarity(shingles_of(one), shingles_of(talk("2 + 3 + 4 + 5", "14"))) == 0


def test_signs_of_arithmetic_tell_rows_apart():
    assert shingles_of(talk("2 + 3", "5")) != shingles_of(talk("2 * 3", "5"))
    assert shingles_of(talk("7 - 3", "4")) != shingles_of(talk("7 3", "4"))


def test_scripts_without_spaces_have_a_word_a_letter():
    # 今天天气怎么样 and one letter more: 5 of 6 word triples, and the answer
    one, two = talk("今天天气怎么样", "好"), talk("今天天气怎么样呢", "好")
    assert similarity(shingles_of(one), shingles_of(two)) == pytest.approx(6 / 7)


def test_calls_count_as_words_and_a_row_without_words_is_near_nothing():
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"q": "x"}'}}
    asked = {"messages": [{"role": "assistant", "tool_calls": [call]}]}
    assert shingles_of(asked) == shingles_of({"messages": [{"role": "user", "content": "find q x"}]})
    found = find_copies(SftDataset.from_rows([talk("?", "!"), talk("??", "!!")]))
    assert (found.within.exact, found.within.near) == ((), ())


def test_near_begins_at_the_threshold():
    # Nine triples against ten of which the nine are: 0.9. Sixteen words, four changed at one end: 10 of 18.
    base = " ".join(WORDS[:11])
    near, far = f"{base} {WORDS[11]}", " ".join([*WORDS[:8], *WORDS[100:103]])
    found = find_copies(SftDataset.from_rows([talk("?", base), talk("?", near), talk("?", far)]))
    assert pairs(found.within.near) == [(1, 0)]
    assert found.within.near[0].similarity == pytest.approx(0.9)
    exactly = talk("?", " ".join(WORDS[:6])), talk("?", " ".join([*WORDS[:7]]))  # 4 of 5
    assert pairs(find_copies(SftDataset.from_rows(exactly)).within.near) == [(1, 0)]
    below = talk("?", " ".join(WORDS[:5])), talk("?", " ".join([*WORDS[:6]]))  # 3 of 4
    assert pairs(find_copies(SftDataset.from_rows(below)).within.near) == []


def test_held_out_rows_are_compared_with_training_rows_only():
    draw = random.Random(0)
    train = [talk("?", " ".join(draw.sample(WORDS, 30))) for _ in range(5)]
    twin = talk("?", " ".join(draw.sample(WORDS, 30)))
    near = talk("?", train[3]["messages"][1]["content"] + " more")
    held_out = [twin, {**twin, "metadata": {"n": 1}}, train[1], near]
    found = find_copies(SftDataset.from_rows(train), SftDataset.from_rows(held_out))
    assert found.overlap is not None
    assert pairs(found.overlap.exact) == [(2, 1)]
    assert pairs(found.overlap.near) == [(3, 3)]
    assert (found.within.exact, found.within.near) == ((), ())


def generate_pairs(count, *, seed):
    """Return rows, and which of them have an earlier row of at least NEAR, by comparing the true pairs."""
    draw = random.Random(seed)
    rows, twins = [], []
    for _ in range(count):
        words = draw.choices(WORDS, k=draw.randrange(12, 90))
        rows.append(talk(" ".join(words[:4]), " ".join(words)))
        copy = list(words)
        for _ in range(draw.randrange(1, 4)):
            copy[draw.randrange(len(copy))] = draw.choice(WORDS)
        rows.append(talk(" ".join(words[:4]), " ".join(copy)))
        if similarity(shingles_of(rows[-2]), shingles_of(rows[-1])) >= NEAR:
            twins.append(len(rows) - 1)
    return rows, twins


def test_nearly_all_near_copies_of_a_generated_set_are_found_and_no_other_row():
    rows, twins = generate_pairs(700, seed=3)
    assert len(twins) > 250
    found = find_copies(SftDataset.from_rows(rows)).within
    named = {each.row for each in found.near} | {each.row for each in found.exact}
    assert len(named & set(twins)) >= 0.99 * len(twins)
    assert named <= set(twins)


def test_the_agreement_of_sketches_estimates_the_similarity():
    draw, errors = random.Random(5), []
    for size in (5, 20, 200):
        for _ in range(30):
            shared = {draw.getrandbits(64) for _ in range(size)}
            one, two = (frozenset({*shared, *(draw.getrandbits(64) for _ in range(size // 4))}) for _ in "ab")
            table = SketchTable()
            table.append(make_sketch(one))
            table.append(make_sketch(two))
            errors.append(table.agreement(0, 1) - similarity(one, two))
    spread = (0.66 * 0.34 / SLOTS) ** 0.5
    assert abs(sum(errors) / len(errors)) < 4 * spread / len(errors) ** 0.5
    assert max(map(abs, errors)) < 4.5 * spread


def test_candidates_grow_with_the_rows_even_when_all_rows_look_alike():
    table = SketchTable()
    for _ in range(200):
        table.append(make_sketch(frozenset(range(50))))
    columns = table.candidates(200)
    assert all({column[n] for column in columns} <= {0, n - 1, n} for n in range(200))


SCRIPT = """
from castform.sft.checking.sketches import make_sketch
from castform.sft.checking.wordings import shingles_of
row = {"messages": [{"role": "user", "content": "the same words in every process, whatever its hash seed"}]}
print(make_sketch(shingles_of(row)).hex())
"""


def test_sketches_are_the_same_in_every_process():
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=None, timeout=60
    )
    row = {
        "messages": [{"role": "user", "content": "the same words in every process, whatever its hash seed"}]
    }
    assert made.stdout.strip() == make_sketch(shingles_of(row)).hex()
