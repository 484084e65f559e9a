"""What an example asks, and which of its words set it apart from the others of its dataset."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmax.envs import Example
from castform.gold import gold_text

ANSWERS = frozenset({"ground_truth", "answer"})
GRAM = 5
_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def question_of(example: Example[Any]) -> str:
    """Return what the model is asked, as text: the prompt, or the payload without its right answer."""
    payload = example.payload
    if not isinstance(payload, Mapping):
        return str(payload)
    messages = payload.get("prompt_messages")
    if isinstance(messages, (list, tuple)):
        return "\n".join(_content(message) for message in messages)
    return repr(sorted((str(k), v) for k, v in payload.items() if k not in ANSWERS and k != "id"))


def _content(message: Any) -> str:
    content = message.get("content") if isinstance(message, Mapping) else message
    if isinstance(content, (list, tuple)):
        return " ".join(
            str(part.get("text", part)) if isinstance(part, Mapping) else str(part) for part in content
        )
    return str(content)


def normalise(text: str) -> str:
    """Return a text without what a reader would not notice: case, spacing, forms of the same character."""
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text)).strip().casefold()


def gold_key(gold: Any) -> str | None:
    """Return a right answer in a form that can be compared; None where it is unknown."""
    if gold is None:
        return None
    text = gold_text(gold)
    return normalise(text) if text is not None else normalise(repr(gold))


def numbers_in(text: str) -> tuple[str, ...]:
    """Return the numbers of a text in order: texts that differ in one are different tasks."""
    return tuple(_NUMBER.findall(text))


def telling_grams(texts: Sequence[str], *, most: int) -> list[frozenset[str]]:
    """Return each text's character 5-grams that at most `most` of the texts have.

    What more of them share is the template, which says nothing about two of them being alike.
    """
    grams = [frozenset(text[i : i + GRAM] for i in range(max(1, len(text) - GRAM + 1))) for text in texts]
    counts = Counter(gram for each in grams for gram in each)
    return [frozenset(gram for gram in each if counts[gram] <= most) for each in grams]
