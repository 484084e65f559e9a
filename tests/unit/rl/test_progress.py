"""What a person sees of a run: lines when piped, a live table on a terminal."""

from __future__ import annotations

import io

import pytest

from castform.plugins.events import EvalEnded, GroupScored, RunEnded, RunInfo, RunStarted, StepEnded
from castform.progress import LiveProgress, PlainProgress, format_seconds, show_progress

RUN = RunInfo(run_id="r1", environment="arith/add", model="smollm2-135m")
STEP = {
    "reward/mean": 0.5123,
    "reward/component/correct": 0.25,
    "reward/spread": 0.31,
    "groups/signal_share": 0.75,
    "rollouts/failed_share": 0.0,
    "tokens/sampled": 300.0,
    "time/step_seconds": 10.0,
}
EVENTS = [
    RunStarted(steps=3),
    EvalEnded(step=0, scalars={"eval/score": 0.125, "eval/component/correct": 0.1}),
    GroupScored(step=1, group_id="g", example_id="e", scores=(0.0, 1.0)),
    StepEnded(step=1, scalars=STEP),
    RunEnded(status="failed", step=1, error="no signal"),
]


def test_plain_lines_hold_reward_components_spread_signal_speed_and_time_left():
    out = io.StringIO()
    show = PlainProgress(out, clock=lambda: 0.0)
    for event in EVENTS:
        show(RUN, event)
    lines = out.getvalue().splitlines()
    assert lines == [
        "arith/add on smollm2-135m · run r1: 3 steps",
        "held out, after 0 steps: score 0.125  correct 0.100",
        "step 1/3  reward 0.512  correct 0.250  spread 0.310  signal 75%  30 tok/s  10.0 s  20 s left",
        "failed after 1 steps",
    ]


def test_failures_are_shown_when_there_are_any():
    out = io.StringIO()
    PlainProgress(out)(RUN, StepEnded(step=1, scalars={**STEP, "rollouts/failed_share": 0.5}))
    assert "failed 50%" in out.getvalue()


def test_the_live_view_shows_the_same_figures():
    from rich.console import Console

    live = LiveProgress(clock=lambda: 0.0)
    for event in EVENTS[:-1]:
        live(RUN, event)
    console = Console(file=io.StringIO(), width=120)
    console.print(live.render())
    text = console.file.getvalue()
    for part in ("arith/add on smollm2-135m", "correct", "0.512", "75%", "step 1/3", "20 s left", "0.125"):
        assert part in text


def test_a_pipe_gets_plain_lines():
    with show_progress(io.StringIO()) as listener:
        assert isinstance(listener, PlainProgress)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7505, "2 h 05 min")]
)
def test_times_read_like_times(seconds, text):
    assert format_seconds(seconds) == text
