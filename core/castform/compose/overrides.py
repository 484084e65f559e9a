"""Change one thing within the parts of an `[environment]`, by a key with dots in it.

`prompt.user`, `dataset.args.seed`, `rewards.arith/correct`, `mix.arith/add.args.level`: each part
is found by its id or name (a rubric in words by its title or text, a message by its role),
whether the TOML has it in a short form or a long one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from castform.compose.settings import (
    write_out_dataset,
    write_out_parts,
    write_out_prompt,
    write_out_rubrics,
)

_WRITE_OUT: dict[str, Callable[[Any, str], Any]] = {
    "dataset": write_out_dataset,
    "eval_dataset": write_out_dataset,
    "prompt": lambda value, at: write_out_prompt(value),
    "tools": write_out_parts,
    "rewards": write_out_parts,
    "rubrics": write_out_rubrics,
    "mix": write_out_parts,
}
_MAIN = {"prompt": "content", "rewards": "weight", "rubrics": "weight", "mix": "weight"}
"""What a part's own name means, with nothing after it."""
ROLES = ("system", "user", "assistant")
_NAMES = ("name", "id", "role", "title", "text")


def assign_key(section: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    """Put a value in a section, in place; `keys` lead there, the first of them into the section.

    ValueError: something on the way holds a value, or is in no form that can be looked into.
    """
    key, *rest = keys
    if not rest or key not in _WRITE_OUT or section.get(key) is None:
        assign(section, keys, value)
        return
    long = _drop_places(_WRITE_OUT[key](section[key], key))
    if isinstance(long, dict):
        assign(long, rest, value)
    elif isinstance(long, list) and all(isinstance(part, dict) for part in long):
        _assign_in_list(long, key, rest, value)
    else:
        raise ValueError(f"{key} is {type(long).__name__}, and no parts to look for {'.'.join(rest)!r} in")
    section[key] = long


def assign(data: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    """Put a value at the end of a way through tables, which are made where there are none."""
    place = data
    for key in keys[:-1]:
        inner = place.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{key} is a value, not a section")
        place = inner
    place[keys[-1]] = value


def _assign_in_list(parts: list[dict[str, Any]], key: str, rest: Sequence[str], value: Any) -> None:
    for count in range(len(rest), 0, -1):  # a name may have dots in it
        wanted = ".".join(rest[:count])
        found = [part for part in parts if wanted in (part.get(name) for name in _NAMES)]
        if len(found) > 1:
            raise ValueError(f"{key} has {len(found)} parts called {wanted!r}: give {key} whole")
        if found:
            break
    else:
        found, count = [_add_part(parts, key, rest[0])], 1
    further = list(rest[count:]) or ([_MAIN[key]] if key in _MAIN else [])
    if not further:
        raise ValueError(f"{key}.{rest[0]} needs what to change of it: {key}.{rest[0]}.args.…")
    assign(found[0], further, value)


def _add_part(parts: list[dict[str, Any]], key: str, name: str) -> dict[str, Any]:
    if key != "prompt":
        added = {"text": name} if key == "rubrics" and " " in name else {"id": name}
        parts.append(added)
        return added
    if name not in ROLES:
        raise ValueError(f"a message is {', '.join(ROLES[:-1])} or {ROLES[-1]}, not {name!r}")
    message = {"role": name}
    parts.insert(0 if name == ROLES[0] else len(parts), message)
    return message


def _drop_places(value: Any) -> Any:
    """Return a part or parts without the places that writing them out noted."""
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if key != "at"}
    return [_drop_places(part) for part in value] if isinstance(value, list | tuple) else value
