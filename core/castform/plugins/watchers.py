"""Tell configured plugins what happens in a run, without letting them disturb it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from castform.plugins.events import (
    CheckpointSaved,
    EvalEnded,
    GroupScored,
    RunEnded,
    RunEvent,
    RunInfo,
    RunStarted,
    StepEnded,
)
from castform.plugins.failure import PluginFailure
from castform.plugins.loader import load_registry
from castform.plugins.plugin import Plugin
from castform.plugins.registry import Registry

MAX_FAILURES = 3
"""A watcher that raised this often in one run is not called again."""

RUN_HOOKS: dict[type[RunEvent], str] = {
    RunStarted: "on_run_start",
    GroupScored: "on_group_scored",
    StepEnded: "on_step_end",
    CheckpointSaved: "on_checkpoint_saved",
    EvalEnded: "on_eval_end",
    RunEnded: "on_run_end",
}

logger = logging.getLogger(__name__)


class Watchers:
    """The watchers of one run. Make it on rank 0 only."""

    def __init__(
        self, plugins: Sequence[Plugin] = (), *, report: Callable[[str], None] | None = None
    ) -> None:
        """`report` gets one line for each failure, for the run's events; it is logged in any case."""
        self._plugins = {plugin.name: plugin for plugin in plugins}
        self._failures = dict.fromkeys(self._plugins, 0)
        self._report = report

    def names(self) -> list[str]:
        """Return the watchers that are still called."""
        return [name for name, count in self._failures.items() if count < MAX_FAILURES]

    def notify(self, run: RunInfo, event: RunEvent) -> None:
        """Call the hook that belongs to the event. Never raises what a watcher raises."""
        hook = RUN_HOOKS[type(event)]
        for name in self.names():
            try:
                self._plugins[name].call(hook, run=run, event=event)
            except PluginFailure as failure:
                self._count_failure(name, failure)

    def _count_failure(self, name: str, failure: PluginFailure) -> None:
        self._failures[name] += 1
        count = self._failures[name]
        off = "; it is switched off" if count >= MAX_FAILURES else ""
        line = f"watcher {name!r} failed ({count} of {MAX_FAILURES}): {failure.cause}{off}"
        logger.warning("%s", line, exc_info=failure.__cause__)
        if self._report is not None:
            self._report(line)


def load_watchers(
    ids: Sequence[str],
    *,
    registry: Registry[Plugin] | None = None,
    report: Callable[[str], None] | None = None,
) -> Watchers:
    """Load the plugins that a run's config names as watchers.

    Raises UnknownPluginError or PluginFailure before the run starts: a watcher that is
    asked for and broken is an error, one that breaks later is not.
    """
    plugins = load_registry() if registry is None else registry
    loaded = [plugins.load(id) for id in dict.fromkeys(ids)]
    for plugin in loaded:
        if not any(plugin.implements(hook) for hook in RUN_HOOKS.values()):
            raise plugin.fail("it is named as a watcher, but has no run hook")
    return Watchers(loaded, report=report)
