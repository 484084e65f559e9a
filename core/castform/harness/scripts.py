"""Where a command holds a shell script: values must not become part of that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"})
_SCRIPT_FLAG = re.compile(r"[-+][a-zA-Z]*c[a-zA-Z]*")
_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})


def find_script(arguments: Sequence[str]) -> int | None:
    """Return the place of the script in `["bash", "-lc", script]` and the like; None without one.

    `["bash", "run.sh", "-c", value]` has none: after a file's name the words are that file's.
    """
    for place, word in enumerate(arguments):
        if _is_shell(word):
            found = _find_after(arguments, place + 1)
            if found is not None:
                return found
    return None


def _find_after(arguments: Sequence[str], place: int) -> int | None:
    while place < len(arguments) - 1:
        word = arguments[place]
        if _SCRIPT_FLAG.fullmatch(word):
            return place + 1
        if word[:1] not in ("-", "+"):
            return None
        place += 2 if word in _WITH_VALUE else 1
    return None


def _is_shell(word: str) -> bool:
    return PurePosixPath(word).name in SHELLS
