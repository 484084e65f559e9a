"""Rows through a format and the checks, as the tests of the formats look at them."""

from __future__ import annotations

import json

from castform.sft.convert.conversion import convert_rows
from castform.sft.convert.formats import FORMATS
from castform.sft.convert.source import SourceRow


def convert(name, row, **options):
    """Return the converted row and its notes as (code, location); a refused row is None."""
    outcome = outcome_of(name, row, **options)
    notes = [(note.code, note.location) for note in outcome.notes]
    return (None if outcome.data is None else json.loads(outcome.data)), notes


def refusal(name, row):
    """Return the one note of a row that must be refused."""
    outcome = outcome_of(name, row)
    assert outcome.data is None
    assert len(outcome.notes) == 1, outcome.notes
    return outcome.notes[0]


def outcome_of(name, row, **options):
    source = SourceRow(7, 3, json.loads(json.dumps(row)))
    (outcome,) = convert_rows([source], FORMATS[name].convert, **options)
    assert (outcome.line, outcome.row) == (7, 3)
    return outcome


def user(content, **more):
    return {"role": "user", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(name, arguments="{}", id="c1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made, **more):
    return {"role": "assistant", "tool_calls": list(made), **more}


def result(id, content="ok"):
    return {"role": "tool", "tool_call_id": id, "content": content}


def tool(name, **more):
    parameters = {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {"name": name, "description": "d", "parameters": parameters, **more},
    }
