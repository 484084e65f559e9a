"""What the rules share: the environment, its examples, what was played already."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from benchmax.envs import Environment, Example
from castform.certify.checks.isolation import check_isolation
from castform.certify.checks.scripts import make_right, make_wrong, scores_groups
from castform.certify.context import CheckContext
from castform.environments import close_environment, load_examples
from castform.gold import RENDERINGS, Rendering, read_gold, unwrap_golds
from castform.playback import Playback
from castform.probes import ProbeReport
from castform.probing import find_rendering, run_probes
from castform.rollouts import RolloutGroup, Split
from castform.scripted_replies import Script
from castform.testing.conformance.network_guard import NetworkGuard
from castform.testing.conformance.other_process import OtherProcess, ask_other_process
from castform.testing.conformance.rule import NotCheckedError
from castform.testing.conformance.subject import Subject
from castform.validation import Finding

T = TypeVar("T")
TASK_CYCLES = 40
"""How often a task that is left is looked at again, at 5 ms: what was cancelled takes a while to end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How an environment is examined. `OptionWords` has the same names, for those who call with keywords."""

    args: Mapping[str, Any] | None = None
    """The environment's arguments."""
    base_dir: Path | None = None
    """Where relative dataset paths start; None: where the environment is."""
    split: Split = "train"
    """The split whose examples are played; both are loaded."""
    examples: int = 8
    """First so many of the split."""
    scripts: int = 20
    """Random replies that hypothesis makes up."""
    weights: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    timeout_seconds: float = 30.0
    """Of one group."""
    rule_seconds: float = 120.0
    """Of one rule. One that takes longer is broken."""


class OptionWords(TypedDict, total=False):
    """`Options` as keyword arguments: what is left out is as it is there."""

    args: Mapping[str, Any] | None
    base_dir: Path | None
    split: Split
    examples: int
    scripts: int
    weights: Mapping[str, float]
    seed: int
    timeout_seconds: float
    rule_seconds: float


class Examined:
    """One environment under examination. What several rules need is made once, when first asked for."""

    def __init__(
        self,
        subject: Subject,
        options: Options,
        *,
        network: NetworkGuard,
        temp_dir: Path,
        loading_changes: Sequence[str] = (),
    ) -> None:
        self.subject = subject
        self.options = options
        self.network = network
        self.temp_dir = temp_dir
        """Where temporary files go meanwhile."""
        self.loading_changes = loading_changes
        """What of the process's shared state loading it changed, in words."""
        self.state_changes: list[str] = []
        """What the rules so far changed of it."""
        self.environment: Environment[Any, Any] = subject.environment
        self.groups = 0
        self._ran_out: set[str] = set()
        """What several rules need and one of them was given up over."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run in an event loop of its own and close the environment's connections in it."""

        async def closing() -> T:
            try:
                return await work
            finally:
                await close_environment(self.environment)

        return asyncio.run(closing())

    def run_watched(self, work: Coroutine[Any, Any, T]) -> tuple[T, list[str]]:
        """The same, and return the names of the tasks that are left then."""

        async def watching() -> tuple[T, list[str]]:
            before = asyncio.all_tasks()
            try:
                result = await work
            finally:
                await close_environment(self.environment)
            for _ in range(TASK_CYCLES):
                left = asyncio.all_tasks() - before
                if not left:
                    break
                await asyncio.sleep(0.005)
            return result, sorted(_describe_task(task) for task in left)

        return asyncio.run(watching())

    @cached_property
    def examples(self) -> Sequence[Example[Any]]:
        """The examples of the split that is played. Raises what `load_examples` raises."""
        with self._once("the examples"):
            return self.run(self.load(self.options.split))

    async def load(
        self, split: Split, limit: int | None = None, *, environment: Environment[Any, Any] | None = None
    ) -> list[Example[Any]]:
        """Load examples anew."""
        return await load_examples(
            environment or self.environment,
            split,
            self.subject.base_dir,
            limit=self.options.examples if limit is None else limit,
        )

    @cached_property
    def golds(self) -> Mapping[str, Any]:
        """Right answers by example id, without a form that all have. RuntimeError when `gold` raises."""
        with self._once("the right answers"):
            return unwrap_golds({e.id: read_gold(self.environment, e) for e in self.examples})

    @cached_property
    def probes(self) -> ProbeReport:
        """What the right answer and every probe earned. RuntimeError when `gold` raises."""
        with self._once("the probes"):
            return self.run(
                run_probes(
                    self.environment,
                    self.examples,
                    split=self.options.split,
                    weights=self.options.weights,
                    seed=self.options.seed,
                    timeout_seconds=self.options.timeout_seconds,
                )
            )

    @cached_property
    def rendering(self) -> Rendering:
        """How the environment wants an answer written down. RuntimeError when `gold` raises."""
        if "probes" in self.__dict__:  # they found it already
            return next(r for r in RENDERINGS if r.name == self.probes.rendering)
        with self._once("the form of right answers"):
            return self.run(
                find_rendering(
                    self.environment,
                    self.examples,
                    self.golds,
                    split=self.options.split,
                    weights=self.options.weights,
                    timeout_seconds=self.options.timeout_seconds,
                )
            )

    @cached_property
    def check_context(self) -> CheckContext:
        """The same for the checks of a certification."""
        return CheckContext(
            environment=self.environment,
            make_environment=self.subject.make,
            base_dir=self.subject.base_dir,
            examples={self.options.split: self.examples},
            split=self.options.split,
            golds=self.golds,
            rendering=self.rendering,
            weights=self.options.weights,
            seed=self.options.seed,
            timeout_seconds=self.options.timeout_seconds,
        )

    @cached_property
    def other_process(self) -> OtherProcess:
        """What a fresh interpreter with another hash seed made of the environment."""
        return ask_other_process(self.subject, self.options.split, self.options.examples)

    @cached_property
    def isolation(self) -> Sequence[Finding]:
        """What the check of a certification finds of rollouts alone, beside others and after others."""
        with self._once("rollouts alone and beside others"):
            return self.run(check_isolation(self.need_context()))

    @property
    def scores_groups(self) -> bool:
        """Whether rewards may depend on siblings."""
        return scores_groups(self.environment)

    def scripts(self, example: Example[Any]) -> list[Script]:
        """Return the right answer where it is known, and two wrong ones."""
        right = make_right(self.check_context, example)
        return [*([] if right is None else [right]), *make_wrong(self.check_context, example)]

    async def play(
        self,
        playback: Playback,
        example: Example[Any],
        scripts: Sequence[Script],
        *,
        environment: Environment[Any, Any] | None = None,
        timeout_seconds: float | None = None,
    ) -> RolloutGroup:
        """Run one group, a sibling a script."""
        self.groups += 1
        return await playback.play(
            environment or self.environment,
            example,
            scripts,
            group_id=f"conformance-{self.groups}",
            split=self.options.split,
            weights=self.options.weights,
            timeout_seconds=timeout_seconds or self.options.timeout_seconds,
        )

    @contextmanager
    def _once(self, what: str) -> Iterator[None]:
        """Make what several rules need; where that was interrupted once, no rule tries it again."""
        if what in self._ran_out:
            raise NotCheckedError(f"an earlier rule ran out of time over {what}")
        try:
            yield
        except KeyboardInterrupt:
            self._ran_out.add(what)
            raise

    def need_examples(self) -> Sequence[Example[Any]]:
        """Return the examples. NotCheckedError where they cannot be loaded, which `loads` reports."""
        from castform.errors import CastformError

        try:
            return self.examples
        except CastformError as error:
            raise NotCheckedError("the examples cannot be loaded (rule loads)") from error

    def need_context(self) -> CheckContext:
        """Return what checks need. NotCheckedError where `gold` raises, which `gold_is_paid` reports."""
        self.need_examples()
        try:
            return self.check_context
        except RuntimeError as error:
            raise NotCheckedError("gold() raises (rule gold_is_paid)") from error


def _describe_task(task: asyncio.Task[Any]) -> str:
    work = getattr(task.get_coro(), "__qualname__", "")
    return f"{task.get_name()} ({work})" if work else task.get_name()
