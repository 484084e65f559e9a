"""Find out whether an environment can be gamed, and whether a model can learn from it.

In order: what the environment knows to be wrong with itself; the probes, played without any
model; the same transcripts scored again; the checks; and, with an endpoint, a model's groups.
Whatever fails or finds no time is reported as unchecked, never left out.
"""

from __future__ import annotations

import asyncio
import os
import pkgutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmax.envs import Environment, Example
from benchmax.envs.termination import describe_error
from castform.certify.certification import Certification, CertifyOptions
from castform.certify.checks.scripts import scores_groups
from castform.certify.choice import DETERMINISM, choose_probes
from castform.certify.context import CheckContext
from castform.certify.rates import measure_rates
from castform.certify.signal import forecast_with_model
from castform.certify.transcripts import choose_replays
from castform.diagnostics import read_diagnostics
from castform.endpoint import Endpoint
from castform.environments import check_ready, load_examples
from castform.errors import CastformError, UsageError
from castform.gold import RENDERINGS, read_gold, unwrap_golds
from castform.plugins.environment_files import is_path
from castform.plugins.environments import LoadedEnvironment, load_environment
from castform.probe_findings import judge_probes
from castform.probe_report import GOLD
from castform.probes import PROBES
from castform.probing import find_rendering, run_probes
from castform.replay import replay_groups
from castform.rollouts import RolloutGroup, Split
from castform.sample_findings import judge_replay
from castform.validation import Finding

CHECKS: tuple[tuple[str, str], ...] = (
    ("static", "castform.certify.checks.static:check_static"),
    ("duplicates", "castform.certify.checks.duplicates:check_duplicates"),
    ("global_randomness", "castform.certify.checks.global_randomness:check_global_randomness"),
    ("isolation", "castform.certify.checks.isolation:check_isolation"),
    ("blocking", "castform.certify.checks.blocking:check_blocking"),
)
"""Name, as `--only` takes it, and the function."""
DIAGNOSTICS, FORECAST = "diagnostics", "forecast"
READ_ONLY = frozenset({DIAGNOSTICS, "static", "duplicates"})
"""Of the names that `--only` takes, those for which no rollout is run."""
OTHER_SPLIT = 8
"""Examples of the split that is not probed: some datasets compute for seconds over each."""
PROBES_SHARE = 0.5
"""Of the time, what the probes may take."""
SPLITS: tuple[Split, ...] = ("train", "eval")


def names() -> list[str]:
    """Return what `only` may be."""
    return [DIAGNOSTICS, GOLD, *(probe.name for probe in PROBES), DETERMINISM, *dict(CHECKS), FORECAST]


def check_only(name: str | None) -> None:
    """Raise UsageError for what is no name of a probe or check."""
    if name is not None and name not in names():
        raise UsageError(
            f"there is no probe or check called {name!r}", hint=f"there are {', '.join(names())}"
        )


def certify_environment(
    id: str,
    args: dict[str, Any] | None = None,
    *,
    options: CertifyOptions | None = None,
    base_dir: Path | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> Certification:
    """Load an environment and certify it without a model, in this process, from code that is not async.

    Raises what `load_environment`, `load_examples` and `check_ready` raise.
    """
    loaded = load_environment(id, args)

    async def work() -> Certification:
        try:
            return await certify(
                loaded, arguments=args, options=options, base_dir=base_dir, on_stage=on_stage
            )
        finally:
            await loaded.environment.aclose()

    return asyncio.run(work())


async def certify(
    loaded: LoadedEnvironment,
    *,
    arguments: dict[str, Any] | None = None,
    endpoint: Endpoint | None = None,
    version: int | None = None,
    options: CertifyOptions | None = None,
    base_dir: Path | None = None,
    model_flags: Mapping[str, str] | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
    on_group: Callable[[RolloutGroup], None] = lambda group: None,
    record: Callable[[Sequence[RolloutGroup]], None] | None = None,
) -> Certification:
    """Certify a loaded environment; the caller closes it.

    `arguments` are those that it was made with, to make more of them; `model_flags` are options of the
    command line that go with the endpoint, for the commands that show findings again. What environment code does
    wrong is reported. Raises UsageError for an `only` or `example` that does not exist, what
    `load_examples` and `check_ready` raise, and what the endpoint raises.
    """
    options = options or CertifyOptions()
    check_only(options.only)
    work = _Certifier(loaded, dict(arguments or {}), options, base_dir or loaded.base_dir, on_stage)
    on_stage("the examples")
    await work.load()
    if work.wants(DIAGNOSTICS) and work.read_diagnostics():
        return work.finish()
    if not await work.read_golds():
        return work.finish()
    if options.only not in READ_ONLY:
        await check_ready(loaded.environment)
    await work.probe()
    await work.replay()
    await work.check()
    await work.forecast(endpoint, version, on_group, record)
    return replace(work.finish(), model_flags=dict(model_flags or {}))


class _Certifier:
    """A certification in progress."""

    def __init__(
        self,
        loaded: LoadedEnvironment,
        arguments: dict[str, Any],
        options: CertifyOptions,
        base_dir: Path,
        on_stage: Callable[[str], None],
    ) -> None:
        self.options = options
        self._loaded = loaded
        # Environment code may change the working folder.
        self._place = os.path.abspath(loaded.id) if is_path(loaded.id) else loaded.id  # noqa: PTH100
        self._environment: Environment[Any, Any] = loaded.environment
        self._arguments = arguments
        self._base_dir = base_dir
        self._say = on_stage
        self._began = time.monotonic()
        self._deadline = self._began + options.max_seconds
        self._findings: list[Finding] = []
        self._examples: dict[Split, list[Example[Any]]] = {}
        self._golds: dict[str, Any] = {}
        self._parts: dict[str, Any] = {}  # the certification's optional fields, filled as stages end
        self._stage_seconds: dict[str, float] = {}

    def wants(self, *names: str) -> bool:
        """Say whether one of these is to be looked at."""
        return self.options.only is None or self.options.only in names

    @property
    def _chosen(self) -> list[Example[Any]]:
        return self._examples[self.options.split]

    async def load(self) -> None:
        """Load the examples; a split that cannot be loaded is reported, the one that is looked at raises."""
        options = self.options
        for split in SPLITS:
            try:
                self._examples[split] = await load_examples(
                    self._environment,
                    split,
                    self._base_dir,
                    limit=options.examples if split == options.split else min(options.examples, OTHER_SPLIT),
                )
            except CastformError as error:
                if split == options.split:
                    raise
                self._examples[split] = []
                self._unchecked(f"{split}_split", "static", f"the {split} split was not looked at: {error}")
        known = [example.id for example in self._chosen]
        if options.example is not None and options.example not in known:
            raise UsageError(
                f"example {options.example!r} is not among the first {len(known)} of the {options.split} split",
                hint="--examples N looks at more",
            )

    def read_diagnostics(self) -> bool:
        """Return whether the environment itself reports an error."""
        self._say("diagnostics")
        found = read_diagnostics(self._environment)
        self._findings += [replace(finding, check=DIAGNOSTICS) for finding in found]
        return any(finding.level == "fault" for finding in found)

    async def read_golds(self) -> bool:
        """Read the right answers; return False when `gold` raises."""
        for example in self._chosen:
            try:
                self._golds[example.id] = read_gold(self._environment, example)
            except RuntimeError as error:
                self._findings.append(
                    Finding(
                        level="fault",
                        code="gold_raises",
                        message=str(error),
                        check=GOLD,
                        example_id=example.id,
                    )
                )
                return False
        self._golds = unwrap_golds(self._golds)
        return True

    async def probe(self) -> None:
        """Play the probes that are wanted."""
        wanted = choose_probes(self.options.only, relative=scores_groups(self._environment))
        if not wanted:
            return
        if self._is_late("probes", "the probes were not played"):
            return
        self._say("right answers and probes")
        began = time.monotonic()
        report = await run_probes(
            self._environment,
            self._chosen,
            split=self.options.split,
            weights=self.options.weights,
            seed=self.options.seed,
            timeout_seconds=self.options.timeout_seconds,
            probes=wanted,
            only_examples=None if self.options.example is None else {self.options.example},
            deadline=began + (self._deadline - began) * (1.0 if self.options.only else PROBES_SHARE),
        )
        self._stage_seconds["probes"] = time.monotonic() - began
        self._parts["probes"] = report
        if self.options.only is None:
            self._parts["rates"] = measure_rates(report)
        if self.options.only != DETERMINISM:
            self._findings += judge_probes(report)

    async def replay(self) -> None:
        """Score some of the probes' transcripts again."""
        report = self._parts.get("probes")
        if report is None or not self.wants(DETERMINISM):
            return
        if self._is_late(DETERMINISM, "nothing was scored a second time"):
            return
        self._say("scoring again")
        began = time.monotonic()
        by_id = {example.id: example for example in self._chosen}
        groups = choose_replays(self._environment, report.groups)
        work = replay_groups(
            self._environment,
            [(by_id[group.example_id], group) for group in groups],
            split=self.options.split,
            weights=self.options.weights,
            timeout_seconds=self.options.timeout_seconds,
        )
        try:
            again = await asyncio.wait_for(work, self._deadline - began)
        except TimeoutError:
            self._unchecked("no_time", DETERMINISM, "scoring a second time did not end in time")
            return
        self._stage_seconds[DETERMINISM] = time.monotonic() - began
        self._parts["replay"] = again
        self._findings += judge_replay(again)

    async def check(self) -> None:
        """Run the checks, each contained: one that fails leaves the others alone."""
        wanted = [(name, place) for name, place in CHECKS if self.wants(name)]
        if not wanted:
            return
        context = await self._make_context()
        for name, place in wanted:
            if self._is_late(name, f"the check {name} did not begin"):
                continue
            self._say(name.replace("_", " "))
            began = time.monotonic()
            try:
                function = pkgutil.resolve_name(place)
                found = await asyncio.wait_for(function(context), self._deadline - began)
            except TimeoutError:
                self._unchecked("no_time", name, f"the check {name} did not end in time")
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a check runs the author's code
                self._unchecked(
                    "check_failed", name, f"the check {name} failed itself: {describe_error(error)}"
                )
            else:
                self._findings += found
            self._stage_seconds[name] = time.monotonic() - began

    async def forecast(
        self,
        endpoint: Endpoint | None,
        version: int | None,
        on_group: Callable[[RolloutGroup], None],
        record: Callable[[Sequence[RolloutGroup]], None] | None,
    ) -> None:
        """Sample a model's groups, where there is a model."""
        if not self.wants(FORECAST):
            return
        if endpoint is None:
            self._unchecked(
                "model",
                FORECAST,
                "no model was asked, so nothing is known of signal, pass rates and lengths; name one with -m",
            )
            return
        self._say(f"{self.options.samples} samples on {len(self._chosen)} examples")
        began = time.monotonic()
        result, forecast, findings = await forecast_with_model(
            self._environment,
            self._chosen,
            endpoint=endpoint,
            version=version,
            options=self.options,
            report=self._parts.get("probes"),
            on_group=on_group,
            record=record,
        )
        self._stage_seconds[FORECAST] = time.monotonic() - began
        self._parts |= {"model": endpoint.model, "result": result, "forecast": forecast}
        self._findings += findings

    def finish(self) -> Certification:
        """Return what was found."""
        only = self.options.only
        findings = [f for f in self._findings if only is None or f.check == only]
        pin = self._loaded.with_examples(**{s: e for s, e in self._examples.items() if e}).pin
        return Certification(
            id=self._loaded.id,
            pin=pin,
            package=self._loaded.spec.factory.partition(":")[0].partition(".")[0]
            if self._loaded.spec
            else "",
            options=self.options,
            arguments=self._arguments,
            base_dir="" if self._base_dir == self._loaded.base_dir else str(self._base_dir),
            examples=len(self._chosen),
            findings=tuple(findings),
            seconds=time.monotonic() - self._began,
            stage_seconds=self._stage_seconds,
            **self._parts,
        )

    async def _make_context(self) -> CheckContext:
        arguments = self._arguments
        report = self._parts.get("probes")
        if report is None:
            rendering = await find_rendering(
                self._environment,
                self._chosen,
                self._golds,
                split=self.options.split,
                weights=self.options.weights,
                timeout_seconds=self.options.timeout_seconds,
            )
        else:
            rendering = next(r for r in RENDERINGS if r.name == report.rendering)
        return CheckContext(
            environment=self._environment,
            make_environment=lambda: load_environment(self._place, arguments).environment,
            base_dir=self._base_dir,
            examples=self._examples,
            split=self.options.split,
            golds=self._golds,
            rendering=rendering,
            weights=self.options.weights,
            seed=self.options.seed,
            timeout_seconds=self.options.timeout_seconds,
        )

    def _is_late(self, check: str, message: str) -> bool:
        late = time.monotonic() >= self._deadline
        if late:
            self._unchecked("no_time", check, f"{message}: {self.options.max_seconds:g} s were up")
        return late

    def _unchecked(self, code: str, check: str, message: str) -> None:
        self._findings.append(Finding(level="unchecked", code=code, check=check, message=message))
