"""`castform sft check` as a person runs it: exits, words, JSON, and that it agrees with `sft train`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from castform.cli.main import main
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))
from sft_runs import make_rows, write_files, write_rows


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(make_tiny_model(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("data"))


def check(capsys, *words):
    code = main(["sft", "check", *map(str, words)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_files_that_a_run_takes_exit_0_with_figures_and_a_preview_in_brackets(capsys, model, data):
    code, out, _ = check(capsys, data["train"], "--eval", data["eval"], "-m", model, "--row", "5")
    assert code == 0
    assert main(["sft", "train", data["train"], "--eval", data["eval"], "-m", model, "--dry-run"]) == 0
    plan = capsys.readouterr().out
    assert "20 rows, all sound" in out and "8 rows, all sound" in out
    tokens = next(line for line in out.splitlines() if line.startswith("  tokens in all"))
    assert tokens.split()[3].rstrip(",") in plan and tokens.split()[4] in plan
    assert "row 5 (line 6): " in out
    (marked,) = [line for line in out.splitlines() if line.startswith("[[")]
    assert marked == f"[[{make_rows(20)[5]['messages'][3]['content']}<|im_end|>]]"
    assert "weight 0          4 of 24 assistant messages (16.7%)" in out
    assert out.endswith("training would start\n")


def test_without_a_model_it_says_what_was_not_checked_and_exits_3(capsys, data):
    code, out, _ = check(capsys, data["train"])
    assert code == 3
    assert "not checked: tokens, context, masks: no model given" in out
    assert "add -m MODEL" in out and "tokens a row" not in out
    assert out.endswith("whether training would start is not known\n")


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # as if it were not installed
from castform.cli.main import main
code = main(["sft", "check", *sys.argv[1:], "--json"])
assert "transformers" not in sys.modules and "peft" not in sys.modules
sys.exit(code)
"""


def test_without_the_train_extra_the_rest_is_there_and_the_extra_is_named(data, model):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, data["train"], "-m", model],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert found["train"]["contents"]["rows"] == 20
    assert (found["would_train"], found["train"]["tokens"]) == (None, None)
    (open_,) = found["unchecked"]
    assert "train extra" in open_["why"] and "torch" in open_["why"]
    assert "castform[train]" in open_["hint"]


def test_a_copy_among_held_out_rows_is_shown_with_the_file_that_has_it_too(capsys, tmp_path):
    rows = make_rows(6)
    train = write_rows(tmp_path / "t.jsonl", [*rows, rows[2]])
    held_out = write_rows(tmp_path / "e.jsonl", [rows[3], *make_rows(2, tag="h")])
    _, out, _ = check(capsys, train, "--eval", held_out)
    assert "line 7 (row 6) is the same as line 3 (row 2)\n" in out
    assert f"line 1 (row 0) is the same as line 4 (row 3) of {train}\n" in out
    assert out.count("\n  1 copy\n") == 2
    assert "  1 row repeats an earlier one, " in out and "  1 row is a training row, " in out


def test_json_has_everything_under_stable_keys(capsys, tmp_path, model):
    rows = [*make_rows(6), make_rows(6)[2]]
    train = write_rows(tmp_path / "t.jsonl", rows)
    held_out = write_rows(tmp_path / "e.jsonl", [make_rows(6)[3], *make_rows(2, tag="h")])
    code, out, _ = check(capsys, train, "--eval", held_out, "-m", model, "--json")
    found = json.loads(out)
    assert code == 1
    assert list(found) == [
        "schema",
        "would_train",
        "faults",
        "unchecked",
        "train",
        "eval",
        "copies",
        "overlap",
        "model",
        "preview",
    ]
    assert (found["schema"], found["would_train"], found["unchecked"]) == ("castform-sft-check-1", False, [])
    assert [(fault["code"], list(fault)) for fault in found["faults"]] == [
        ("held_out_is_trained", ["code", "message", "hint"])
    ]
    for split in ("train", "eval"):
        assert list(found[split]) == [
            "path",
            "format",
            "rows",
            "issue_count",
            "issue_codes",
            "issues",
            "way_out",
            "warnings",
            "contents",
            "tokens",
        ]
    assert list(found["train"]["tokens"]) == [
        "rows",
        "samples",
        "tokens",
        "trained",
        "total_tokens",
        "trained_tokens",
        "sampled_rows",
        "over_context",
        "cannot_mask",
        "trained_share",
    ]
    assert [group["code"] for group in found["train"]["warnings"]] == ["duplicate_row"]
    assert found["copies"]["exact"] == [{"row": 6, "line": 7, "of_row": 2, "of_line": 3, "similarity": 1.0}]
    assert found["overlap"]["exact"] == [{"row": 0, "line": 1, "of_row": 3, "of_line": 4, "similarity": 1.0}]
    assert found["model"]["context_tokens"] == 512
    assert {span["trained"] for span in found["preview"]["samples"][0]} == {True, False}


def test_issues_are_grouped_with_their_first_places_and_all_are_in_the_json(capsys, tmp_path, model):
    rows = [{**row, "prompt": ""} if n < 5 else row for n, row in enumerate(make_rows(7))]
    rows[6]["messages"][1]["weight"] = True
    path = write_rows(tmp_path / "t.jsonl", rows)
    code, out, _ = check(capsys, path, "-m", model)
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == f"{path}: 7 issues"
    place = next(n for n, line in enumerate(lines) if "5  unknown_key" in line)
    assert "line 1, row 0" in lines[place + 1] and "and 2 more" in lines[place + 4]
    assert f"castform sft convert {path}" in out
    assert "training would not start: 1 reason" in out
    code, out, _ = check(capsys, path, "--json")
    found = json.loads(out)["train"]
    assert code == 1
    assert found["issue_codes"] == {"unknown_key": 5, "weight_invalid": 1, "nothing_to_train": 1}
    assert len(found["issues"]) == found["issue_count"] == 7
    assert found["issues"][0]["code"] == "unknown_key"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["EMPTY"], 1, "there is no row"),
        (["TRAIN", "--eval", "EMPTY", "-m", "MODEL"], 1, "there is no row"),
        (["TRAIN", "--eval", "TRAIN"], 1, "20 of the held-out rows are training rows too"),
        (["TRAIN", "-m", "MODEL", "--set", "data.max_context_tokens=20"], 1, "rows have more than 20 tokens"),
        (["FOLDER"], 2, "this is a folder"),
        (["no-such.jsonl"], 2, "no such file"),
        (["TRAIN", "-m", "MODEL", "--row", "20"], 2, "rows 0 to 19"),
        (["TRAIN", "--row", "1"], 2, "add -m MODEL"),
        (["TRAIN", "-m", "MODEL", "--set", "data.max_context_tokens=4096"], 2, "reads 512 tokens at most"),
        (["TRAIN", "-m", "no-such-model"], 3, "no model called"),
    ],
)
def test_what_is_wrong_has_its_exit_and_is_named(capsys, tmp_path, model, data, words, code, text):
    (tmp_path / "empty.jsonl").write_text("\n \n")
    places = {"TRAIN": data["train"], "MODEL": model, "EMPTY": tmp_path / "empty.jsonl", "FOLDER": tmp_path}
    found, out, err = check(capsys, *(places.get(word, word) for word in words))
    assert found == code
    assert text in out + err


SHOW = """
from castform.cli.output import print_marked
print_marked([("asked ", False), ("said", True), ("\\x1b[2J", True)])
"""


def show_on_a_terminal(**environment):
    """Return what SHOW writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(
        [sys.executable, "-c", SHOW],
        stdout=theirs,
        env={**kept, "TERM": "xterm", **environment},
        check=True,
        timeout=60,
    )
    os.close(theirs)
    text = os.read(ours, 4096).decode()
    os.close(ours)
    return text


def test_trained_text_is_coloured_on_a_terminal_and_in_brackets_where_no_colour_is_wanted():
    coloured = show_on_a_terminal()
    assert "\x1b[1;32msaid" in coloured and "[[" not in coloured
    assert "\x1b[2J" not in coloured  # what a row says steers no terminal
    plain = show_on_a_terminal(NO_COLOR="1")
    assert plain.startswith("asked [[said]]") and "\x1b" not in plain
