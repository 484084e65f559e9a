"""The documents that are searched: the package's own articles, or a folder of the user's.

A folder's .md and .txt files are cut at headings and blank lines into pieces of about 1,500
characters; a line of a .jsonl file is one document.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

PIECE_CHARACTERS = 1_500
TEXT_SUFFIXES = (".md", ".txt")
SUFFIXES = (*TEXT_SUFFIXES, ".jsonl")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """What a search can find: a whole document or a piece of one."""

    source: str
    """What answers cite. Pieces of one file share it."""
    title: str
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


def load_articles() -> list[Document]:
    """Return the package's own articles, in the order of the file."""
    text = (files("castform_env_search") / "articles.jsonl").read_text(encoding="utf-8")
    return [Document(**json.loads(line)) for line in text.splitlines()]


def read_folder(folder: Path) -> list[Document]:
    """Return the documents of a folder, files by name. ValueError: it has none, or a line is broken."""
    documents = [document for path in list_files(folder) for document in _read_file(folder, path)]
    if not documents:
        raise ValueError(f"{folder} has no text in a {', '.join(SUFFIXES)} file")
    return documents


def list_files(folder: Path) -> list[Path]:
    """Return the files that are read, sorted by their path; hidden ones and those in hidden folders are not."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    shown = [
        path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    return sorted(shown, key=lambda path: path.relative_to(folder).as_posix())


def hash_documents(documents: Sequence[Document]) -> str:
    """Return a SHA-256 (hex) over everything that a search can show, in order."""
    digest = hashlib.sha256()
    for document in documents:
        fields = [document.source, document.title, document.content, dict(document.metadata)]
        digest.update(json.dumps(fields, sort_keys=True, ensure_ascii=True, default=str).encode() + b"\n")
    return digest.hexdigest()


def _read_file(folder: Path, path: Path) -> Iterator[Document]:
    name = path.relative_to(folder).as_posix()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from error
    if path.suffix.lower() == ".jsonl":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield _read_row(line, f"{path}:{number}", default=f"{name}#{number}")
        return
    for title, content in cut_text(text):
        yield Document(source=name, title=title, content=content)


def _read_row(line: str, place: str, *, default: str) -> Document:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError(f"{place} is a {type(row).__name__}, not a JSON object")
    content = next((row[name] for name in ("content", "text", "contents") if name in row), None)
    if not isinstance(content, str) or not content.strip():
        raise ValueError(f"{place} has no text in 'content' or 'text'; it has {', '.join(row) or 'nothing'}")
    metadata = row.get("metadata")
    source = next(
        (row[name] for name in ("source", "id", "_id", "file") if row.get(name) is not None), default
    )
    return Document(
        source=str(source),
        title=str(row.get("title") or ""),
        content=content,
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def cut_text(text: str, *, characters: int = PIECE_CHARACTERS) -> list[tuple[str, str]]:
    """Return the (heading, text) pieces of a text: whole paragraphs, under one heading, about so long."""
    pieces: list[tuple[str, str]] = []
    heading, piece = "", ""

    def close() -> None:
        nonlocal piece
        if piece.strip():
            pieces.append((heading, piece.strip()))
        piece = ""

    for paragraph in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")):
        for part in _parts(paragraph, characters):
            found = _HEADING.match(part)
            if found:
                close()
                heading = found[1]
                continue
            if piece and len(piece) + len(part) > characters:
                close()
            piece += part + "\n\n"
    close()
    return pieces


def _parts(paragraph: str, characters: int) -> Iterator[str]:
    """Yield the headings of a paragraph and the text between them, long text in slices."""
    text: list[str] = []
    for line in paragraph.split("\n"):
        if _HEADING.match(line):
            yield from _slices("\n".join(text), characters)
            text = []
            yield line
        else:
            text.append(line)
    yield from _slices("\n".join(text), characters)


def _slices(text: str, characters: int) -> Iterator[str]:
    text = text.strip()
    while len(text) > characters:
        end = text.rfind(" ", characters // 2, characters)
        end = characters if end < 0 else end
        yield text[:end].strip()
        text = text[end:].strip()
    if text:
        yield text
