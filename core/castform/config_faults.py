"""Say what is wrong with a config, each fault with its place as it is written in the TOML."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from castform.environment_section import PART_KEYS, PART_LISTS, EnvironmentSection
from castform.section import Section


def describe_fault(item: Mapping[str, Any], data: Mapping[str, Any], root: type[Section]) -> str:
    """Return one fault with its place as it is written in the TOML."""
    loc = item["loc"]
    name = _place(loc, data) or "config"
    if item["type"] == "extra_forbidden":
        known = _known_keys(loc[:-1], root)
        close = difflib.get_close_matches(str(loc[-1]), known, n=1)
        advice = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
        return f"{name}: unknown key; {advice}"
    if item["type"] == "missing":
        return f"{name}: is required"
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "value_error":
        return message if len(loc) < 2 else f"{name}: {message}"
    return f"{name} = {item['input']!r}: {message}"


def _place(loc: Sequence[str | int], data: Any) -> str:  # whatever stands in the TOML
    """Return where a fault is: `environment.rewards[1].weight`, or by the id where a table has ids as keys."""
    text = ""
    for part in loc:
        if isinstance(part, int) and isinstance(data, Mapping):  # the short form of a list of parts
            key = list(data)[part] if part < len(data) else part
            text += f'."{key}"'
            data = data.get(key)
            continue
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            data = None
    return text


def _known_keys(loc: Sequence[str | int], root: type[Section]) -> list[str]:
    """Return the keys of the section at a place."""
    section: Any = root
    for part in loc:
        if not isinstance(part, int):  # an index leads into the items, whose class is known already
            section = _section_class(section.model_fields[part].annotation)
    return [name for name in section.model_fields if name != "at"]


def _section_class(annotation: Any) -> Any:  # a type hint
    """Return the section class in a hint such as `tuple[ToolPart, ...]` or `JudgePart | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, (_section_class(inner) for inner in get_args(annotation))), None)


def find_part_faults(data: Mapping[str, Any], wrong: Sequence[Sequence[Any]], path: Path | None) -> list[str]:
    """Return what else is wrong with the parts of an environment, those that are wrong in form left out."""
    section = data.get("environment")
    if not isinstance(section, dict) or section.get("id") or not any(section.get(key) for key in PART_KEYS):
        return []
    if section.get("mix"):  # of whole environments, not of parts
        return []
    dropped: dict[Any, set[int]] = {}
    for loc in wrong:
        if loc[0] == "environment" and len(loc) > 1:
            places = dropped.setdefault(loc[1], set())
            places.update(place for place in loc[2:3] if isinstance(place, int))
    rest = {key: value for key, value in section.items() if key not in dropped}
    written: dict[str, Any] = {}
    for key, places in dropped.items():
        if places and key in PART_LISTS:
            parts = PART_LISTS[key](section[key], key)
            written[key] = [part for place, part in enumerate(parts) if place not in places]
    try:
        found = EnvironmentSection.model_validate(
            {**rest, **dict.fromkeys(written, ())}, context={"written": written}
        )
    except ValidationError:
        return []
    from castform.compose.load import find_faults

    return find_faults(found, where=str(path or "this run"), dropped=set(dropped))
