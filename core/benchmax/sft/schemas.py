"""The parameter schemas of tools: do they make sense, and do the arguments of a call fit them?

A part of JSON Schema: types, required names, names that are not listed, and enums, at every
depth. What says more (`$ref`, `anyOf`, formats, bounds) is not looked at and fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmax.sft.wording import member, named, shown

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class Misfit(NamedTuple):
    location: str
    message: str


def schema_misfits(schema: object, location: str) -> Iterator[Misfit]:
    """Yield where a schema, itself or a part of it, is none that a reader could follow."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield Misfit(location, f"a schema is an object, not {shown(schema)}")
        return
    unknown = [name for name in _declared_types(schema) or () if name not in TYPES]
    if unknown:
        yield Misfit(f"{location}.type", f"{named(unknown)} is no type of JSON Schema: {', '.join(TYPES)}")
    if "enum" in schema and not isinstance(schema["enum"], list):
        yield Misfit(f"{location}.enum", f"enum is a list, not {shown(schema['enum'])}")
    properties = schema.get("properties", {})
    if isinstance(properties, dict):
        for name, part in properties.items():
            yield from schema_misfits(part, member(f"{location}.properties", name))
    else:
        yield Misfit(f"{location}.properties", f"properties is an object, not {shown(properties)}")
    yield from _required_misfits(schema, properties, location)
    if isinstance(schema.get("items"), dict):
        yield from schema_misfits(schema["items"], f"{location}.items")


def argument_misfits(value: Any, schema: object, location: str) -> Iterator[Misfit]:
    """Yield where a value does not fit a schema. A schema without sense fits everything."""
    if not isinstance(schema, dict):
        return
    types = _declared_types(schema)
    if types is not None and not any(_has_type(value, name) for name in types):
        yield Misfit(location, f"{shown(value)} is not of the declared type {named(types)}")
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_is_same(value, one) for one in choices):
        yield Misfit(location, f"{shown(value)} is not in the declared enum")
    if isinstance(value, dict):
        yield from _member_misfits(value, schema, location)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from argument_misfits(item, schema.get("items"), f"{location}[{index}]")


def _member_misfits(value: dict[str, Any], schema: dict[str, Any], location: str) -> Iterator[Misfit]:
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list):
        missing = [name for name in required if isinstance(name, str) and name not in value]
        if missing:
            yield Misfit(location, f"the required {named(missing)} is missing")
    if not isinstance(properties, dict):
        return
    if not schema.get("additionalProperties") and not schema.get("patternProperties"):
        extra = [name for name in value if name not in properties]
        if extra:
            yield Misfit(location, f"{named(extra)} is not among the declared properties")
    for name, item in value.items():
        yield from argument_misfits(item, properties.get(name), member(location, name))


def _required_misfits(schema: dict[str, Any], properties: object, location: str) -> Iterator[Misfit]:
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield Misfit(f"{location}.required", "required is a list of names")
    elif isinstance(properties, dict) and "properties" in schema:
        unknown = [name for name in required if name not in properties]
        if unknown:
            yield Misfit(f"{location}.required", f"{named(unknown)} is required and not among the properties")


def _declared_types(schema: dict[str, Any]) -> list[str] | None:
    declared = schema.get("type")
    if isinstance(declared, str):
        return [declared]
    if isinstance(declared, list) and declared and all(isinstance(name, str) for name in declared):
        return declared
    return None


def _has_type(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean" or name not in TYPES
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return name not in TYPES or isinstance(value, TYPES[name])


def _is_same(one: object, other: object) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and one == other
