"""`${VAR}` and `${VAR:-default}`: values of a task that come from the machine it runs on.

An environment value is a template as a whole or not at all; a header of an MCP server may hold
one anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from castform.errors import UsageError

_WHOLE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)
_EMBEDDED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def fill_templates(values: Mapping[str, str], host: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Return the values with those that are templates as a whole replaced from `host`.

    UsageError names every variable that is neither set nor has a default.
    """
    missing: list[str] = []
    filled = {name: _fill(_WHOLE.fullmatch(value), value, host, missing) for name, value in values.items()}
    _check_missing(missing, where)
    return filled


def fill_embedded(value: str, host: Mapping[str, str], *, where: str) -> str:
    """Return the text with the templates inside it replaced."""
    missing: list[str] = []
    filled = _EMBEDDED.sub(lambda match: _fill(match, match[0], host, missing), value)
    _check_missing(missing, where)
    return filled


def list_template_variables(values: Mapping[str, str]) -> dict[str, bool]:
    """Return the variables that the values take from the machine, and whether each has to be set."""
    found: dict[str, bool] = {}
    for value in values.values():
        match = _WHOLE.fullmatch(value)
        if match:
            found[match[1]] = found.get(match[1], False) or match[2] is None
    return found


def _fill(match: re.Match[str] | None, value: str, host: Mapping[str, str], missing: list[str]) -> str:
    if match is None:
        return value
    name, default = match[1], match[2]
    if name in host:
        return host[name]
    if default is None:
        missing.append(name)
        return ""
    return str(default)


def _check_missing(missing: list[str], where: str) -> None:
    if missing:
        names = ", ".join(sorted(set(missing)))
        raise UsageError(
            f"{where} takes {names} from this machine's environment, where it is not set",
            hint=f"export {missing[0]}=… first",
        )
