"""Exceptions of a worker process as JSON, and as exceptions of the same name and text on the host."""

from __future__ import annotations

import builtins
import traceback
from typing import Any

from castform import errors
from castform.errors import CastformError
from castform.plugins.failure import PluginFailure, describe_cause

_SIMPLER = {
    "UnicodeDecodeError": "ValueError",
    "UnicodeEncodeError": "ValueError",
    "UnicodeTranslateError": "ValueError",
    "ExceptionGroup": "Exception",
    "BaseExceptionGroup": "Exception",
}
"""Classes that cannot be made of a text alone."""


class RemoteTraceback(Exception):  # noqa: N818 - it carries text, nobody raises it
    """The traceback as the worker process saw it; cause of the exception on the host."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Return what `rebuild_exception` needs."""
    described: dict[str, Any] = {
        "type": type(error).__name__,
        "base": _base_name(error),
        "text": str(error),
        "notes": [str(note) for note in getattr(error, "__notes__", ())],
        "filename": _text_or_none(getattr(error, "filename", None)),
        "trace": "".join(traceback.format_exception(error)),
    }
    if isinstance(error, CastformError):
        described |= {"text": str(error.args[0]), "hint": error.hint}
    if isinstance(error, PluginFailure):
        described["failure"] = [error.name, error.distribution, error.stage, describe_cause(error.cause)]
    return described


def rebuild_exception(described: dict[str, Any]) -> Exception:
    """Return an exception with the name, text and notes of the one that was described.

    It is a `FileNotFoundError`, `ValueError`, … or an error of castform's where the original was.
    """
    error = _rebuild(described)
    for note in described["notes"]:
        error.add_note(note)
    error.__cause__ = RemoteTraceback(described["trace"])
    return error


def _rebuild(described: dict[str, Any]) -> Exception:
    if "failure" in described:
        return PluginFailure(*described["failure"], hint=described["hint"])
    known = getattr(errors, described["base"], None)
    if known is not None:
        failed: Exception = known(described["text"], hint=described["hint"])
        return failed
    base = getattr(builtins, described["base"])
    text, name = described["text"], described["type"]
    made = type(name, (base,), {"__str__": lambda self: text, "__module__": __name__})
    error: Exception = made(text)
    if isinstance(error, OSError):
        error.filename = described["filename"]
    return error


def _base_name(error: BaseException) -> str:
    """Return the name of the nearest class that the host has too: castform's, or Python's below Exception."""
    for kind in type(error).__mro__:
        name: str = kind.__name__
        if getattr(errors, name, None) is kind:
            return name
        if getattr(builtins, name, None) is kind and issubclass(kind, Exception):
            return _SIMPLER.get(name, name)
    return "Exception"


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)
