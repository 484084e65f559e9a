"""Plugin ids: what their parts mean."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from castform.errors import UsageError
from castform.plugins.names import is_name, normalize_name

ID_FORMS = (
    "plugin, plugin/environment, owner/plugin or owner/plugin/environment, each with an optional @version"
)


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
