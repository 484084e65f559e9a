"""`castform harbor`: exits, and what is on which stream."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from castform.cli.main import main

TASKS = Path(__file__).parent / "tasks"


def test_lint_reads_every_task_of_ours(capsys):
    assert main(["harbor", "lint", str(TASKS)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "16 tasks can be used, 1 of them with warnings; 0 cannot"


def test_lint_says_what_a_task_leaves_out(write_task, capsys):
    folder = write_task(name="a")
    assert main(["harbor", "lint", str(folder)]) == 0
    *notes, last = capsys.readouterr().out.splitlines()
    assert last == "1 task can be used, 0 of them with warnings; 0 cannot"
    assert ["no solution" in notes[0], "no artifacts" in notes[1]] == [True, True]
    write_task('artifacts = ["/work"]', name="a", files={"solution/solve.sh": "true"})
    assert main(["harbor", "lint", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"][0]["notes"] == []


def test_lint_tells_what_cannot_be_used(write_task, capsys):
    folder = write_task(name="a", files={"tests/test.sh": None}).parent
    write_task("odd = 1", name="b")
    assert main(["harbor", "lint", str(folder), "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert [task["name"] for task in found["tasks"]] == ["b"]
    assert found["tasks"][0]["warnings"] == ["odd is no key that Harbor knows: it changes nothing"]
    assert list(found["unusable"]) == [str(folder / "a")]


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[agent]\ntimeout_sec = 'x'\n", "timeout_sec"),
        ("[agent\n", "is no TOML"),
        ("[[steps]]\nname = 'a/b'\n[[steps]]\nname = 'end'\n", "'a/b'"),
    ],
    ids=["value", "syntax", "step"],
)
def test_lint_names_all_that_a_task_lacks_beside_what_its_file_says_wrong(write_task, capsys, toml, said):
    folder = write_task(toml, name="a", files={"instruction.md": None, "tests/test.sh": None})
    assert main(["harbor", "lint", str(folder)]) == 2
    out = capsys.readouterr().out
    assert said in out and "instruction.md" in out and "tests/test.sh" in out
    assert ("steps/end/instruction.md" in out, "a/b/" in out) == ("'end'" in toml, False)


def test_lint_names_a_link_out_of_a_task_beside_what_is_missing(write_task, capsys):
    folder = write_task("[agent]\ntimeout_sec = 'x'\n", name="a", files={"instruction.md": None})
    (folder / "tests" / "secret").symlink_to("/etc/passwd")
    assert main(["harbor", "lint", str(folder)]) == 2
    out = capsys.readouterr().out
    assert all(said in out for said in ("timeout_sec", "instruction.md", "leads out of the task"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--agent", "oracle", "-m", "x"], "asks no model"),
        (["--agent", "terminus-lite"], "needs a model"),
        (["--agent", "terminus-litle"], "terminus-lite"),
        (["--agent", "./nowhere.toml", "-m", "x"], "does not exist"),
        (["--attempts", "0"], "at least 1"),
        (["--timeout-multiplier", "0"], "above 0"),
        (["--timeout-multiplier", "inf"], "above 0"),
        (["--artifact", "/work/../../out"], "not allowed"),
        (["--job-name", "a/b"], "no name"),
        (["--sandbox", "dokcer"], "no sandbox provider"),
        (["--base-url", "http://x/v1"], "needs -m"),
    ],
)
def test_words_that_do_not_go_together_end_before_anything_starts(write_task, tmp_path, capsys, words, said):
    folder = write_task()
    jobs = tmp_path / "jobs"
    assert main(["harbor", "run", str(folder), "--jobs-dir", str(jobs), *words]) == 2
    assert said in capsys.readouterr().err
    assert not jobs.exists()


def test_the_help_says_where_a_relative_artifact_lies(capsys):
    assert main(["harbor", "run", "--help"]) == 0
    assert "a relative one lies in the box's working folder" in " ".join(capsys.readouterr().out.split())


def test_without_a_task_there_is_nothing_to_run(tmp_path, capsys):
    assert main(["harbor", "run", str(tmp_path)]) == 2
    assert "no Harbor task" in capsys.readouterr().err


def test_a_sandbox_that_isolates_nothing_is_refused(write_task, tmp_path, capsys):
    folder = write_task(name="a")
    words = ["harbor", "run", str(folder), "--sandbox", "process", "--jobs-dir", str(tmp_path), "--json"]
    assert main(words) == 2
    (trial,) = json.loads(capsys.readouterr().out)["trials"]
    assert (trial["status"], trial["rewards"]) == ("refused", None)
    assert "isolates nothing" in trial["error"]


def test_an_engine_that_is_not_there_is_exit_3(write_task, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    folder = write_task()
    assert main(["harbor", "run", str(folder), "--jobs-dir", str(tmp_path / "jobs")]) == 3
    assert "docker" in capsys.readouterr().err.lower()


@pytest.mark.bubblewrap
def test_a_trial_is_scored_although_nobody_reads_its_notes_any_more(write_task, tmp_path, monkeypatch):
    class Unread(io.StringIO):
        def write(self, text: str) -> int:
            if "ok, reward" not in text:
                raise BrokenPipeError
            return len(text)

    monkeypatch.setattr("sys.stderr", Unread())
    words = ["harbor", "run", str(write_task()), "--agent", "nop", "--sandbox", "bubblewrap"]
    assert main([*words, "--jobs-dir", str(tmp_path / "jobs")]) == 0
