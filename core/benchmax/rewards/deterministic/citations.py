"""Whether an answer cites the sources that it should, and only those."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmax.rewards.deterministic.completion import Completion, extract_completion_text

_CITATION = re.compile(r"\[\s*source\s*:\s*([^\]]+)\]", re.IGNORECASE)


def citation_score(
    completion: Completion,
    reference_chunks: Iterable[object],
    *,
    source_field: str | Sequence[str] = "source_id",
    canonicalize: Callable[[str], str] = str.strip,
) -> dict[str, float]:
    """Return `precision` and `recall` of the `[Source: id]` marks against the chunks' sources.

    Both are over sets of ids after `canonicalize`. A chunk's id is the first field in
    `source_field` that its `metadata` fills. No marks or no ids: both 0.
    """
    fields = (source_field,) if isinstance(source_field, str) else tuple(source_field)
    cited = {canonicalize(mark) for mark in _CITATION.findall(extract_completion_text(completion))} - {""}
    sources = (_source_of(chunk, fields) for chunk in reference_chunks)
    expected = {canonicalize(source) for source in sources if source is not None} - {""}
    if not cited or not expected:
        return {"precision": 0.0, "recall": 0.0}
    right = len(cited & expected)
    return {"precision": right / len(cited), "recall": right / len(expected)}


def _source_of(chunk: object, fields: Sequence[str]) -> str | None:
    metadata = chunk.get("metadata") if isinstance(chunk, Mapping) else getattr(chunk, "metadata", None)
    if not isinstance(metadata, Mapping):
        metadata = dict(metadata) if isinstance(metadata, (list, tuple)) else {}
    filled = (str(metadata[name]) for name in fields if metadata.get(name) is not None)
    return next((source for source in filled if source.strip()), None)
