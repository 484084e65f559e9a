"""Where a command holds a shell script: values must not become part of that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "busybox"})
"""Shells that read quotes and variables as POSIX has them."""
OTHER_SHELLS = frozenset({"fish", "csh", "tcsh", "rc", "es", "nu", "elvish", "xonsh", "pwsh"})
"""Shells that read them their own way: no value can be put into their scripts here."""
SWITCHERS = frozenset({"su", "runuser"})
"""Programs that run a script as another user, by that user's shell."""
RECORDERS = frozenset({"script"})
"""Programs that run a script by the shell of the variable SHELL."""

_SCRIPT_FLAG = re.compile(r"[-+][a-zA-Z]*c[a-zA-Z]*")
_ATTACHED = re.compile(r"--(session-)?command=|-c.", re.DOTALL)
_LOGIN = re.compile(r"-|-[a-zA-Z]*l[a-zA-Z]*|--login")
_COMMANDS = ("--command", "--session-command")
_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_RECORDER_WITH_VALUE = frozenset("-" + letter for letter in "BEIOTmo")


def find_script(arguments: Sequence[str]) -> int | None:
    """Return the place of the script in `["bash", "-lc", script]` and the like; None without one.

    `["bash", "run.sh", "-c", value]` has none: after a file's name the words are that file's. In
    `["su", "agent", "-c", script]` it may come after the user's name.
    """
    for place, word in enumerate(arguments):
        name = PurePosixPath(word).name
        found = None
        if name in SHELLS or name in OTHER_SHELLS:
            found = _find_after(arguments, place + 1, _WITH_VALUE)
        elif name in RECORDERS:
            found = _find_after(arguments, place + 1, _RECORDER_WITH_VALUE)
        elif name in SWITCHERS:
            found = _find_anywhere(arguments, place + 1)
        if found is not None:
            return found
    return None


def find_unsafe_script(arguments: Sequence[str]) -> tuple[int, str] | None:
    """Return the place of a script that no value can be put into, and why; None where there is none."""
    attached = _find_attached(arguments)
    if attached is not None:
        return attached, "the script has to be an argument of its own, after -c"
    script = find_script(arguments)
    if script is None:
        return None
    before = arguments[:script]
    names = [PurePosixPath(word).name for word in before]
    foreign = next((name for name in names if name in OTHER_SHELLS), None)
    if foreign is not None:
        return script, f"{foreign} reads quotes its own way; let sh or bash run the script"
    switcher = next((place for place, name in enumerate(names) if name in SWITCHERS), None)
    if switcher is not None and any(map(_LOGIN.fullmatch, before[switcher + 1 :])):
        return script, (
            f"{names[switcher]} with - or -l drops the variables that carry values; leave it out, or say in "
            "harness.user who runs the program"
        )
    return None


def _find_attached(arguments: Sequence[str]) -> int | None:
    """Return the place of `--command=script` or `-cscript` of what switches users or records."""
    for place, word in enumerate(arguments):
        name = PurePosixPath(word).name
        if name not in SWITCHERS | RECORDERS:
            continue
        for later in range(place + 1, len(arguments)):
            if arguments[later] in ("--", "-u", "--user", "-c", *_COMMANDS):
                break
            if _ATTACHED.match(arguments[later]):
                return later
            if name in RECORDERS and arguments[later][:1] != "-":
                break
    return None


def _find_after(arguments: Sequence[str], place: int, with_value: frozenset[str]) -> int | None:
    while place < len(arguments) - 1:
        word = arguments[place]
        if _SCRIPT_FLAG.fullmatch(word) or word in _COMMANDS:
            return place + 1
        if word[:1] not in ("-", "+"):
            return None
        place += 2 if word in with_value else 1
    return None


def _find_anywhere(arguments: Sequence[str], place: int) -> int | None:
    """A user's name may stand before -c; with -u the rest is a program and its own arguments."""
    for number in range(place, len(arguments) - 1):
        word = arguments[number]
        if word in ("-u", "--user"):
            return None
        if _SCRIPT_FLAG.fullmatch(word) or word in _COMMANDS:
            return number + 1
    return None
