"""Names of sources: when two of them mean one document.

An answer that cites "README", "a/README.md" or "A\\readme.md" may well mean the same file, so
names are compared loosely; but never so loosely that two documents become one. What could
mean more than one of the documents at hand means none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

CITATION = re.compile(r"\[\s*source\s*:\s*([^\[\]\n]+?)\s*\]", re.IGNORECASE)
DOCUMENT_SUFFIX = re.compile(
    r"\.(md|mdx|markdown|rst|txt|text|adoc|org|html?|xml|jsonl?|ya?ml|csv|tsv"
    r"|pdf|docx?|odt|rtf|pptx?|xlsx?|eml|ipynb)\Z"
)
"""Endings that say how a document is written, not which one it is. `.2` of "release-1.2" is none of them."""
_NOT_IN_NAMES = re.compile(r"[\[\]\s]+")
REFERENCE_FIELDS = ("file", "file_path")
"""Where a reference chunk's metadata names its document."""
OTHER_FIELDS = ("source", "source_id")


def plain_name(source_id: str) -> str:
    """Return a source's name on one line and without brackets, as results show it and answers cite it."""
    return _NOT_IN_NAMES.sub(" ", source_id).strip()


def canonicalize_source_id(source_id: str) -> str:
    """Return the name as it is compared: lower case, `/` between folders, none at the ends, no `./`.

    Brackets count as blanks, since a citation cannot hold them.
    """
    parts = plain_name(source_id).replace("\\", "/").casefold().split("/")
    return "/".join(part for part in (piece.strip() for piece in parts) if part not in ("", "."))


def canonicalize_source_id_loose(source_id: str) -> str:
    """Return the canonical name without the ending of a document file: "A/Readme.md" is "a/readme".

    Folders stay, and so does an ending that may be part of the name ("release-1.2").
    """
    name = canonicalize_source_id(source_id)
    stem = DOCUMENT_SUFFIX.sub("", name)
    return stem if stem and not stem.endswith("/") else name


def match_source(name: str, known: Collection[str]) -> str | None:
    """Return the one known source that a name means, None when there is none or more than one.

    Tried in turn: the same name; the same without a document's ending; one that is the end of
    the other's path, folder by folder; that without endings. The first that fits anything decides.
    """
    wanted, bare = canonicalize_source_id(name), canonicalize_source_id_loose(name)
    if not wanted:
        return None
    forms = {each: (canonicalize_source_id(each), canonicalize_source_id_loose(each)) for each in known}
    tiers = (
        [each for each, (full, _) in forms.items() if full == wanted],
        [each for each, (_, stem) in forms.items() if stem == bare],
        [each for each, (full, _) in forms.items() if _is_path_end(full, wanted)],
        [each for each, (_, stem) in forms.items() if _is_path_end(stem, bare)],
    )
    found = next((tier for tier in tiers if tier), [])
    return found[0] if len({canonicalize_source_id(each) for each in found}) == 1 else None


def parse_citations(text: str) -> set[str]:
    """Return the canonical names in the `[Source: name]` marks of a text."""
    return {canonicalize_source_id(mark) for mark in CITATION.findall(text)} - {""}


def reference_sources(reference_chunks: Iterable[object]) -> set[str]:
    """Return the canonical names of the documents that the chunks are from.

    A chunk's is the first of `file`, `file_path`, `source`, `source_id` that its metadata
    fills, else its own `source`.
    """
    names = (_name_of(chunk) for chunk in reference_chunks)
    return {canonicalize_source_id(name) for name in names if name is not None} - {""}


def _is_path_end(one: str, other: str) -> bool:
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _name_of(chunk: object) -> str | None:
    if not isinstance(chunk, Mapping):
        return None
    metadata = chunk.get("metadata")
    if isinstance(metadata, (list, tuple)):
        metadata = _pairs(metadata)
    fields: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    values = [fields.get(name) for name in (*REFERENCE_FIELDS, *OTHER_FIELDS)] + [chunk.get("source")]
    return next((str(value) for value in values if value is not None and str(value).strip()), None)


def _pairs(items: Iterable[object]) -> dict[str, Any]:
    return {str(item[0]): item[1] for item in items if isinstance(item, (list, tuple)) and len(item) == 2}
