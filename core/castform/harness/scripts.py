"""Where a command holds a shell script: values must not become part of that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
_SCRIPT_FLAG = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*")


def find_script(arguments: Sequence[str]) -> int | None:
    """Return the place of the script in `["bash", "-lc", script]` and the like; None without one."""
    for place, word in enumerate(arguments[:-1]):
        if _SCRIPT_FLAG.fullmatch(word) and any(_is_shell(w) for w in arguments[:place]):
            return place + 1
    return None


def _is_shell(word: str) -> bool:
    return PurePosixPath(word).name in SHELLS
