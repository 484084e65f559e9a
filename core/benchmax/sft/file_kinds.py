"""Files that are no JSONL at all, known by how they start."""

from __future__ import annotations

GUNZIP = "unpack it first"
SAVE = "save it as UTF-8, or `castform sft convert` reads it"
MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", f"the file is gzip-compressed; {GUNZIP} (gunzip)"),
    (b"\x28\xb5\x2f\xfd", f"the file is zstd-compressed; {GUNZIP} (unzstd)"),
    (b"\xfd7zXZ\x00", f"the file is xz-compressed; {GUNZIP} (unxz)"),
    (b"BZh", f"the file is bzip2-compressed; {GUNZIP} (bunzip2)"),
    (b"PK\x03\x04", f"the file is a zip archive; {GUNZIP} (unzip)"),
    (b"PAR1", "the file is Parquet; write its rows as JSON lines"),
    (b"SQLite format 3\x00", "the file is an SQLite database; write its rows as JSON lines"),
)
WIDE_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""Byte order marks, and the codec that reads and removes each."""
NULS: dict[tuple[bool, ...], str] = {
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
}
"""Which of the first four bytes are zero when a file starts with two characters of ASCII, as JSON does."""
OPENINGS = (b"{", b"[", b"[{")


def wide_encoding(start: bytes) -> str | None:
    """Return the codec of a text in UTF-16 or UTF-32 that starts so; None for what is not known to be one."""
    for mark, marked in WIDE_MARKS:
        if start.startswith(mark):
            return marked
    codec = NULS.get(tuple(not byte for byte in start[:4]))
    first = start[:4].strip(b"\0")[:1]
    return codec if codec is not None and first in b"{[ \t\r\n" else None


def binary_kind(start: bytes) -> str | None:
    """Return what a file is that starts so, and what to do about it; None for what may be JSON text."""
    for mark, kind in MARKS:
        if start.startswith(mark):
            return kind
    codec = wide_encoding(start)
    if codec is None:
        return None
    name = codec.upper().removesuffix("-LE").removesuffix("-BE")
    unmarked = "" if codec == name.lower() else " without a byte order mark"
    return f"the file is {name}{unmarked}; {SAVE}"


def is_open_document(first: bytes) -> bool:
    """Return whether the first line opens a value that goes on below it, as pretty-printed JSON does."""
    text = first.strip()
    return text in OPENINGS or (text.startswith(b"[") and text.endswith(b","))
