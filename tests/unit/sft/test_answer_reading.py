"""What is asked of a held-out row, and when a reply is the row's own turn."""

from __future__ import annotations

import json

import pytest

from castform_trainer.engines.contract import Generation
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.masking import mask_row
from castform_trainer.sft.questions import AnswerReader, make_questions
from castform_trainer.sft.turn_template import TurnTemplate
from castform_trainer.testing import CHATML_TEMPLATE, make_tiny_tokenizer

END = 2
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


def make_template(chat_template=CHATML_TEMPLATE):
    return TurnTemplate(make_tiny_tokenizer(chat_template=chat_template), name="tiny", end_ids=(END,))


TEMPLATE = make_template()


def samples_of(rows, template=TEMPLATE):
    return [
        Sample(row=n, ids=m.ids, weights=tuple(map(float, m.trained)), last_message=m.places[-1])
        for n, row in enumerate(rows)
        for m in mask_row(template, row)
    ]


def ask(rows, *, count=99, seed=0, context_tokens=512, template=TEMPLATE):
    return make_questions(
        rows, samples_of(rows, template), count=count, seed=seed, context_tokens=context_tokens
    )


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(name="add", **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": "c1", "type": "function", "function": function}


def judge(row, text, *, template=TEMPLATE, ends=True):
    """Return the answer that a reply with this text is to the row."""
    (question,) = ask([row], template=template)
    reader = AnswerReader(template, end_ids=(END,))
    ids = (*template.codec.encode(text), *((END,) if ends else ()))
    reply = Generation(
        ids=ids, logprobs=(0.0,) * len(ids), finish_reason="stop" if ends else "length", version=0
    )
    return reader.read(question, reply)


def text_of(ids):
    return TEMPLATE.codec.decode_exactly(ids)


def test_a_row_is_asked_up_to_its_last_trained_turn():
    row = {
        "messages": [
            user("a"),
            assistant("first"),
            user("b"),
            assistant("second"),
            user("c"),
            assistant("third", weight=0),
        ]
    }
    (question,) = ask([row])
    assert text_of(question.answer_ids) == "second<|im_end|>"
    prompt = TEMPLATE.render(row["messages"][:3], open_reply=True)
    assert text_of(question.prompt_ids) == prompt
    assert question.message is row["messages"][3]
    size = len(question.answer_ids)
    assert question.max_new_tokens == size + size // 2 + 16


def test_the_last_turn_is_found_among_several_samples_of_a_row():
    first = Sample(row=0, ids=(1, 5, 6, 1, 7), weights=(0, 0, 1, 0, 1), last_message=5)
    second = Sample(row=0, ids=(1, 8, 9), weights=(0, 1, 1), last_message=3)
    row = {"messages": [{"role": "assistant", "content": str(n)} for n in range(6)]}
    for samples in ([first, second], [second, first]):
        (question,) = make_questions([row], samples, count=9, seed=0, context_tokens=64)
        assert (question.prompt_ids, question.answer_ids) == ((1, 5, 6, 1), (7,))


def test_a_reply_never_runs_past_the_context():
    row = {"messages": [user("a"), assistant("b")]}
    (free,) = ask([row])
    size = len(free.prompt_ids) + len(free.answer_ids)
    (tight,) = ask([row], context_tokens=size)
    assert tight.max_new_tokens == len(tight.answer_ids)


def test_fewer_questions_than_rows_are_a_sample_that_the_seed_draws():
    rows = [{"messages": [user(str(n)), assistant("x")]} for n in range(30)]
    first, again, other = (
        [question.row for question in ask(rows, count=10, seed=seed)] for seed in (0, 0, 1)
    )
    assert first == again and first != other
    assert len(set(first)) == 10 and first == sorted(first)
    assert [question.row for question in ask(rows, count=30)] == list(range(30))
    assert ask(rows, count=0) == []


def test_text_is_right_when_it_is_the_same_without_outer_whitespace():
    row = {"messages": [user("a"), assistant("it is  red")]}
    assert judge(row, "it is  red").correct
    found = judge(row, " \nit is  red\n")
    assert found.correct and found.text == found.expected == "it is  red"
    for wrong in ("it is red", "It is  red", "it is  red.", ""):
        assert not judge(row, wrong).correct
    cut = judge(row, "it is  red", ends=False)
    assert (cut.correct, cut.cut) == (False, True)
    assert judge(row, "it is  red").cut is False


@pytest.mark.parametrize(
    ("arguments", "correct"),
    [
        ('{"a": 1, "b": [true, "x"]}', True),
        ('{ "b":[true,"x"],"a":1.0 }', True),
        ('{"a": true, "b": [true, "x"]}', False),
        ('{"a": 1, "b": [1, "x"]}', False),
        ('{"a": 1, "b": [true]}', False),
        ('{"a": 1}', False),
        ('{"a": 1, "b": [true, "x"], "c": 0}', False),
    ],
)
def test_calls_are_right_when_names_and_parsed_arguments_are_equal(arguments, correct):
    row = {"messages": [user("go"), assistant("", tool_calls=[call(a=1, b=[True, "x"])])], "tools": TOOLS}
    text = f'<tool_call>\n{{"name": "add", "arguments": {arguments}}}\n</tool_call>'
    assert judge(row, text).correct is correct


def test_another_name_another_number_of_calls_or_no_call_is_wrong():
    row = {"messages": [user("go"), assistant("", tool_calls=[call(a=1)])], "tools": TOOLS}
    one = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    assert judge(row, one).correct
    assert judge(row, f"Let me see.\n{one}").correct  # what is said beside a call is not compared
    assert not judge(row, one.replace("add", "sub")).correct
    assert not judge(row, f"{one}\n{one}").correct
    assert not judge(row, "I cannot").correct
    assert not judge(row, one.replace("}}", "}")).correct
    plain = {"messages": [user("go"), assistant("I cannot")], "tools": TOOLS}
    assert judge(plain, "I cannot").correct
    assert not judge(plain, one).correct


def test_calls_that_do_not_read_back_are_compared_as_text():
    template = make_template(
        CHATML_TEMPLATE.replace("<tool_call>\\n{", "CALL {").replace("}\\n</tool_call>'", "} END'")
    )
    row = {"messages": [user("go"), assistant("", tool_calls=[call(a=1)])], "tools": TOOLS}
    written = 'CALL {"name": "add", "arguments": {"a": 1}} END'
    assert judge(row, written, template=template).expected == written
    assert judge(row, written, template=template).correct
    assert not judge(row, written.replace(": 1", ":1"), template=template).correct


def test_thinking_is_left_out_where_the_template_marks_it():
    template = make_template(
        CHATML_TEMPLATE.replace(
            "(message['content'] or '')",
            "('<think>\\n' + message['reasoning_content'] + '\\n</think>\\n\\n' "
            "if message['reasoning_content'] else '') + (message['content'] or '')",
        )
    )
    row = {"messages": [user("2+2"), assistant("<think>\ntwo and two\n</think>\n\n4")]}
    found = judge(row, "<think>\nlet me count\n</think>\n\n4", template=template)
    assert found.correct
    assert found.text.startswith("<think>") and "let me count" in found.text
    assert not judge(row, "<think>\ntwo and two\n</think>\n\n5", template=template).correct
    assert judge(row, "4", template=template).correct


def test_a_turn_that_ordinary_text_ends_is_cut_there():
    template = make_template(CHATML_TEMPLATE.replace("<|im_end|>", "</turn>"))
    row = {"messages": [user("a"), assistant("b c")]}
    reader = AnswerReader(template, end_ids=(END,))
    assert reader.stop == ("</turn>",)
    assert judge(row, "b c</turn>", template=template).correct  # and then the model's own end token
    assert judge(row, "b c", template=template).correct
    assert not judge(row, "b</turn> c", template=template).correct
    assert judge(row, "b c</turn>", template=template).text == "b c"
