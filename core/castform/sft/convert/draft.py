"""A row on its way: the messages and tools it will have, and whatever else it came with."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from benchmax.sft.limits import RESERVED_PREFIX
from benchmax.sft.parsing import UnreadableError, parse_text
from benchmax.sft.wording import member, named, shown
from castform.sft.convert.notes import Note, RefusedError

Row = dict[str, Any]
"""A JSON object; what is in it is not known."""
OWN_KEYS = ("messages", "tools", "metadata")


class Place(NamedTuple):
    """Where a message stood in the source row."""

    message: str
    content: str


class Draft:
    """The converted row so far, with the notes on it. Locations are those of the source row."""

    def __init__(self) -> None:
        self.messages: list[Row] = []
        self.places: list[Place] = []
        """Of each message."""
        self.tools: list[Any] | None = None
        self.notes: list[Note] = []
        self.columns: dict[str, str] = {}
        """Where what is in the metadata stood, by its location there."""
        self._metadata: Row = {}
        self._fields: list[Row] = []
        self._nulls: list[str] = []

    def note(self, code: str, location: str, message: str) -> None:
        """Say what was done."""
        self.notes.append(Note(code, location, message))

    def null(self, location: str) -> None:
        """Count a key that is null, which says the same as none."""
        self._nulls.append(location)

    def keep_columns(self, row: Row, taken: tuple[str, ...]) -> None:
        """Keep the row's own metadata, and every column that is not among those taken."""
        own = row.get("metadata")
        if isinstance(own, dict):
            for key, value in own.items():
                self._keep(key, value, member("$.metadata", key))
        elif own is None and "metadata" in row:
            self.null("$.metadata")
        rest = {key: value for key, value in row.items() if key not in (*taken, "metadata")}
        if own is not None and not isinstance(own, dict):
            rest["metadata"] = own
        for key, value in rest.items():
            self._keep(key, value, member("$", key))
        if rest:
            self.note("kept_in_metadata", "$", f"kept in the metadata: {named(rest)}")

    def keep_fields(self, location: str, fields: Row, **where: int) -> None:
        """Keep keys of a message or call that the format does not know, with where they stood."""
        found = {key: value for key, value in fields.items() if value is not None}
        for key in fields.keys() - found.keys():
            self.null(f"{location}.{key}")
        if found:
            self._fields.append({**where, "fields": found})
            self.note("kept_in_metadata", location, f"kept in the metadata: {named(found)}")

    def row(self) -> Row:
        """Return the converted row."""
        if self._nulls:
            first = self._nulls[0]
            self.note("nulls_removed", first, f"{len(self._nulls)} removed, the first at {first}")
            self._nulls = []
        if self._fields:
            self._metadata[self._free_key("source_fields")] = self._fields
        row: Row = {"messages": self.messages}
        if self.tools is not None:
            row["tools"] = self.tools
        if self._metadata:
            row["metadata"] = self._metadata
        return row

    def _keep(self, key: str, value: Any, location: str) -> None:
        name = key.lstrip("_") if key.startswith(RESERVED_PREFIX) else key
        name = self._free_key("source_tools" if name == "tools" else name)
        if name != key:
            self.note("metadata_renamed", location, f"{shown(key)} is {shown(name)} in the metadata")
        self._metadata[name] = value
        self.columns[member("$.metadata", name)] = location

    def _free_key(self, name: str) -> str:
        number, free = 2, name
        while free in self._metadata:
            free, number = f"{name}_{number}", number + 1
        return free


def decoded_list(value: object, location: str, draft: Draft) -> object:
    """Return a list that may be written as JSON text; any other value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        found = parse_text(value)
    except UnreadableError as error:
        text = f"{location} is text that looks like JSON and is not: {error.message}"
        raise RefusedError("column_type", location, text) from error
    draft.note("decoded", location, "the column held JSON as text")
    return found


def json_text(value: object) -> str:
    """Return a value as JSON, keys in their order, nothing escaped that need not be."""
    return json.dumps(value, ensure_ascii=False)
