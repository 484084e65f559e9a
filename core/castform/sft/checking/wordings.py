"""What two rows are compared by: the conversation as a whole, and the word triples in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from benchmax.sft.canonical import canonical_bytes

SHINGLE_WORDS = 3
"""Words of one shingle: enough to tell sentences of the same vocabulary apart, few enough for short rows."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts that put no space between words: Thai, Lao, Burmese, Khmer, kana, Han. A letter is a word there."""
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[+*/=<>^%]|-(?=\s*\d)")
_MASK = (1 << 64) - 1
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""Odd numbers of 64 bits, one for each place in a shingle."""


def conversation_key(row: Mapping[str, Any]) -> bytes:
    """Return 16 bytes that rows share when the same is shown and trained: metadata does not count.

    Neither do a weight of 1 and an empty list of tools, which say what holds without them.
    """
    messages = [
        {key: value for key, value in message.items() if not (key == "weight" and value == 1)}
        for message in row["messages"]
    ]
    return hashlib.blake2b(canonical_bytes([messages, row.get("tools") or []]), digest_size=16).digest()


def shingles_of(row: Mapping[str, Any]) -> frozenset[int]:
    """Return the hashes of every three words in a row that follow one another in a message.

    Case, punctuation and space do not count; signs of arithmetic do. System messages are left out:
    rows that share nothing else often share them. A message of fewer words is one shingle. Empty
    when there is no word at all. The same in every process: `hash()` of texts is not used.
    """
    found: set[int] = set()
    one, two, three = _FACTORS
    for text in _texts(row):
        words = list(map(_word_hash, _WORD.findall(text.casefold())))
        if len(words) >= SHINGLE_WORDS:
            found.update(
                [
                    (a * one + b * two + c * three) & _MASK
                    for a, b, c in zip(words, words[1:], words[2:], strict=False)
                ]
            )
        elif words:
            found.add(sum(word * factor for word, factor in zip(words, _FACTORS, strict=False)) & _MASK)
    return frozenset(found)


def similarity(one: frozenset[int], two: frozenset[int]) -> float:
    """Return the Jaccard index of two sets of which at least one is not empty, from 0 to 1."""
    shared = len(one & two)
    return shared / (len(one) + len(two) - shared)


def _texts(row: Mapping[str, Any]) -> Iterator[str]:
    for message in row["messages"]:
        if message["role"] == "system":
            continue
        if message.get("content"):
            yield message["content"]
        for call in message.get("tool_calls", ()):
            yield f"{call['function']['name']} {call['function']['arguments']}"


@lru_cache(maxsize=1 << 17)
def _word_hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
