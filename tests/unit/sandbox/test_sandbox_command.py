"""`castform sandbox`: what it says, and how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from castform.cli.main import main
from castform.sandbox.owner import current_owner


@pytest.fixture
def sandbox(tmp_path, monkeypatch, capsys):
    """Return a function that runs `castform sandbox` with a home of its own and castform's own plugin alone."""
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CASTFORM_PLUGINS", "castform")

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["sandbox", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_list_says_what_is_in_force(sandbox):
    code, out, err = sandbox("list")
    assert code == 0
    assert out.splitlines()[1].split()[:2] == ["process", "no"]
    assert "unsafe" in err
    (listed,) = json.loads(sandbox("list", "--json")[1])
    assert (listed["usable"], listed["capabilities"]["isolated"]) == (True, False)


def test_a_check_shows_each_rule_and_what_is_not_claimed(sandbox):
    code, out, err = sandbox("check", "process", "--only", "exit-codes", "--only", "users")
    assert code == 0
    assert [line.split("  ")[0].strip() for line in out.splitlines()] == ["held", "not claimed"]
    assert "1 of 2 rules held, 0 broken, 1 not claimed" in err


def test_a_check_as_json_has_the_capabilities_and_every_rule(sandbox, tmp_path):
    root = tmp_path / "boxes"
    code, out, _ = sandbox("check", "process", "--option", f"root={root}", "--only", "streams", "--json")
    data = json.loads(out)
    assert (code, data["held"], data["rules"][0]["state"]) == (0, 1, "held")
    assert data["capabilities"]["networks"] == ["public"]
    assert root.is_dir()


def test_a_broken_rule_is_shown_with_what_it_asks_for_and_at_a_length_that_can_be_read(sandbox, monkeypatch):
    async def read_file(self, path, *, max_bytes=0):
        raise OSError("no such card, " * 5000)

    monkeypatch.setattr("castform.sandbox.process.box.ProcessBox.read_file", read_file)
    code, out, _ = sandbox("check", "process", "--only", "file-round-trip")
    seen, rule = out.splitlines()
    assert code == 1 and "OSError: no such card, no such card" in seen and len(seen) < 700
    assert rule.strip().startswith("the rule: A file is written whole")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "process", "--only", "exit-code"), "did you mean 'exit-codes'"),
        (("check", "proces"), "did you mean 'process'"),
        (("check", "process", "--option", "root"), "NAME=VALUE"),
        (("check", "process", "--option", "rot=1"), "its arguments are"),
        ((), "ACTION"),
    ],
)
def test_wrong_words_exit_2_with_a_way_out(words, message, sandbox):
    code, _, err = sandbox(*words)
    assert code == 2 and message in err


def test_reap_removes_what_a_dead_owner_left_and_says_what(sandbox, tmp_path):
    folder = tmp_path / "home" / "sandboxes" / "process" / "box-1"
    folder.mkdir(parents=True)
    dead = {**current_owner().labels(), "castform.owner.start": "1"}
    (folder / "owner.json").write_text(json.dumps(dead))
    code, out, err = sandbox("reap")
    assert (code, out.split(), folder.exists()) == (0, ["process", "box-1"], False)
    assert "removed 1 sandbox of dead owners" in err
    assert json.loads(sandbox("reap", "process", "--json")[1]) == [{"provider": "process", "removed": []}]


def test_one_line_of_a_test_file_checks_a_provider(tmp_path):
    """Held, not claimed and broken rules pass, are skipped and fail; the boxes are closed at the end."""
    (tmp_path / "test_mine.py").write_text(
        "from castform.sandbox.process.box import ProcessBox\n"
        "from castform.testing.sandboxes import make_rule_tests\n"
        "async def read_file(self, path, *, max_bytes=0): return b''\n"
        "ProcessBox.read_file = read_file\n"
        "test_rule = make_rule_tests(\n"
        f"    'process', options={{'root': {str(tmp_path / 'boxes')!r}}},\n"
        "    only=['exit-codes', 'users', 'file-round-trip'],\n"
        ")\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        timeout=120,
    )
    assert "1 failed, 1 passed, 1 skipped" in done.stdout, done.stdout
    assert "not claimed: the provider has no other users" in done.stdout
    assert "a file that was written is b'', not" in done.stdout
    assert list((tmp_path / "boxes").iterdir()) == []
