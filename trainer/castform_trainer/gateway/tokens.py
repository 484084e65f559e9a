"""Text to ids and back, with user text kept from becoming control tokens.

Texts that the template writes are encoded with control tokens; a control token's spelling
inside a message is first replaced by a marker, and encoded as ordinary characters.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from tokenizers import Tokenizer

CACHED_TEXTS = 2048
LONGEST_CACHED_TEXT = 100_000  # characters


class ChatTokenizer(Protocol):
    """The part of a transformers tokenizer that the gateway calls."""

    chat_template: Any
    """Jinja text, a mapping of named ones, or None."""
    all_special_tokens: list[str]

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> Any: ...
    def encode(self, text: str, **options: Any) -> list[int]: ...
    def decode(self, token_ids: Any, **options: Any) -> Any: ...
    def convert_tokens_to_ids(self, tokens: Any) -> Any: ...


class TextCodec:
    """Encodes rendered text and decodes sampled ids; used from one thread."""

    def __init__(
        self, tokenizer: ChatTokenizer, *, controls: Collection[str] = (), cached_texts: int = CACHED_TEXTS
    ) -> None:
        """`controls` are texts to guard besides the tokenizer's special tokens."""
        self._cached_texts = cached_texts
        self._tokenizer = tokenizer
        self._backend = _copy_backend(tokenizer, literal=False)
        self._literal_backend: Any = None
        self._special_ids = _special_ids(tokenizer, controls)
        self._special_texts = sorted(self._special_ids, key=len, reverse=True)
        self._special_pattern = re.compile("|".join(map(re.escape, self._special_texts)) or r"(?!)")
        nonce = secrets.token_hex(6)
        self._marker = f"qZ{nonce}x{{}}Zq"  # plain ASCII: survives JSON escaping and trimming
        self._marker_pattern = re.compile(f"qZ{nonce}x(\\d+)Zq")
        self._dropped: dict[tuple[str, ...], frozenset[int]] = {}
        self._cache: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def guard(self, value: Any) -> Any:
        """Return a JSON value with every control token spelled in its strings replaced by a marker."""
        if isinstance(value, str):
            return self._special_pattern.sub(self._mark, value)
        if isinstance(value, dict):
            return {self.guard(key): self.guard(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.guard(inner) for inner in value]
        return value

    def find_control_texts(self, text: str) -> list[str]:
        """Return the control tokens that are spelled in a text, each once."""
        return sorted(set(self._special_pattern.findall(text)))

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of rendered text; guarded spellings become ordinary tokens."""
        known = self._cache.get(text)
        if known is not None:
            self._cache.move_to_end(text)
            return known
        ids: list[int] = []
        pieces = self._marker_pattern.split(text)
        for place, piece in enumerate(pieces):
            if place % 2:
                ids += self._encode_literal(self._special_texts[int(piece)])
            elif piece:
                ids += self._encode_plain(piece)
        encoded = tuple(ids)
        if len(text) <= LONGEST_CACHED_TEXT:
            self._cache[text] = encoded
            if len(self._cache) > self._cached_texts:
                self._cache.popitem(last=False)
        return encoded

    def decode(self, ids: Sequence[int], *, keep: tuple[str, ...] = ()) -> str:
        """Return the text of sampled ids without control tokens, except those named in `keep`."""
        if keep not in self._dropped:
            self._dropped[keep] = frozenset(i for text, i in self._special_ids.items() if text not in keep)
        dropped = self._dropped[keep]
        return self.decode_exactly([i for i in ids if i not in dropped])

    def decode_exactly(self, ids: Sequence[int]) -> str:
        """Return the text of ids with every control token spelled out."""
        if self._backend is not None:
            return str(self._backend.decode(list(ids), skip_special_tokens=False))
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def _mark(self, match: re.Match[str]) -> str:
        return self._marker.format(self._special_texts.index(match.group()))

    def _encode_plain(self, text: str) -> list[int]:
        if self._backend is not None:
            return list(self._backend.encode(text, add_special_tokens=False).ids)
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _encode_literal(self, text: str) -> list[int]:
        if self._backend is not None:
            if self._literal_backend is None:
                self._literal_backend = _copy_backend(self._tokenizer, literal=True)
            ids = list(self._literal_backend.encode(text, add_special_tokens=False).ids)
            if self._special_ids[text] not in ids:
                return ids
        # One character at a time: no control token is one character long.
        return [i for char in text for i in self._encode_plain(char)]


def list_added_tokens(tokenizer: ChatTokenizer) -> list[Any]:
    """Return the tokens that were added to the vocabulary whole, special or not."""
    return list((getattr(tokenizer, "added_tokens_decoder", None) or {}).values())


def _special_ids(tokenizer: ChatTokenizer, controls: Collection[str]) -> dict[str, int]:
    texts = {*tokenizer.all_special_tokens, *controls}
    texts.update(str(t) for t in list_added_tokens(tokenizer) if getattr(t, "special", False))
    ids = {text: tokenizer.convert_tokens_to_ids(text) for text in texts if len(text) > 1}
    return {text: i for text, i in ids.items() if isinstance(i, int)}


def _copy_backend(tokenizer: ChatTokenizer, *, literal: bool) -> Any:
    """Copy the Rust tokenizer, which must not be shared between threads; None when there is none."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        return None
    copy = Tokenizer.from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    copy.encode_special_tokens = literal
    return copy
