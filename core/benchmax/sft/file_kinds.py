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
    (b"\xff\xfe\x00\x00", f"the file is UTF-32; {SAVE}"),
    (b"\x00\x00\xfe\xff", f"the file is UTF-32; {SAVE}"),
    (b"\xff\xfe", f"the file is UTF-16; {SAVE}"),
    (b"\xfe\xff", f"the file is UTF-16; {SAVE}"),
)
OPENINGS = (b"{", b"[", b"[{")


def binary_kind(start: bytes) -> str | None:
    """Return what a file is that starts so, and what to do about it; None for what may be JSON text."""
    for mark, kind in MARKS:
        if start.startswith(mark):
            return kind
    if start[:2] in (b"{\x00", b"\x00{", b"[\x00", b"\x00["):
        return f"the file is UTF-16 without a byte order mark; {SAVE}"
    return None


def is_open_document(first: bytes) -> bool:
    """Return whether the first line opens a value that goes on below it, as pretty-printed JSON does."""
    text = first.strip()
    return text in OPENINGS or (text.startswith(b"[") and text.endswith(b","))
