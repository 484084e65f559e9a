"""An exception of a worker is told on the host in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmax.envs.termination import describe_error
from castform.errors import CastformError, ConfigError, MissingError, UsageError
from castform.plugins import PluginFailure, UnknownPluginError
from castform.workers.exceptions import RemoteTraceback, describe_exception, rebuild_exception


class OwnFault(ValueError):
    pass


class Strict(Exception):
    def __init__(self, *, code):
        super().__init__(f"code {code}")


def missing_file():
    try:
        Path("/nowhere/at/all.jsonl").open()
    except OSError as error:
        return error


def cross(error):
    return rebuild_exception(json.loads(json.dumps(describe_exception(error))))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("no"), ValueError),
        (OwnFault("data.jsonl:3 is odd"), ValueError),
        (KeyError("x"), KeyError),
        (Strict(code=4), Exception),
        (SystemExit(3), Exception),
        (missing_file(), FileNotFoundError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ValueError),
        (ExceptionGroup("two", [ValueError("a"), TypeError("b")]), Exception),
        (RuntimeError(), RuntimeError),
    ],
)
def test_name_text_and_kind_stay(error, kind):
    error.add_note("while loading data.jsonl:3")
    back = cross(error)
    assert describe_error(back) == describe_error(error)
    assert isinstance(back, kind)
    assert back.__notes__ == ["while loading data.jsonl:3"]
    assert isinstance(back.__cause__, RemoteTraceback)


def test_the_name_of_a_missing_file_stays():
    assert cross(missing_file()).filename == "/nowhere/at/all.jsonl"


def test_the_worker_s_traceback_is_the_cause():
    try:
        raise OwnFault("here")
    except OwnFault as error:
        cause = str(cross(error).__cause__)
    assert 'raise OwnFault("here")' in cause and "test_exceptions.py" in cause


@pytest.mark.parametrize(
    "error",
    [
        CastformError("a"),
        UsageError("b", hint="do c"),
        ConfigError("2 wrong settings", hint="d"),
        MissingError("e"),
        PluginFailure("x", "castform-env-x", "factory", ValueError("no"), hint="h"),
    ],
)
def test_errors_of_castform_keep_class_exit_code_and_hint(error):
    back = cross(error)
    assert (type(back), str(back), back.hint, back.exit_code) == (
        type(error), str(error), error.hint, error.exit_code,
    )  # fmt: skip


def test_a_subclass_of_an_error_of_castform_is_told_as_that():
    back = cross(UnknownPluginError("no plugin called 'x'", hint="did you mean 'y'?"))
    assert (type(back), str(back), back.hint) == (UsageError, "no plugin called 'x'", "did you mean 'y'?")
