"""Exceptions of a worker process as JSON, and as exceptions of the same name and text on the host."""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Callable
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
    "StopIteration": "RuntimeError",  # asyncio takes none as the outcome of anything
}
"""Classes that cannot be made of a text alone."""
MAX_TEXT = 1_000_000
"""Most characters of an exception's text that are passed on; a frame takes 64 MB, and each may be six bytes."""


class RemoteTraceback(Exception):  # noqa: N818 - it carries text, nobody raises it
    """The traceback as the worker process saw it; cause of the exception on the host."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Return what `rebuild_exception` needs. Never raises: classes of the author's may do anything when read."""
    described: dict[str, Any] = {
        "type": type(error).__name__,
        "base": _base_name(error),
        "text": cut_text(_read(lambda: str(error), "its text cannot be read")),
        "notes": _read(lambda: [cut_text(str(note)) for note in getattr(error, "__notes__", ())], []),
        "filename": _read(lambda: _text_or_none(getattr(error, "filename", None)), None),
        "trace": cut_text(_read(lambda: "".join(traceback.format_exception(error)), "no traceback")),
        "hint": _read(lambda: _text_or_none(getattr(error, "hint", None)), None),
    }
    if isinstance(error, CastformError) and error.args:
        described["text"] = cut_text(_read(lambda: str(error.args[0]), described["text"]))
    if isinstance(error, PluginFailure):
        described["failure"] = [error.name, error.distribution, error.stage, describe_cause(error.cause)]
    return described


def _read(read: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return read()
    except Exception:  # noqa: BLE001 - `__str__` and properties of the author's
        return otherwise


def cut_text(text: str) -> str:
    """Return an error's text so that it fits into a frame: its first `MAX_TEXT` characters, and a mark that more were."""
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


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
