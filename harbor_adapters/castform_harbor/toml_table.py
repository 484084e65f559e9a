"""Read one TOML table field by field: what is wrong is collected, what nobody asked for is reported.

Values are taken as Harbor's own reader takes them: a number may be text that says one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_LARGEST_WHOLE = 1e15
"""More than any machine has of anything; beyond it numbers are not whole any more."""


@dataclass(slots=True)
class Findings:
    """What was found wrong, and what was found odd, in one file."""

    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Table:
    """One table of a TOML file. `close` reports the keys that were never asked for."""

    def __init__(self, values: Mapping[str, Any], where: str, findings: Findings) -> None:
        self._values = values
        self._where = where
        self._asked: set[str] = set()
        self.findings = findings

    def has(self, key: str) -> bool:
        return self._values.get(key) is not None

    def take(self, key: str) -> Any:  # Any: whatever TOML holds
        self._asked.add(key)
        return self._values.get(key)

    def fault(self, key: str, problem: str) -> None:
        self.findings.faults.append(f"{self.name(key)} {problem}")

    def warn(self, key: str, note: str) -> None:
        self.findings.warnings.append(f"{self.name(key)} {note}")

    def name(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def text(self, key: str) -> str | None:
        value = self.take(key)
        if value is None or _is_text(value):
            return None if value is None else str(value)
        self.fault(key, f"is {value!r}, not text")
        return None

    def number(self, key: str, *, above: float | None = None) -> float | None:
        value = self.take(key)
        if value is None:
            return None
        number = as_number(value)
        if number is None or not math.isfinite(number):
            self.fault(key, f"is {value!r}, not a finite number")
            return None
        if above is not None and number <= above:
            self.fault(key, f"is {value!r}, but has to be above {above:g}")
            return None
        return number

    def seconds(self, key: str, default: float) -> float:
        """A duration; `default` where the key is absent or wrong."""
        number = self.number(key)
        if number is not None and number < 0:
            self.fault(key, f"is {number:g}, but a time is not negative")
        return default if number is None else number

    def whole(self, key: str) -> int | None:
        number = self.number(key)
        if number is None:
            return None
        if number != int(number) or not 0 <= number <= _LARGEST_WHOLE:
            self.fault(key, f"is {number:g}, not a whole number")
            return None
        return int(number)

    def choice(self, key: str, choices: Sequence[str]) -> str | None:
        value = self.text(key)
        if value is not None and value not in choices:
            self.fault(key, f"is {value!r}, not one of {', '.join(choices)}")
            return None
        return value

    def flag(self, key: str) -> bool | None:
        value = self.take(key)
        if value is None or isinstance(value, bool):
            return value
        self.fault(key, f"is {value!r}, not true or false")
        return None

    def user(self, key: str) -> str | None:
        """A user's name, or a uid as a number."""
        value = self.take(key)
        if value is None or (_is_text(value) and value):
            return None if value is None else str(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return str(value)
        self.fault(key, f"is {value!r}, not a user's name or uid")
        return None

    def texts(self, key: str) -> tuple[str, ...] | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(map(_is_text, value)):
            self.fault(key, f"is {value!r}, not a list of texts")
            return None
        return tuple(value)

    def text_map(self, key: str) -> dict[str, str]:
        value = self.take(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(map(_is_text, value.values())):
            self.fault(key, "is not a table of texts")
            return {}
        return dict(value)

    def variables(self, key: str) -> dict[str, str]:
        """Environment variables by name."""
        found = self.text_map(key)
        for name in found:
            if not name or "=" in name or "\0" in name:
                self.fault(key, f"holds {name!r}, which is no name of a variable")
        return found

    def table(self, key: str) -> Table | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fault(key, f"is {value!r}, not a table")
            return None
        return Table(value, self.name(key), self.findings)

    def items(self, key: str) -> list[Table | str]:
        """A list whose items are tables or plain texts."""
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict | str) for item in value):
            self.fault(key, "is not a list of tables")
            return []
        return [
            item if isinstance(item, str) else Table(item, f"{self.name(key)}[{index}]", self.findings)
            for index, item in enumerate(value)
        ]

    def tables(self, key: str) -> list[Table]:
        found = self.items(key)
        if any(isinstance(item, str) for item in found):
            self.fault(key, "is not a list of tables")
        return [item for item in found if isinstance(item, Table)]

    def close(self) -> None:
        for key in self._values:
            if key not in self._asked:
                self.warn(key, "is no key that Harbor knows: it changes nothing")


def _is_text(value: object) -> bool:
    """Text that a program can be given: no argument, variable or path holds a NUL."""
    return isinstance(value, str) and "\0" not in value


def as_number(value: object) -> float | None:
    """Return a number, also one that text says; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and "_" not in value:
        try:
            return float(value)
        except ValueError:
            return None
    return None
