"""A small tokenizer whose vocabulary spells every text in many ways. Pure Python.

The ids that a model samples are rarely those that encoding their text would give. Code that
decodes sampled ids and encodes the text again trains on ids that nobody sampled; with this
tokenizer it fails at once, where a real one would hide it for weeks.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""End of text, begin and end of a turn. Each is one id, and never made of others."""
END_OF_TURN = SPECIALS[2]
MERGES = (
    *("he", "ll", "llo", "hello", "su", "sun", "fl", "flo", "flow", "er", "flower", "sunflower"),
    *(
        "to",
        "ol",
        "tool",
        "{Ċ",
        '{"',
        '"}',
        '":',
        "ĊĊ",
        "00",
        "10",
        "100",
        "an",
        "and",
        "th",
        "the",
        "in",
        "ing",
    ),
)
"""Merged tokens, each spelled by two that come before it (Ċ is a line break)."""


def byte_alphabet() -> Mapping[int, str]:
    """Return one visible character for every byte: itself where it is visible, else one from U+0100 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(0x100, 0x200))
    return {byte: chr(byte if byte in visible else next(hidden)) for byte in range(256)}


def make_vocabulary() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the id of every token, and the pairs that are merged, the first one first."""
    vocabulary = {token: place for place, token in enumerate([*SPECIALS, *sorted(byte_alphabet().values())])}
    merges: list[tuple[str, str]] = []
    for token in MERGES:
        cut = next(i for i in range(len(token) - 1, 0, -1) if {token[:i], token[i:]} <= vocabulary.keys())
        merges.append((token[:cut], token[cut:]))
        vocabulary[token] = len(vocabulary)
    return vocabulary, merges


class FakeTokenizer:
    """Byte-level BPE with a few dozen merges.

    `encode` gives the canonical ids of a text, `spell` any ids that decode to it, as a model
    samples them.
    """

    def __init__(self) -> None:
        self.vocabulary, self._merges = make_vocabulary()
        self._ranks = {pair: rank for rank, pair in enumerate(self._merges)}
        self._alphabet = byte_alphabet()
        self._bytes = {character: byte for byte, character in self._alphabet.items()}

    @property
    def end_of_turn_id(self) -> int:
        return self.vocabulary[END_OF_TURN]

    @cached_property
    def tokens(self) -> Sequence[str]:
        """The token of every id, bytes as visible characters."""
        return tuple(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        """Return the canonical ids of a text, its special tokens recognised. UnicodeEncodeError for a lone surrogate."""
        return [id for part in _split_specials(text) for id in self._encode_part(part)]

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """Return the text of ids; bytes that are no UTF-8 become U+FFFD. IndexError for an id that does not exist."""
        data = bytearray()
        for id in ids:
            token = self.tokens[id]
            if token in SPECIALS:
                data += b"" if skip_special_tokens else token.encode()
            else:
                data += bytes(self._bytes[character] for character in token)
        return data.decode("utf-8", "replace")

    def spell(self, text: str, *, seed: int = 0) -> list[int]:
        """Return ids that decode to a text, drawn from the seed; special tokens stay whole."""
        draws = random.Random(seed)
        ids: list[int] = []
        for part in _split_specials(text):
            rest = part if part in SPECIALS else self._visible(part)
            while rest:
                starts = [rest] if rest in SPECIALS else self._starts(rest)
                token = draws.choice(starts)
                ids.append(self.vocabulary[token])
                rest = rest[len(token) :]
        return ids

    def is_canonical(self, ids: Sequence[int]) -> bool:
        """Say whether encoding the text of these ids gives them back."""
        return self.encode(self.decode(ids)) == list(ids)

    def _encode_part(self, part: str) -> list[int]:
        if part in SPECIALS:
            return [self.vocabulary[part]]
        pieces = list(self._visible(part))
        while len(pieces) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in pairwise(pieces)]
            best = min(ranks)
            if best == len(self._ranks):
                break
            place = ranks.index(best)
            pieces[place : place + 2] = ["".join(self._merges[best])]
        return [self.vocabulary[piece] for piece in pieces]

    def _visible(self, text: str) -> str:
        return "".join(self._alphabet[byte] for byte in text.encode())

    def _starts(self, rest: str) -> list[str]:
        longest = max(map(len, MERGES))
        return [
            start for n in range(1, longest + 1) if (start := rest[:n]) in self.vocabulary and len(start) == n
        ]


def _split_specials(text: str) -> list[str]:
    return [part for part in re.split(f"({'|'.join(map(re.escape, SPECIALS))})", text) if part]
