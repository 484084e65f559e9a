"""What an error means is asked of plugins in use, and castform knows the machine's own limits."""

from __future__ import annotations

import errno
import sys
from types import SimpleNamespace

import pytest

from castform.cli.main import COMMANDS, main
from castform.errors import MissingError, RunFailedError, UsageError
from castform.plugins import load_registry
from castform.plugins.hints import explain_error


@pytest.fixture
def command(monkeypatch):
    """Return a function that runs a command whose work is the given function."""

    def run(work):
        module = SimpleNamespace(add_arguments=lambda parser: None, run=work)
        monkeypatch.setitem(sys.modules, "a_command_of_this_test", module)
        monkeypatch.setitem(COMMANDS, "work", ("a_command_of_this_test", "does what the test wants"))
        return main(["work"])

    return run


def test_a_plugin_in_use_is_asked_and_another_is_not(install):
    install("sound", "exit_at_import")
    assert explain_error(ValueError("echo chamber")) is None
    load_registry().load("sound")
    assert explain_error(ValueError("echo chamber")) == "the echo is broken"


def test_a_broken_explanation_does_not_hide_the_next(registry, install):
    plugin = registry("sound").load("sound")
    assert plugin.call("explain_error", error=ValueError("echo")) == ["the echo is broken"]
    assert plugin.call("explain_error", error=ValueError("other")) == []


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (OSError(errno.EADDRINUSE, "Address already in use"), "choose another port"),
        (MemoryError(), "smaller engine.max_batch"),
    ],
)
def test_a_limit_of_the_machine_is_one_line_and_not_a_traceback(command, capsys, error, hint):
    def work(args):
        raise error

    assert command(work) == 1
    err = capsys.readouterr().err
    assert hint in err and err.startswith(f"error: {type(error).__name__}") and "Traceback" not in err


def test_a_bug_stays_a_traceback(command):
    with pytest.raises(KeyError):
        command(lambda args: {}["missing"])


@pytest.mark.parametrize(("kind", "code"), [(UsageError, 2), (MissingError, 3), (RunFailedError, 1)])
def test_an_error_exits_with_its_own_code(command, capsys, kind, code):
    def work(args):
        raise kind("the thing is wrong", hint="mend it")

    assert command(work) == code
    out = capsys.readouterr()
    assert (out.out, out.err) == ("", "error: the thing is wrong\n\nhint: mend it\n")


def test_ctrl_c_exits_130(command, capsys):
    def work(args):
        raise KeyboardInterrupt

    assert command(work) == 130
    assert capsys.readouterr().out == ""
