"""What a worker tells arrives as it was, in small pieces, and never more than fits."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmax.envs import BaseRollout, RolloutAttempt
from benchmax.envs.logging import group_context, rollout_context
from castform.workers import protocol, reporting
from castform.workers.channel import Channel
from castform.workers.environment import _Relay
from castform.workers.protocol import FrameReader
from castform.workers.records import log_records
from castform.workers.reporting import LOGS_A_SECOND, CallReporter, LogForwarder, count_shared


class Pipe:
    """A channel whose other end is read here."""

    def __init__(self):
        self.end, writing = os.pipe()
        reading, self.unused = os.pipe()
        self.channel = Channel(reading, writing)
        self.frames = FrameReader()
        self.open = [self.end, writing, reading, self.unused]
        os.set_blocking(self.end, False)

    def read(self):
        frames = []
        while True:
            try:
                frames += self.frames.feed(os.read(self.end, 1 << 16))
            except BlockingIOError:
                return frames

    def close(self):
        for descriptor in self.open:
            os.close(descriptor)


@pytest.fixture
def pipe():
    pipe = Pipe()
    yield pipe
    pipe.close()


class Kept:
    """An observer that keeps what it is told."""

    def __init__(self):
        self.calls, self.attempts = [], []

    def on_call(self, rollout_id, request, reply, seconds):
        self.calls.append((rollout_id, {**request, "messages": list(request["messages"])}, reply, seconds))

    def on_attempt(self, attempt):
        self.attempts.append(attempt)


messages = st.lists(st.sampled_from([{"role": "user", "content": text} for text in "abc"]), max_size=5)
calls = st.lists(st.tuples(st.sampled_from(["r-0", "r-1"]), messages), max_size=8)


@settings(deadline=None, max_examples=40)
@given(calls)
def test_transcripts_that_grow_or_are_rewritten_arrive_whole(made):
    async def cross():
        pipe, here, there = Pipe(), Kept(), Kept()
        reporter = CallReporter(3, pipe.channel, lambda: None)
        relay = _Relay(there, "train")
        for number, (rollout_id, history) in enumerate(made):
            request = {"model": "m", "messages": history, "n": number}
            for observer in (here, reporter):
                observer.on_call(rollout_id, request, {"id": number}, 0.5)
            if number % 3 == 2:
                reporter.flush()
        reporter.flush()
        for frame in pipe.read():
            assert (frame["t"], frame["call"]) == ("events", 3)
            relay.take(frame["events"])
        await asyncio.sleep(0)  # the relay tells on the loop
        pipe.close()
        assert there.calls == here.calls

    asyncio.run(cross())


def test_only_what_both_begin_with_is_shared():
    assert count_shared([1, 2, 3], [1, 2, 4, 3]) == 2
    assert count_shared([], [1]) == count_shared([1], []) == count_shared([2], [1]) == 0
    assert count_shared([1], [1, 2]) == 1


async def test_attempts_arrive_as_they_were(pipe):
    reporter, there = CallReporter(0, pipe.channel, lambda: None), Kept()
    made = [
        BaseRollout(
            rollout_id="a", termination_reason="finished", rewards={"r": 1}, messages=[{"role": "user"}]
        ),
        RolloutAttempt(rollout_id="b", termination_reason="sandbox_error", rewards={}, error="no box"),
        RolloutAttempt(rollout_id="c", termination_reason="finished"),
    ]
    for attempt in made:
        reporter.on_attempt(attempt)
    reporter.flush()
    relay = _Relay(there, "train")
    for frame in pipe.read():
        relay.take(frame["events"])
    await asyncio.sleep(0)
    assert there.attempts == made


async def test_an_attempt_that_is_too_large_loses_its_texts_and_no_other_does(pipe, monkeypatch, caplog):
    monkeypatch.setattr(protocol, "MAX_FRAME_BYTES", 400)
    reporter = CallReporter(0, pipe.channel, lambda: None)
    for name, size in (("small", 10), ("large", 500), ("last", 10)):
        said = [{"role": "user", "content": "x" * size}]
        reporter.on_attempt(
            BaseRollout(rollout_id=name, termination_reason="finished", rewards={"r": 1.0}, messages=said)
        )
    reporter.flush()
    events = [event for frame in pipe.read() for event in frame["events"]]
    assert [(e["rollout"], e["rewards"], len(e["messages"])) for e in events] == [
        ("small", {"r": 1.0}, 1),
        ("large", {"r": 1.0}, 0),
        ("last", {"r": 1.0}, 1),
    ]
    assert "what rollout large said is not passed on" in caplog.text


async def test_an_event_that_nobody_flushes_goes_by_itself(pipe, monkeypatch):
    monkeypatch.setattr(reporting, "FLUSH_SECONDS", 0.0)
    progress = []
    reporter = CallReporter(0, pipe.channel, lambda: progress.append(1))
    reporter.on_attempt(RolloutAttempt(rollout_id="a", termination_reason="finished"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(pipe.read()) == len(progress) == 1


def make_record(text="hello %s", level=logging.WARNING):
    return logging.LogRecord("author", level, "f.py", 1, text, ("you",), None)


def test_a_record_is_logged_on_the_host_beside_its_rollout(pipe, caplog):
    caplog.set_level(logging.INFO)
    seen = []

    class Noting(logging.Handler):
        def emit(self, record):
            from benchmax.envs.logging import current_group_ids, current_rollout_id

            seen.append(
                (
                    record.name,
                    record.levelname,
                    record.getMessage(),
                    current_rollout_id(),
                    current_group_ids(),
                )
            )

    noting = Noting()
    logging.getLogger("author").addHandler(noting)
    forwarder = LogForwarder(pipe.channel)
    with rollout_context("r-1"):
        forwarder.emit(make_record())
    with group_context(["r-1", "r-2"]):
        forwarder.emit(make_record(level=logging.INFO))
    forwarder.emit(make_record(level=logging.DEBUG))
    for frame in pipe.read():
        log_records(frame["records"])
    logging.getLogger("author").removeHandler(noting)
    assert seen == [
        ("author", "WARNING", "hello you", "r-1", ()),
        ("author", "INFO", "hello you", None, ("r-1", "r-2")),
    ]


def test_a_flood_of_records_is_counted(pipe):
    now = [7.0]
    forwarder = LogForwarder(pipe.channel, clock=lambda: now[0])
    for _ in range(LOGS_A_SECOND + 5):
        forwarder.emit(make_record())
    assert len(pipe.read()) == LOGS_A_SECOND
    now[0] = 8.0
    forwarder.emit(make_record())
    (frame,) = pipe.read()
    assert frame["records"][0]["text"] == "hello you (5 more records were left out)"


async def test_a_transcript_that_is_no_json_loses_its_texts_and_the_attempt_counts(pipe, caplog):
    circular = {"role": "user"}
    circular["again"] = circular
    reporter = CallReporter(0, pipe.channel, lambda: None)
    for name, said in (("odd-key", {("a", 1): "x"}), ("circular", circular), ("fine", {"role": "user"})):
        reporter.on_attempt(
            BaseRollout(rollout_id=name, termination_reason="finished", rewards={"r": 1.0}, messages=[said])
        )
    reporter.flush()
    events = [event for frame in pipe.read() for event in frame["events"]]
    assert [(e["rollout"], e["rewards"], e["messages"]) for e in events] == [
        ("odd-key", {"r": 1.0}, []),
        ("circular", {"r": 1.0}, []),
        ("fine", {"r": 1.0}, [{"role": "user"}]),
    ]
    assert "what rollout odd-key said is not passed on" in caplog.text
