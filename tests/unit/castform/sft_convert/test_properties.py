"""Laws of the conversion: what is written validates, counts add up, nothing is lost, sound rows stay."""

from __future__ import annotations

import json

from converting import call, calls, result, tool
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmax.sft import CODES, SftDataset
from castform.sft.convert.conversion import convert_rows
from castform.sft.convert.formats import FORMATS
from castform.sft.convert.notes import NOTES, REFUSALS
from castform.sft.convert.report import ConversionTally, report_line
from castform.sft.convert.source import SourceRow

SCALAR = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.just(1.0) | st.text(max_size=3) | st.just('{"a": 1}')
)
JSON = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abn"), inner, max_size=2),
    max_leaves=4,
)
ROLE = st.sampled_from(
    [
        "system",
        "user",
        "assistant",
        "tool",
        "developer",
        "function",
        "human",
        "gpt",
        "observation",
        "function_call",
    ]
)
FUNCTION = st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from("tu") | JSON, "arguments": JSON, "parameters": JSON, "x": JSON}
)
CALL = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from("ab") | JSON,
        "type": st.just("function") | JSON,
        "function": FUNCTION | JSON,
        "name": st.just("t"),
    },
)
PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url"])}, optional={"text": st.text(max_size=2), "x": JSON}
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": ROLE | JSON,
        "from": ROLE,
        "value": st.text(max_size=3) | JSON,
        "content": st.text(max_size=3) | st.lists(PART, max_size=2) | JSON,
        "tool_calls": st.lists(CALL, max_size=2) | JSON,
        "function_call": FUNCTION | JSON,
        "tool_call_id": st.sampled_from("ab") | JSON,
        "name": st.just("t") | JSON,
        "weight": JSON,
        "train": JSON,
        "refusal": JSON,
        "extra": JSON,
    },
)
TURNS = st.lists(MESSAGE | JSON, max_size=4) | JSON
TOOLS = (
    st.lists(
        st.just(tool("t"))
        | st.fixed_dictionaries({}, optional={"type": JSON, "function": FUNCTION, "name": st.just("u")}),
        max_size=2,
    )
    | JSON
)
ROW = st.fixed_dictionaries(
    {},
    optional={
        "messages": TURNS,
        "conversations": TURNS,
        "prompt": TURNS | st.text(max_size=3),
        "completion": TURNS | st.text(max_size=3),
        "instruction": st.text(max_size=3) | JSON,
        "input": JSON,
        "output": st.text(max_size=3) | JSON,
        "history": JSON,
        "system": JSON,
        "tools": TOOLS,
        "functions": TOOLS,
        "metadata": JSON,
        "label": JSON,
        "_castform_id": JSON,
    },
)


TEXT = st.text(alphabet="ab é\u2028", min_size=1, max_size=3)
MORE = st.dictionaries(
    st.sampled_from(["name", "extra", "train", "weight"]), st.sampled_from([None, 0, False, "t"]), max_size=2
)
ARGUMENTS = st.sampled_from(["{}", '{ "a":1}', '"{\\"a\\": 1}"', "", None, {"a": [1.0]}, "[1]"])
PARTS = st.lists(st.builds(lambda text: {"type": "text", "text": text}, TEXT), min_size=1, max_size=2)


@st.composite
def called(draw):
    """Return an assistant message with calls, and results of most of them in any order."""
    made = [
        {
            "id": draw(st.sampled_from(["a", "b", "call_1", None])),
            "function": {"name": "t", "arguments": draw(ARGUMENTS)},
        }
        for _ in range(draw(st.integers(1, 2)))
    ]
    answers = [
        {"role": "tool", "tool_call_id": each["id"], "content": draw(TEXT | PARTS | st.none())}
        for each in made
    ]
    kept = draw(st.permutations(answers))[: draw(st.sampled_from([0, 1, 2, 2, 2]))]
    return [{"role": "assistant", "content": draw(TEXT | st.none()), "tool_calls": made}, *kept]


def said(*roles):
    parts = {"role": st.sampled_from(roles), "content": TEXT | TEXT | PARTS}
    return st.builds(lambda message, more: [{**more, **message}], st.fixed_dictionaries(parts), MORE)


def spoken(speakers, values=TEXT):
    return st.builds(
        lambda speaker, value: [{"from": speaker, "value": value}], st.sampled_from(speakers), values
    )


def joined(parts, **options):
    return st.lists(parts, **options).map(lambda found: [message for part in found for message in part])


TALK = joined(said("user", "assistant", "assistant", "developer") | called(), min_size=1, max_size=4)
CONVERSATION = joined(
    spoken(["human", "user"])
    | spoken(["gpt", "assistant"])
    | st.tuples(
        spoken(
            ["function_call"], st.sampled_from(['{"name": "t", "arguments": {"a": 1.0}}', '[{"name": "t"}]'])
        ),
        spoken(["observation"]),
    ).map(lambda two: two[0] + two[1]),
    min_size=1,
    max_size=4,
)
COLUMNS = st.dictionaries(
    st.sampled_from(["id", "metadata", "_castform_id", "label"]),
    SCALAR | st.just({"id": 1, "tools": 2}),
    max_size=3,
)
NEARLY = {
    "openai": st.fixed_dictionaries({"messages": TALK, "tools": st.just([tool("t")])}),
    "sharegpt": st.fixed_dictionaries(
        {"conversations": CONVERSATION, "tools": st.just(json.dumps([tool("t")]))}
    ),
    "alpaca": st.fixed_dictionaries(
        {"instruction": TEXT, "output": TEXT},
        optional={
            "input": TEXT | st.none(),
            "history": st.lists(st.lists(TEXT, min_size=2, max_size=2), max_size=2),
        },
    ),
    "prompt-completion": st.fixed_dictionaries(
        {"prompt": TEXT | TALK, "completion": TEXT | TALK, "tools": st.just([tool("t")])}
    ),
}
"""Rows as they are in the field, most of which can be kept."""
ROWS = {name: st.builds(lambda row, more: {**more, **row}, rows, COLUMNS) for name, rows in NEARLY.items()}


def outcomes_of(name, rows):
    return list(
        convert_rows([SourceRow(None, index, row) for index, row in enumerate(rows)], FORMATS[name].convert)
    )


@given(name=st.sampled_from(list(FORMATS)), data=st.data())
@settings(deadline=None, max_examples=80)
def test_whatever_comes_in_is_counted_and_what_is_written_validates(name, data):
    rows = data.draw(st.lists(ROWS[name] | ROWS[name] | ROW | JSON, min_size=1, max_size=3))
    before = json.dumps(rows)
    outcomes = outcomes_of(name, rows)
    assert json.dumps(rows) == before
    tally = ConversionTally()
    for outcome in outcomes:
        tally.add(outcome)
        json.loads(report_line(outcome, 0))
        known = NOTES if outcome.data is not None else {**CODES, **REFUSALS}
        assert {note.code for note in outcome.notes} <= known.keys()
        assert outcome.data is not None or outcome.notes
    assert tally.rows == len(rows) == tally.written + tally.refused
    assert sum(group["rows"] for group in tally.as_dict()["refusals"]) >= tally.refused
    written = [json.loads(outcome.data) for outcome in outcomes if outcome.data is not None]
    if written:
        dataset = SftDataset.from_rows(written)
        assert dataset.to_jsonl_bytes() == b"".join(o.data + b"\n" for o in outcomes if o.data is not None)
        again = outcomes_of("openai", written)
        assert all(outcome.is_same and not outcome.notes for outcome in again)
        assert [outcome.data for outcome in again] == [o.data for o in outcomes if o.data is not None]


WORD = st.text(alphabet="abcdefgh", min_size=8, max_size=8)
SPEECH = st.tuples(st.sampled_from(["user", "assistant", "call"]), WORD, WORD, WORD)


@given(turns=st.lists(SPEECH, min_size=1, max_size=5), last=WORD, column=WORD, key=WORD)
@settings(deadline=None, max_examples=40)
def test_every_word_of_a_converted_row_is_still_in_it(turns, last, column, key):
    messages = []
    for number, (kind, one, two, three) in enumerate(turns):
        if kind == "call":
            made = call("t", json.dumps({one: two}), id=f"c{number}")
            messages += [{**calls(made), "content": one}, {**result(f"c{number}", three), "note": two}]
        else:
            messages.append(
                {
                    "role": kind,
                    "content": [{"type": "text", "text": one}, {"type": "text", "text": two}],
                    key: three,
                }
            )
    row = {
        "messages": [*messages, {"role": "assistant", "content": last, "name": key}],
        "tools": [tool("t")],
        f"_castform_{column}": last,
    }
    (outcome,) = outcomes_of("openai", [row])
    assert outcome.data is not None
    words = [word for turn in turns for word in turn[1:]]
    text = outcome.data.decode()
    assert all(text.count(word) >= words.count(word) for word in [*words, last, column, key])
