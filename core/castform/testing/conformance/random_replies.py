"""Strategies for what a model might say to an environment: sense, nonsense, tool calls, faults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from castform.scripted_replies import Answer, Fault, RawReply, Reply, ToolUse

MOST_ANSWERS = 4
MOST_SIBLINGS = 3
STATUSES = (400, 401, 403, 404, 413, 422, 429, 500, 502, 503)
BODIES = (b"", b"{", b"null", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{"message": null}]}')
ODD_TEXTS = (
    "",
    " ",
    "\x00",
    "\u2028\ufeff",
    "nan",
    "-inf",
    "1e999",
    "9" * 400,
    "None",
    "<answer></answer>",
    "<answer><answer>1</answer>",
    "\\boxed{",
    "####",
    "[[]]",
    "{}",
    '{"answer": null}',
    "```python\n```",
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)

# Any: schemas and arguments are JSON.


def groups_of_scripts(
    tools: Sequence[Mapping[str, Any]], right: Sequence[str]
) -> st.SearchStrategy[list[list[Answer]]]:
    """Return groups: each sibling a list of answers, given one after the other.

    `tools` are offered in OpenAI's form; `right` are texts that may be right.
    """
    return st.lists(
        st.lists(answers(tools, right), min_size=1, max_size=MOST_ANSWERS),
        min_size=1,
        max_size=MOST_SIBLINGS,
    )


def answers(tools: Sequence[Mapping[str, Any]], right: Sequence[str]) -> st.SearchStrategy[Answer]:
    """Return one thing that a model or its server may answer."""
    texts = st.sampled_from([*right, *ODD_TEXTS]) | st.text(max_size=80) | st.integers().map(str)
    calls = st.lists(tool_uses(tools), max_size=3)
    reasons = st.sampled_from([None, None, "stop", "length", "content_filter", "tool_calls"])
    replies = st.builds(
        Reply,
        content=st.none() | texts,
        tool_calls=calls,
        finish_reason=reasons,
        reasoning=st.none() | st.text(max_size=20),
    )
    codes = st.sampled_from([None, "context_budget_exceeded", "rate_limit"])
    faults = st.builds(Fault, status=st.sampled_from(STATUSES), code=codes, retry_after_seconds=st.just(0))
    raw = st.builds(RawReply, body=st.sampled_from(BODIES))
    return st.one_of(texts, replies, replies, faults, raw)


def tool_uses(tools: Sequence[Mapping[str, Any]]) -> st.SearchStrategy[ToolUse]:
    """Return calls: of the tools that are offered with arguments that fit and that do not, and of none."""
    unknown = st.builds(
        ToolUse, name=st.sampled_from(["no_such_tool", "", "final answer"]), arguments=_broken()
    )
    offered = [
        st.builds(
            ToolUse,
            name=st.just(str(tool["function"]["name"])),
            arguments=fitting(tool["function"].get("parameters") or {}).map(json.dumps) | _broken(),
        )
        for tool in tools
        if "function" in tool
    ]
    return st.one_of(*offered, *offered, unknown)


def _broken() -> st.SearchStrategy[str]:
    return st.dictionaries(st.text(max_size=8), JSON, max_size=3).map(json.dumps) | st.sampled_from(
        ["", "{", "null", "[1]", '"text"', "{'a': 1}", '{"a": 1} {"b": 2}', "NaN"]
    )


def fitting(schema: Mapping[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Return values that a JSON schema allows, as far as types, enums and required properties go."""
    if depth > 4:
        return st.none()
    if "const" in schema:
        return st.just(schema["const"])
    if schema.get("enum"):
        return st.sampled_from(list(schema["enum"]))
    for name in ("anyOf", "oneOf"):
        if schema.get(name):
            return st.one_of(*(fitting(part, depth + 1) for part in schema[name]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return st.one_of(*(fitting({**schema, "type": part}, depth + 1) for part in kind))
    if kind == "object" or "properties" in schema:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        required = set(schema.get("required") or ())
        return st.fixed_dictionaries(
            {name: fitting(part, depth + 1) for name, part in properties.items() if name in required},
            optional={
                name: fitting(part, depth + 1) for name, part in properties.items() if name not in required
            },
        )
    if kind == "array":
        return st.lists(fitting(schema.get("items") or {}, depth + 1), max_size=3)
    simple: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(max_size=20) | st.sampled_from(ODD_TEXTS),
        "integer": st.integers(-(2**40), 2**40),
        "number": st.floats(allow_nan=False, allow_infinity=False),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return simple.get(str(kind), JSON)
