"""What is printed is data that a program can read and text that cannot steer a terminal."""

from __future__ import annotations

import json
import subprocess
import sys

from castform.cli.output import print_json, print_table, print_text


def test_a_table_is_aligned_text_when_nobody_looks(capsys):
    print_table(["NAME", "N"], [["a", 1], ["long name", None]])
    assert capsys.readouterr().out == "NAME       N\na          1\nlong name\n"


def test_text_of_others_cannot_steer_the_terminal(capsys):
    print_text("a\x1b[2Jb\u202ec")
    print_table(["X"], [["two\nlines \x1b[31m"]])
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out
    assert len(out.splitlines()) == 3


def test_json_has_no_nan(capsys):
    print_json({"loss": [float("nan"), 1.5, {"x": float("inf")}], "name": "\u00e9"})
    assert json.loads(capsys.readouterr().out, parse_constant=lambda name: 1 / 0) == {
        "loss": [None, 1.5, {"x": None}],
        "name": "\u00e9",
    }


def test_json_says_the_same_with_escapes_for_what_steers_a_terminal(capsys):
    value = {"text": "a\x1b[2J\x7f\x9b\u202e\u2028\ud800\U000e0001", "kept": "\u00e9\u200d\U0001f600"}
    print_json(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert "\\u007f\\u009b\\u202e\\u2028\\ud800\\udb40\\udc01" in out
    assert "\u00e9\u200d\U0001f600" in out


def test_a_terminal_without_unicode_gets_help_too():
    done = subprocess.run(
        [sys.executable, "-m", "castform", "--help"],
        env={"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0 and b"train" in done.stdout
