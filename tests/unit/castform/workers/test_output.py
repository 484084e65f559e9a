"""What an environment prints: kept in part, shown at a bounded rate, a flood called one."""

from __future__ import annotations

import logging

import pytest

from castform.workers.output import LINES_A_SECOND, MAX_LINE_CHARACTERS, OutputCapture
from castform.workers.slot_count import SlotCount


def make(limit=1000):
    return OutputCapture("worker 0", limit_bytes=limit, limit_seconds=10)


def lines_of(caplog):
    return [record.getMessage() for record in caplog.records]


def test_lines_are_logged_when_they_are_whole(caplog):
    caplog.set_level(logging.INFO)
    output = make()
    for part in (b"on", b"e\ntw", b"o\r\nthr"):
        assert output.add(part, now=0.0)
    assert lines_of(caplog) == ["worker 0: one", "worker 0: two"]


def test_control_characters_do_not_reach_the_terminal(caplog):
    caplog.set_level(logging.INFO)
    make().add(b"\x1b[2Jred\xff\n", now=0.0)
    assert lines_of(caplog) == ["worker 0: \\x1b[2Jred\ufffd"]


def test_more_lines_than_the_rate_are_counted_and_long_ones_are_cut(caplog):
    caplog.set_level(logging.INFO)
    output = make(10**6)
    output.add(b"x\n" * (LINES_A_SECOND + 3), now=5.0)
    output.add(b"more\nmo", now=5.9)
    assert len(caplog.records) == LINES_A_SECOND
    output.add(b"y" * 600 + b"\n", now=6.0)
    assert (
        lines_of(caplog)[-1]
        == f"worker 0: mo{'y' * (MAX_LINE_CHARACTERS - 2)} (4 lines before it were left out)"
    )


def test_the_last_lines_stay_whatever_came_before():
    output = make(10**9)
    output.add(b"z" * 100_000 + b"\na\n\n  b\nc\nd\ne\nf", now=0.0)
    assert output.last_lines() == "b | c | d | e | f"
    assert make().last_lines() == ""


def test_of_a_crash_the_beginning_is_shown():
    output = make(10**9)
    output.add(b"before\nFatal Python error: Bus error\n\nthread\n  at a\n  at b\n  at c\n  at d\n", now=0.0)
    assert output.last_lines() == "Fatal Python error: Bus error | thread | at a | at b | at c"


def test_the_limit_itself_is_no_flood_and_holds_for_a_window_of_time():
    output = make(limit=10)
    assert output.add(b"12345", now=0.0) and output.add(b"67890", now=9.9)
    assert not output.add(b"1", now=9.95)
    assert output.add(b"1234567890", now=20.0)


@pytest.fixture
def granted():
    return []


@pytest.fixture
def count(granted):
    return SlotCount(2, lambda worker, ticket: granted.append((worker, ticket)))


def test_slots_go_in_order_of_asking_and_over_all_workers(count, granted):
    for holder in [("a", 0), ("b", 0), ("a", 1), ("b", 1)]:
        count.want(*holder)
    assert granted == [("a", 0), ("b", 0)]
    count.give_back("b", 0)
    assert granted[2:] == [("a", 1)]


def test_one_that_no_longer_waits_is_passed_over(count, granted):
    for holder in [("a", 0), ("a", 1), ("a", 2), ("b", 0)]:
        count.want(*holder)
    count.give_back("a", 2)
    count.give_back("a", 0)
    assert granted[2:] == [("b", 0)]
    count.give_back("a", 0)  # twice changes nothing
    assert granted[3:] == []


def test_a_lost_worker_s_slots_are_free_again(count, granted):
    for holder in [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]:
        count.want(*holder)
    count.forget("a")
    assert granted[2:] == [("b", 0), ("b", 1)]
