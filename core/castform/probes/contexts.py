"""What the probes may draw on: the right answers of the other examples, and what they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmax.envs import Example
from benchmax.rewards.answers import infer_kind, match_answer
from castform.gold import Rendering, gold_text
from castform.probes.probe import ProbeContext

MAX_CANDIDATES = 8
MAX_PROMPT_CHARACTERS = 20_000
GOLD_KEYS = frozenset({"answer", "ground_truth"})


def make_contexts(
    examples: Sequence[Example[Any]], golds: Mapping[str, Any], rendering: Rendering, seed: int
) -> dict[str, ProbeContext]:
    """Return one context an example, from the right answers of all of them."""
    texts = {example_id: gold_text(gold) for example_id, gold in golds.items()}
    majority = _majority([text for text in texts.values() if text is not None])
    start = _common_start([text for text in texts.values() if text])
    contexts = {}
    for place, example in enumerate(examples):
        gold = golds[example.id]
        text = texts[example.id]
        others = [examples[(place + step) % len(examples)].id for step in range(1, len(examples))]
        candidates = _candidates(gold, [t for i in others if (t := texts[i]) is not None])
        contexts[example.id] = ProbeContext(
            example_id=example.id,
            gold=gold,
            gold_text=text,
            other_gold=_other(gold, [golds[i] for i in others]),
            candidates=candidates,
            majority=majority,
            majority_is_right=majority is not None and gold is not None and is_right(majority, gold),
            common_start=None if start is None or gold is None or is_right(start, gold) else start,
            prompt=_prompt(example.payload),
            rendering=rendering,
            seed=seed,
        )
    return contexts


def is_right(text: str, gold: Any) -> bool:
    """Say whether a text gives a right answer; of several alternatives any one will do.

    Expressions are compared as they are written: in a puzzle for 24 all of them are equal.
    """
    alternatives = gold if isinstance(gold, (list, tuple)) else [gold]
    texts = [t for item in alternatives if (t := gold_text(item)) is not None]
    return any(text == t or _matches(text, t) for t in texts)


def _matches(text: str, gold: str) -> bool:
    kind = infer_kind(gold)
    return bool(match_answer(text, gold, kind="text" if kind == "expression" else kind))


def _other(gold: Any, others: Sequence[Any]) -> Any:
    """Return the first of the other right answers that is not right here, None if there is none."""
    for other in others:
        if other is None or other == gold:
            continue
        text = gold_text(other)
        if gold is None or text is None or not is_right(text, gold):
            return other
    return None


def _candidates(gold: Any, others: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for text in others:
        if text not in found and (gold is None or not is_right(text, gold)):
            found[text] = None
            if len(found) == MAX_CANDIDATES:
                break
    return tuple(found)


def _majority(texts: Sequence[str]) -> str | None:
    return Counter(texts).most_common(1)[0][0] if texts else None


def _common_start(texts: Sequence[str]) -> str | None:
    """Return the first character that most answers of several characters share, if most do."""
    long = [text for text in texts if len(text) > 1]
    if not long:
        return None
    character, count = Counter(text[0] for text in long).most_common(1)[0]
    return character if character.isalnum() and 2 * count > len(texts) else None


def _prompt(payload: Any) -> str:
    """Return the texts of an example's data, as far as they can be read, without the right answer."""
    parts: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, str):
            parts.append(value)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                if key not in GOLD_KEYS:
                    walk(item)
        elif isinstance(value, (list, tuple)):
            for item in value:
                walk(item)

    walk(payload)
    return "\n".join(parts)[:MAX_PROMPT_CHARACTERS]
