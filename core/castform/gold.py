"""Turn what `Environment.gold` gives into something a model could have said."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmax.envs import Environment, Example
from castform.scripted_replies import Answer, Fault, Script, ScriptedRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendering:
    """A way to write an answer down. Environments differ in which one they read."""

    name: str
    write: Callable[[str], str]


RENDERINGS = (
    Rendering(name="as given", write=lambda text: text),
    Rendering(name="<answer> tags", write=lambda text: f"<answer>{text}</answer>"),
    Rendering(name="\\boxed{}", write=lambda text: f"\\boxed{{{text}}}"),
    Rendering(name="after ####", write=lambda text: f"#### {text}"),
    Rendering(name="in a sentence", write=lambda text: f"The answer is {text}"),
)
"""Tried in this order; of equally paid ones the first is used."""
_FORMS = (
    re.compile(r"\s*<answer>((?:(?!</?answer>).)*)</answer>\s*", re.DOTALL),
    re.compile(r"\s*\\boxed\{((?:(?!\\boxed).)*)\}\s*", re.DOTALL),
)
"""Forms that a right answer may come in, as `RENDERINGS` writes them."""


def read_gold(environment: Environment[Any, Any], example: Example[Any]) -> Any:
    """Return the right answer, or None when the environment does not say.

    Any: authors keep answers as text, numbers, lists of turns. RuntimeError when `gold` raises, or gives
    what nobody can write down: a coroutine, bytes, an object without a text of its own.
    """
    try:
        gold = environment.gold(example)
    except (Exception, SystemExit) as error:  # the author's code may raise anything
        raise RuntimeError(f"gold() raised {type(error).__name__}: {error}") from error
    if gold is None or (isinstance(gold, (str, list)) and not gold):
        return None
    fault = _describe_unwritable(gold)
    if fault is not None:
        raise RuntimeError(f"gold() {fault}")
    return gold


def _describe_unwritable(gold: Any) -> str | None:
    if inspect.iscoroutine(gold):
        gold.close()
        return "is async, but is not awaited: make it a plain method"
    kind = type(gold)
    says_nothing = all(getattr(kind, name) is getattr(object, name) for name in ("__str__", "__repr__"))
    if says_nothing or isinstance(gold, (bytes, bytearray)) or callable(gold):
        return f"gave a {kind.__name__}, not a text, a number, a list of them or assistant messages"
    try:
        gold_text(gold)
    except Exception as error:  # noqa: BLE001 - an answer's own __str__, or a number of more digits than Python writes
        return f"gave a {kind.__name__} that cannot be written down: {type(error).__name__}: {error}"
    return None


def gold_text(gold: Any) -> str | None:
    """Return a right answer as text; of several alternatives the first. None when it is unknown or a conversation."""
    if gold is None:
        return None
    if isinstance(gold, (list, tuple)) and gold and all(isinstance(item, (str, int, float)) for item in gold):
        gold = gold[0]
    if isinstance(gold, bool):
        return str(gold).lower()
    if isinstance(gold, (str, int, float)):
        return str(gold)
    return None if _turns(gold) else str(gold)


def gold_script(gold: Any, rendering: Rendering) -> Script:
    """Return a script that answers right. Assistant messages are played in order, the last one for ever."""
    text = gold_text(gold)
    if text is not None:
        written = rendering.write(text)
        return lambda request: written
    turns = _turns(gold)

    def answer(request: ScriptedRequest) -> Answer:
        return turns[min(request.index, len(turns) - 1)] if turns else Fault(status=400)

    return answer


def _turns(gold: Any) -> Sequence[Mapping[str, Any]]:
    """Return the assistant messages of an answer that is one message or a list of them."""
    messages = [gold] if isinstance(gold, Mapping) else gold
    if not isinstance(messages, (list, tuple)):
        return ()
    if not all(isinstance(m, Mapping) and ("content" in m or "tool_calls" in m) for m in messages):
        return ()
    return [m for m in messages if m.get("role", "assistant") == "assistant"]


def unwrap_golds(golds: Mapping[str, Any]) -> dict[str, Any]:
    """Return right answers without the form that all of them are written in, a box or answer tags.

    So that they can be put into words, and into that form again: it is among `RENDERINGS`.
    """
    for form in _FORMS:
        inner = {example_id: _unwrap(gold, form) for example_id, gold in golds.items() if gold is not None}
        if inner and all(inner.values()):
            return {example_id: inner.get(example_id) for example_id in golds}
    return dict(golds)


def _unwrap(gold: Any, form: re.Pattern[str]) -> str | None:
    match = form.fullmatch(gold) if isinstance(gold, str) else None
    return match[1].strip() if match else None
