"""Every event ends up in the file, in order, and can be read back."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from castform_watch_journal.journal import FILE_NAME, read_events
from castform_watch_journal.show import show

from castform.plugins import (
    CheckpointSaved,
    EvalEnded,
    GroupScored,
    RunEnded,
    RunInfo,
    RunStarted,
    StepEnded,
    UsageError,
    load_watchers,
)

EVENTS = [
    RunStarted(steps=2),
    GroupScored(step=1, group_id="g", example_id="e", scores=(1.0, None), rewards=({"right": 1.0}, {})),
    StepEnded(step=1, scalars={"reward": 0.5}),
    CheckpointSaved(step=1, path=Path("checkpoints/step-1")),
    EvalEnded(step=2, scalars={"pass@1": 0.25}),
    RunEnded(status="finished", step=2, verdict="better"),
]


def test_every_event_is_one_line_in_order(tmp_path):
    watchers = load_watchers(["journal"])
    for event in EVENTS:
        watchers.notify(RunInfo(run_id="r1", run_dir=tmp_path), event)
    records = list(read_events(tmp_path))
    assert [r["event"] for r in records] == [
        "run_start", "group_scored", "step_end", "checkpoint_saved", "eval_end", "run_end",
    ]  # fmt: skip
    assert records[1]["scores"] == [1.0, None] and records[3]["path"] == "checkpoints/step-1"
    assert watchers.names() == ["journal"]


def test_a_run_without_a_folder_has_no_journal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load_watchers(["journal"]).notify(RunInfo(run_id="r1"), EVENTS[0])
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_was_cut_short_is_left_out(tmp_path):
    (tmp_path / FILE_NAME).write_text('{"event": "step_end"}\n{"event": "st')
    assert list(read_events(tmp_path / FILE_NAME)) == [{"event": "step_end"}]


def test_show_prints_the_events_of_one_kind(tmp_path, capsys):
    for event in EVENTS:
        load_watchers(["journal"]).notify(RunInfo(run_id="r1", run_dir=tmp_path), event)
    assert show(argparse.Namespace(run_dir=str(tmp_path), event="step_end")) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("  ")[1] == "step_end" and '"reward": 0.5' in line


def test_show_without_a_journal_says_how_to_get_one(tmp_path):
    with pytest.raises(UsageError, match="no journal"):
        show(argparse.Namespace(run_dir=str(tmp_path), event=None))
