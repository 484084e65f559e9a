"""Read the end-of-turn ids of a model folder from its files, without transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from castform.errors import UsageError


def read_end_ids(folder: Path) -> tuple[int, ...]:
    """Return the ids that end a reply: generation_config.json's (without one, config.json's), then
    the tokenizer's own end token. Raises UsageError when there is none.

    A server with `--generation-config vllm` knows the last of these alone, so all are sent.
    """
    source = "generation_config.json" if (folder / "generation_config.json").is_file() else "config.json"
    named = _read_json(folder / source).get("eos_token_id")
    ids = [*named] if isinstance(named, list) else [named]
    found = dict.fromkeys(i for i in (*ids, _tokenizer_end(folder)) if isinstance(i, int))
    if not found:
        raise UsageError(
            f"{folder} has no end-of-turn token, so its replies would never end",
            hint="set eos_token_id in the model's generation_config.json",
        )
    return tuple(found)


def _tokenizer_end(folder: Path) -> int | None:
    token = _read_json(folder / "tokenizer_config.json").get("eos_token")
    text = token.get("content") if isinstance(token, dict) else token
    for added in _read_json(folder / "tokenizer.json").get("added_tokens") or ():
        if added.get("content") == text:
            return int(added["id"])
    return None


def _read_json(path: Path) -> dict[str, Any]:
    """Return a file's JSON object, or an empty one where there is none. `Any`: JSON."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
