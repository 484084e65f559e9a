"""Say in words how an environment differs from the one that a run was started with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from castform.plugins.fingerprints import first_difference
from castform.plugins.pins import EnvironmentPin, mark_files

if TYPE_CHECKING:
    from benchmax.envs import Example

MOST_NAMES = 5
"""File names in one sentence."""


def describe_changes(
    before: Mapping[str, Any],
    after: EnvironmentPin,
    *,
    details: Mapping[str, Any] | None = None,
    examples: Mapping[str, Sequence[Example[Any]]] | None = None,
) -> list[str]:
    """Return what changed since the pin `before`, one line each; empty when it is the same environment.

    `details` are those stored with `before`; without them files and examples are not named.
    `examples` are the present ones by split, for their ids. A version that changed while no file did
    is no change, and what an old pin does not say is not compared.
    """
    details = details or {}
    lines = [
        f"{what} {before[name] or 'a file'} -> {getattr(after, name) or 'a file'}"
        for name, what in (("id", "environment"), ("distribution", "distribution"))
        if name in before and before[name] != getattr(after, name)
    ]
    if before.get("content_sha256") != after.content_sha256:
        if before.get("version") != after.version:
            lines.append(f"version {before.get('version') or '?'} -> {after.version or '?'}")
        lines.append(_describe_files(details.get("files") or {}, mark_files(after.details.files)))
    lines += _describe_args(before.get("args") or {}, after.args)
    stored: Mapping[str, str] = before.get("datasets") or {}
    for split in sorted({*stored, *after.datasets}):
        if split in stored and split in after.datasets and stored[split] != after.datasets[split]:
            known = (details.get("examples") or {}).get(split) or {}
            lines.append(_describe_dataset(split, known, after, (examples or {}).get(split, ())))
    return lines


def _describe_files(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    if not before:
        return "its files differ"
    changed = [name for name in after if name in before and before[name] != after[name]]
    new = [name for name in after if name not in before]
    gone = [name for name in before if name not in after]
    parts = [
        f"{word} {_join(names)}"
        for word, names in (("changed", changed), ("new", new), ("gone", gone))
        if names
    ]
    return f"files: {'; '.join(parts) or 'they differ'}"


def _join(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _describe_args(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = _plain(before), _plain(after)
    return [
        f"argument {name}: {_show(old, name)} -> {_show(new, name)}"
        for name in sorted({*old, *new})
        if name not in old or name not in new or old[name] != new[name]
    ]


def _plain(args: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(dict(args), default=str))
    return plain


def _show(args: Mapping[str, Any], name: str) -> str:
    return json.dumps(args[name]) if name in args else "not there"


def _describe_dataset(
    split: str, before: Mapping[str, Any], after: EnvironmentPin, examples: Sequence[Example[Any]]
) -> str:
    now = after.details.examples[split]
    counts = f"{before['count']} examples then, {now.count} now" if "count" in before else "other examples"
    place = first_difference(before, now)
    if place is None:
        return f"{split} dataset: {counts}"
    if place >= now.count:
        return f"{split} dataset: {counts}; what is left is the same"
    if place >= before["count"]:
        return f"{split} dataset: {counts}; new from {_name(examples, place)} on"
    return f"{split} dataset: {counts}; the first that differs is {_name(examples, place)}"


def _name(examples: Sequence[Example[Any]], place: int) -> str:
    return repr(examples[place].id) if place < len(examples) else f"number {place + 1}"
