"""A watcher is told everything and can disturb nothing."""

from __future__ import annotations

import sys

import pytest

from castform.plugins import PluginFailure, RunInfo, StepEnded, UnknownPluginError, load_watchers
from castform.plugins.watchers import RUN_HOOKS

RUN = RunInfo(run_id="r1")


def test_a_watcher_that_keeps_failing_is_switched_off(registry):
    lines: list[str] = []
    watchers = load_watchers(["raising-watcher"], registry=registry("raising_watcher"), report=lines.append)
    for step in range(1, 6):
        watchers.notify(RUN, StepEnded(step=step))
    assert sys.modules["castform_env_raising_watcher.plugin"].SEEN == [1, 2, 3]
    assert watchers.names() == []
    assert len(lines) == 3 and "dashboard does not answer" in lines[0] and "switched off" in lines[2]


def test_a_watcher_that_is_not_installed_or_broken_is_an_error_before_the_run(registry):
    plugins = registry("exit_at_import", "sound")
    with pytest.raises(UnknownPluginError):
        load_watchers(["nobody"], registry=plugins)
    with pytest.raises(PluginFailure, match=r"sys\.exit"):
        load_watchers(["exit"], registry=plugins)
    with pytest.raises(PluginFailure, match="no run hook"):
        load_watchers(["sound"], registry=plugins)


def test_without_watchers_nothing_happens():
    load_watchers([]).notify(RUN, StepEnded(step=1))


def test_every_run_hook_has_one_event():
    from castform.plugins import hookspecs

    assert sorted(RUN_HOOKS.values()) == sorted(n for n in vars(hookspecs) if n.startswith("on_"))
