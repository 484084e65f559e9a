"""Without -v, a fault that every rollout meets is one line on stderr and no traceback."""

from __future__ import annotations

import logging

import pytest

from castform.cli.logs import NOTE, show_logs


@pytest.fixture
def show(monkeypatch):
    """show_logs on a root logger without pytest's own handlers, which come after a fixture's."""
    root = logging.getLogger()
    level = root.level

    def call(*, verbose: bool) -> None:
        monkeypatch.setattr(root, "handlers", [])
        show_logs(verbose=verbose)

    yield call
    root.setLevel(level)


def fail(times: int) -> None:
    for number in range(times):
        try:
            raise ValueError(f"reward\x1b[31m {number}")
        except ValueError as error:
            logging.getLogger("benchmax.x").warning("compute_reward failed for %s", number, exc_info=error)


def test_a_kind_is_shown_once_on_one_line_with_its_cause(show, capsys) -> None:
    show(verbose=False)
    fail(3)
    logging.getLogger("castform.x").info("not a warning")
    assert capsys.readouterr().err == (
        "warning: compute_reward failed for 0: ValueError: reward\\x1b[31m 0 (-v shows the traceback)\n"
    )


def test_a_note_is_shown_though_it_is_no_warning(show, capsys) -> None:
    show(verbose=False)
    logging.getLogger("castform.x").log(NOTE, "commands run in boxes")
    assert capsys.readouterr().err == "note: commands run in boxes\n"


def test_verbose_shows_every_record_with_its_traceback(show, capsys) -> None:
    show(verbose=True)
    fail(3)
    assert capsys.readouterr().err.count("Traceback") == 3
