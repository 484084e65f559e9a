"""Read a judge's verdict out of its reply, and nothing that only looks like one.

The rule, in this order:

1. A reply that is one JSON object, bare or in one code fence, is the verdict, or there is
   none: what its strings hold never counts. Thinking (`<think>`) is left out, closed or not.
2. Of a reply with more in it, the last object that `read` accepts is the verdict. It is
   taken back by a later object that `read` refuses and that shares a key with it, and by
   any later one that is malformed or cut off.
3. A judge that was shown other people's text was also given a seal to repeat. Objects with
   the seal are then the only ones that count. Without one a reply that is an object and
   nothing else, not even thinking, still counts; any other only when none of the texts has
   both a brace and a key of an object in the reply.

Objects with a repeated key, NaN, or a number beyond a float are malformed.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from benchmax.rewards.judge.json_objects import find_objects, whole_object

# Any: a verdict is JSON as the judge wrote it.
T = TypeVar("T")

SEAL_KEY = "seal"

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})", re.IGNORECASE)


class NoVerdictError(ValueError):
    """A reply holds no verdict that can be trusted; the message says why."""


def read_verdict(
    reply: str,
    read: Callable[[dict[str, Any]], T],
    *,
    seal: str | None = None,
    untrusted: Sequence[str] = (),
) -> T:
    """Return what `read` makes of the verdict in the reply, by the rule above.

    `read` raises ValueError for an object that is no verdict. NoVerdictError: there is none.
    """
    alone = whole_object(reply)
    objects = find_objects(without_thoughts(reply)) if alone is None else [alone]
    if seal is not None:
        sealed = [found for found in objects if found is None or found.get(SEAL_KEY) == seal]
        if any(sealed):
            objects = [found and {key: found[key] for key in found if key != SEAL_KEY} for found in sealed]
        else:
            objects = [found for found in objects if found is None or SEAL_KEY not in found]
            if alone is None:
                _check_not_quoted(objects, untrusted)
    return _last_accepted(objects, read)


def without_thoughts(reply: str) -> str:
    """Return the reply without its thinking; an opening tag may be missing, or a closing one."""
    return _THOUGHT_END.split(_THOUGHT.sub("", reply))[-1]


def read_number(verdict: Mapping[str, Any], key: str, *, low: float, high: float) -> float:
    """Return the number under `key`, also from text such as "0.7". ValueError: none between low and high."""
    value = verdict.get(key)
    if isinstance(value, str):
        value = _number_in(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{key!r} must be a number")
    if not low <= value <= high:
        raise ValueError(f"{key!r} must be between {low:g} and {high:g}")
    return float(value)


def _number_in(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _last_accepted(objects: Sequence[dict[str, Any] | None], read: Callable[[dict[str, Any]], T]) -> T:
    problem = ""
    refused: set[str] = set()
    for found in reversed(objects):
        if found is None:
            raise NoVerdictError("the last JSON object in the reply is malformed or cut off")
        try:
            verdict = read(found)
        except ValueError as error:
            problem = problem or str(error)
            refused |= found.keys()
            continue
        if refused & found.keys():
            break
        return verdict
    raise NoVerdictError(problem or "no JSON object of the judge's own in the reply")


def _as_quoted(text: str) -> str:
    """Return a text as a judge may have tidied it: in any case, plain letters, nothing invisible."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(sign for sign in text if unicodedata.category(sign) != "Cf")
    return text.casefold()


def _check_not_quoted(objects: Sequence[dict[str, Any] | None], untrusted: Sequence[str]) -> None:
    """NoVerdictError when an object may be one of the judged texts' own."""
    keys = {_as_quoted(key) for found in objects if found for key in found}
    for text in untrusted:
        plain = _as_quoted(_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text))
        if "{" in plain and any(key in plain for key in keys):
            raise NoVerdictError("the reply bears no seal and may quote the text that it judges")
