"""Find the code in a reply."""

from __future__ import annotations

import re

from benchmax.rewards.answers.reading import without_thinking

_FENCE = re.compile(r"```[^\n`]*$", re.MULTILINE)
"""Three ticks and perhaps a language at the end of a line; in front of them may be words."""


def read_code(reply: str) -> str | None:
    """Return the source that a reply gives, outside of thinking; None when it gives none.

    That is the inside of its last fenced block, which may lack its end where the reply was cut
    off; of a reply without fences all of it, when it holds a `def`.
    """
    shown = without_thinking(reply)
    fences = list(_FENCE.finditer(shown))
    if fences:
        opening = (len(fences) - 1) // 2 * 2
        end = fences[opening + 1].start() if opening + 1 < len(fences) else len(shown)
        code = shown[fences[opening].end() : end].strip("\n")
    else:
        code = shown if "def " in shown else ""
    return code if code.strip() else None


def fenced(code: str) -> str:
    """Return code as a reply gives it."""
    return f"```python\n{code}\n```"
