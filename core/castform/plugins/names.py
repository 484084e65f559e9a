"""Plugin names and ids: their normal form and what the parts of an id mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from castform.errors import UsageError

ID_FORMS = (
    "plugin, plugin/environment, owner/plugin or owner/plugin/environment, each with an optional @version"
)

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def normalize_name(name: str) -> str:
    """Return the form in which names are compared: lower case, runs of `-`, `_`, `.` as one `-` (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_name(text: str) -> bool:
    """Say whether a plugin or a member of one may be called this."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginId:
    """The parts of an id, names in normal form."""

    text: str
    """As it was written."""
    owner: str | None = None
    """Whose plugin it is on a hub. Not checked: what is installed decides, and the pin records it."""
    plugin: str
    member: str | None = None
    """Environment (engine, reward, …) inside the plugin."""
    version: str | None = None
    """The only installed version that will do."""


def parse_id(text: str, known: Collection[str]) -> PluginId:
    """Take an id apart. `known` holds the normal forms of the installed plugins.

    `a/b` is environment b of plugin a when a plugin a is installed, else plugin b of
    owner a when a plugin b is. Raises UsageError when the text is no id at all.
    """
    body, at, version = text.strip().partition("@")
    parts = body.split("/")
    if len(parts) > 3 or not all(is_name(part) for part in parts) or (at and not version):
        raise UsageError(f"{text!r} is not an id", hint=f"an id is {ID_FORMS}, or a path to a Python file")
    names = [normalize_name(part) for part in parts]
    pinned = version or None
    if len(names) == 3:
        return PluginId(text=text, owner=names[0], plugin=names[1], member=names[2], version=pinned)
    if len(names) == 2 and names[0] not in known and names[1] in known:
        return PluginId(text=text, owner=names[0], plugin=names[1], version=pinned)
    member = names[1] if len(names) == 2 else None
    return PluginId(text=text, plugin=names[0], member=member, version=pinned)


def suggest_names(wrong: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that are close to a wrong one, the closest first."""
    return difflib.get_close_matches(normalize_name(wrong), list(known), n=3, cutoff=0.6)


def quote_names(names: Iterable[str], *, limit: int = 8) -> str:
    """Return names as prose, cut after `limit` with the total."""
    shown = list(names)
    text = ", ".join(repr(name) for name in shown[:limit])
    return text if len(shown) <= limit else f"{text}, … ({len(shown)} in all)"
