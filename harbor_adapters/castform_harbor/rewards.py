"""Read what a verifier decided: one documented parser, and never a zero for a reward that is not there.

reward.json is read if it exists, else reward.txt. Numbers are finite; a bare number in JSON is the
reward `reward`. The files come from a box: they are regular, small and not followed through links.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.errors import CastformError

MAX_REWARD_BYTES = 1 << 20
MAX_REWARD_NAMES = 1000
JSON_FILE = "reward.json"
TEXT_FILE = "reward.txt"
MAIN_REWARD = "reward"

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SHOWN_CHARACTERS = 120


class RewardError(CastformError):
    """The verifier left nothing that can be trusted: no reward, which is not a reward of zero."""


class RewardMissingError(RewardError):
    """There is no reward file, or it holds no reward."""


class RewardParseError(RewardError):
    """There is a reward file, and what it says is no reward."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewards:
    """Named rewards of one verification, and what was odd about them."""

    values: Mapping[str, float]
    """Never empty, every value finite."""
    source: str
    """The name of the file that counted."""
    warnings: tuple[str, ...] = ()

    @property
    def reward(self) -> float | None:
        """The value of `reward`, or the only one there is; None where a choice is needed."""
        if MAIN_REWARD in self.values:
            return self.values[MAIN_REWARD]
        return next(iter(self.values.values())) if len(self.values) == 1 else None


def read_rewards(folder: Path) -> Rewards:
    """Read the rewards in a verifier's folder. RewardError when there are none to trust.

    Where both files are there and disagree, JSON counts and a warning says so.
    """
    from_json = _read_file(folder / JSON_FILE)
    if from_json is not None:
        values, warnings = _parse_json(from_json)
        warnings += _compare(values, folder / TEXT_FILE)
        return Rewards(values=values, source=JSON_FILE, warnings=tuple(warnings))
    from_text = _read_file(folder / TEXT_FILE)
    if from_text is not None:
        return Rewards(values={MAIN_REWARD: _parse_text(from_text)}, source=TEXT_FILE)
    raise RewardMissingError(
        f"the verifier wrote neither {JSON_FILE} nor {TEXT_FILE}",
        hint="test-stdout.txt in the trial's verifier folder shows what it did instead",
    )


def needs_rerun(reward: Mapping[str, float] | float | None) -> bool:
    """Say whether a saved reward leaves its trial to be run again: only when there is none. Zero is one."""
    return reward is None


def _read_file(path: Path) -> str | None:
    """Return a reward file's text; None where there is none."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RewardParseError(f"{path.name} is a link or cannot be read: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise RewardParseError(f"{path.name} is no regular file")
        with os.fdopen(number, "rb", closefd=False) as file:
            data = file.read(MAX_REWARD_BYTES + 1)
    finally:
        os.close(number)
    if len(data) > MAX_REWARD_BYTES:
        raise RewardParseError(f"{path.name} is larger than {MAX_REWARD_BYTES >> 20} MiB: that is no reward")
    if not data.strip():
        raise RewardMissingError(f"{path.name} is empty")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RewardParseError(f"{path.name} is no UTF-8: {_show(repr(data))}") from error


def _parse_text(text: str) -> float:
    if not _NUMBER.fullmatch(text.strip()):
        raise RewardParseError(
            f"{TEXT_FILE} holds {_show(text.strip())!r}, not one number",
            hint="redirect only the number into it; a test's own output goes elsewhere",
        )
    return _check_number(float(text), TEXT_FILE)


def _parse_json(text: str) -> tuple[dict[str, float], list[str]]:
    warnings: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # Any: JSON
        if len(pairs) > MAX_REWARD_NAMES:
            raise RewardParseError(f"{JSON_FILE} holds an object of more than {MAX_REWARD_NAMES} names")
        warnings.extend(
            f"{JSON_FILE} names {_show(name)!r} more than once: the last counts"
            for name, times in Counter(name for name, _ in pairs).items()
            if times > 1
        )
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=collect)
    except (ValueError, RecursionError) as error:
        raise RewardParseError(f"{JSON_FILE} is no JSON ({error}): {_show(text)!r}") from error
    if isinstance(found, int | float) and not isinstance(found, bool):
        return {MAIN_REWARD: _check_number(found, JSON_FILE)}, warnings
    if not isinstance(found, dict):
        raise RewardParseError(f"{JSON_FILE} holds {_show(text)!r}, not a number or an object of numbers")
    if not found:
        raise RewardMissingError(f"{JSON_FILE} is an empty object: it names no reward")
    values = {}
    for name, value in found.items():
        if not name.isprintable():  # half a surrogate pair among them, which no file can hold
            raise RewardParseError(f"{JSON_FILE} has a reward called {_show(name)!r}, which is no name")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RewardParseError(
                f"{JSON_FILE} gives {_show(name)!r} as {_show(json.dumps(value))}, not a number"
            )
        values[name] = _check_number(value, JSON_FILE)
    return values, warnings


def _check_number(value: float, name: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RewardParseError(f"{name} holds {_show(repr(value))}, which is not finite")
    return number


def _compare(values: Mapping[str, float], path: Path) -> list[str]:
    """Return how the text file disagrees with what JSON says; whatever it is, JSON counts."""
    said = values.get(MAIN_REWARD)
    try:
        text = _read_file(path)
        if text is None or (other := _parse_text(text)) == said:
            return []
    except RewardError as error:
        return [f"{error}: {JSON_FILE} counts"]
    return [f"{TEXT_FILE} says {other!r} and {JSON_FILE} says {said!r}: {JSON_FILE} counts"]


def _show(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
