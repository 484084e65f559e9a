"""Say which tokenizer and chat template token ids belong to."""

from __future__ import annotations

import hashlib
import json

from tokenizers import Tokenizer

from castform.token_marks import TokenMarks
from castform_trainer.gateway.tokens import ChatTokenizer


def make_marks(tokenizer: ChatTokenizer, template: str, *, model_name: str) -> TokenMarks:
    """Return the marks of a loaded tokenizer, the same for each copy of its files, and of a template's text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if isinstance(backend, Tokenizer):
        parts = json.loads(backend.to_str())
        for passing in ("truncation", "padding"):  # set by whoever encoded last
            parts.pop(passing, None)
    else:  # of Python alone
        parts = getattr(tokenizer, "get_vocab", dict)()
    return TokenMarks(
        model=model_name,
        tokenizer_sha256=_digest(json.dumps(parts, sort_keys=True)),
        template_sha256=_digest(template),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
