"""Keep the text that is judged apart from what the judge is told to do."""

from __future__ import annotations

import hashlib

MARK_CHARS = 12
QUOTE = "| "


def fence(label: str, text: str) -> str:
    """Return the text as a quoted block of a prompt, between a BEGIN and an END line.

    Every line of the text, wherever any kind of line break starts one, is quoted with `| `,
    so that none of it stands where an instruction or the end of the block would. The mark
    of the two lines is a hash of the text, which a text cannot hold by its own will.
    """
    mark = hashlib.sha256(f"{label}\n{text}".encode(errors="surrogatepass")).hexdigest()[:MARK_CHARS]
    lines = text.splitlines() or [""]
    quoted = "\n".join(QUOTE + line for line in lines)
    return f"BEGIN {label} {mark}\n{quoted}\nEND {label} {mark}"
