"""Users of the box, by its own /etc/passwd and /etc/group, read as plain text.

Not by the `pwd` module, which loads name services that a program in the box may have set up.
"""
# ruff: noqa: PTH123
# pathlib would be half of the start-up time

from __future__ import annotations


class UnknownUserError(Exception):
    """The box has no such user or group."""


class Identity:
    """As whom a program runs."""

    def __init__(self, uid: int, gid: int, groups: tuple[int, ...], home: str) -> None:
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.home = home


def find_identity(user: str) -> Identity:
    """Return who `name`, `uid`, `name:group` or `uid:gid` is; a bare number needs no entry."""
    name, _, group = user.partition(":")
    entry = next((row for row in _rows("/etc/passwd", 7) if name in (row[0], row[2])), None)
    if entry is None:
        if not name.isdigit():
            raise UnknownUserError(f"no user {name!r} in /etc/passwd")
        uid, gid, home, login = int(name), 0, "/", ""
    else:
        uid, gid, home, login = int(entry[2]), int(entry[3]), entry[5] or "/", entry[0]
    if group:
        row = next((row for row in _rows("/etc/group", 4) if group in (row[0], row[2])), None)
        if row is None and not group.isdigit():
            raise UnknownUserError(f"no group {group!r} in /etc/group")
        return Identity(uid, int(group if row is None else row[2]), (), home)
    groups = tuple(int(row[2]) for row in _rows("/etc/group", 4) if login and login in row[3].split(","))
    return Identity(uid, gid, groups, home)


def _rows(path: str, width: int) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 20)
    except OSError:
        return []
    rows = [line.split(":") for line in text.splitlines()]
    numbers = (2, 3) if width == 7 else (2,)
    return [row for row in rows if len(row) == width and all(row[place].isdigit() for place in numbers)]
