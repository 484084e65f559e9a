"""`castform rescore`: what would these rollouts earn in the environment as it is now?"""

from __future__ import annotations

import argparse
import secrets
from typing import TYPE_CHECKING, Any

from castform.cli.environment_pin import describe_pin
from castform.cli.model_choice import add_environment_arguments
from castform.cli.output import print_fields, print_json, print_note, print_text
from castform.cli.rescore_tables import print_result, some
from castform.errors import RunFailedError, UsageError
from castform.home import expand_home

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmax.envs import Example
    from castform.config import RunConfig
    from castform.plugins import LoadedEnvironment
    from castform.rescore_report import RescoreReport
    from castform.rollouts import RolloutGroup, Split
    from castform.runs import PinRecord, RunRecord, RunStore
    from castform.stored_groups import StoredGroup

CALLS_FILE = "calls/rescore.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("run_id", metavar="RUN", help="run id, or a unique beginning of one")
    parser.add_argument(
        "--env",
        metavar="ID",
        help="another environment: an id, a Python file or a TOML file; default: the run's own",
    )
    add_environment_arguments(parser, dest="arguments")
    parser.add_argument("--mode", help="only rollouts of this mode: train, eval, …")
    parser.add_argument("--step", type=int, help="only rollouts of this step")
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many groups, the first ones")
    parser.add_argument("--save", action="store_true", help="store the result as a run of its own")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed."""
    import asyncio

    from castform.cli.env_show import parse_arguments
    from castform.cli.measured_run import settle
    from castform.runs import RunStore

    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit is {args.limit}, but at least one group is needed")
    given = parse_arguments(args.arguments)
    with RunStore.open() as store:
        record = store.find_run(args.run_id)
        config = _choose_environment(_read_config(record), args.env, given)
        groups = _select_groups(store, record, args)
        loaded = _load(config)
        work = _Rescore(store, record, config, loaded)
        report = settle(asyncio.run, work.run(groups, save=args.save))
        if args.json:
            print_json(work.as_dict(report))
        else:
            work.show(report)
    if not report.rollouts:
        reasons = ", ".join(f"{reason} {n}" for reason, n in report.skipped.items())
        raise RunFailedError(
            f"none of {sum(report.skipped.values())} rollouts could be scored again ({reasons})"
        )
    return 0


def _read_config(record: RunRecord) -> RunConfig:
    from pydantic import ValidationError

    from castform.config import RunConfig

    try:
        return RunConfig.model_validate(record.config)
    except ValidationError as error:
        raise UsageError(
            f"the settings of run {record.run_id} are not those of this castform: {error.errors()[0]['msg']}",
            hint="was it made by a newer one?",
        ) from error


def _choose_environment(config: RunConfig, id: str | None, given: Mapping[str, Any]) -> RunConfig:
    """Return the config with the environment to score in. Another one than the run's takes none of its arguments."""
    from castform.config import replace_keys
    from castform.environment_section import EnvironmentSection

    section = config.environment
    if id is not None:
        if section.args:
            print_note("note: --env takes no arguments over from the run; -a NAME=VALUE gives them")
        kept = {"weights"} if section.is_composed else {"weights", "base_dir"}
        section = EnvironmentSection(id=id, args=dict(given), **section.model_dump(include=kept))
    else:
        section = replace_keys(section, given)
    return config.model_copy(update={"environment": section})


def _load(config: RunConfig) -> LoadedEnvironment:

    from castform.environments import load_configured
    from castform.plugins.environment_files import is_path, split_class

    id = config.environment.id
    if is_path(id) and not expand_home(split_class(id)[0]).exists():
        raise UsageError(
            f"the environment's file {id} does not exist",
            hint="a relative path starts at the present folder; --env names the file as it is now",
        )
    return load_configured(config.environment)


def _select_groups(store: RunStore, record: RunRecord, args: argparse.Namespace) -> list[StoredGroup]:
    from castform.stored_groups import group_records

    groups = group_records(store.list_rollouts(record.run_id, mode=args.mode, step=args.step))
    if not groups:
        counts = store.count_rollouts(record.run_id)
        held = ", ".join(f"{n['scored'] + n['unscored']} of mode {mode}" for mode, n in counts.items())
        raise UsageError(
            f"run {record.run_id} has no such rollouts" if held else f"run {record.run_id} has no rollouts",
            hint=f"it has {held}" if held else "`castform runs list` shows the runs",
        )
    return groups[: args.limit]


class _Rescore:
    """One run being scored again, from its examples to what is shown."""

    def __init__(
        self, store: RunStore, record: RunRecord, config: RunConfig, loaded: LoadedEnvironment
    ) -> None:
        self.store = store
        self.record = record
        self.config = config
        self.loaded = loaded
        self.saved_id: str | None = None
        self.pins: Sequence[PinRecord] = store.list_pins(record.run_id)
        self.changes: list[str] = []

    async def run(self, groups: Sequence[StoredGroup], *, save: bool) -> RescoreReport:
        from castform.environments import check_ready, close_environment

        try:
            examples = await self._load_examples(groups)
            await check_ready(self.loaded.environment)
            return await (self._run_saved if save else self._rescore)(groups, examples)
        finally:
            await close_environment(self.loaded.environment)

    async def _load_examples(self, groups: Sequence[StoredGroup]) -> dict[tuple[str, str], Example[Any]]:
        """Load the splits that the rollouts are of, as far as the run read them, and pin them."""
        from castform.cli.measured_run import base_folder
        from castform.environments import load_examples

        environment, base_dir = self.loaded.environment, base_folder(self.config, self.loaded)
        splits: dict[Split, bool] = {}  # whether the run read the whole split
        for group in groups:
            splits[group.split] = splits.get(group.split, False) or group.mode == "train"
        loaded: dict[str, Sequence[Example[Any]]] = {}
        found: dict[tuple[str, str], Example[Any]] = {}
        for split, whole in splits.items():
            limit = None if whole else self.config.eval.examples
            loaded[split] = await load_examples(environment, split, base_dir, limit=limit)
            known = {example.id: example for example in loaded[split]}
            wanted = {group.example_id for group in groups if group.split == split}
            if limit is not None and not wanted <= set(known):  # in another order, it may hold them later
                rest = await load_examples(environment, split, base_dir)
                known = {**{example.id: example for example in rest}, **known}
            found |= {(split, id): known[id] for id in wanted & set(known)}
        self.loaded = self.loaded.with_examples(**loaded)
        self.changes = self._describe_changes(loaded)
        return found

    def _describe_changes(self, examples: Mapping[str, Sequence[Example[Any]]]) -> list[str]:
        from castform.plugins.pin_changes import describe_changes

        if not self.pins:
            return []
        last = self.pins[-1]
        return describe_changes(last.pin, self.loaded.pin, details=last.details, examples=examples)

    async def _rescore(
        self,
        groups: Sequence[StoredGroup],
        examples: Mapping[tuple[str, str], Example[Any]],
        keep: Callable[[StoredGroup, RolloutGroup], None] = lambda stored, again: None,
    ) -> RescoreReport:
        from castform.cli.group_progress import GroupProgress
        from castform.rescore import RescoreOptions, rescore
        from castform.stored_groups import StoredCalls

        limits = self.config.rl
        with GroupProgress(len(groups)) as progress:

            def on_group(stored: StoredGroup, again: RolloutGroup) -> None:
                keep(stored, again)
                progress.add(again)

            return await rescore(
                self.loaded.environment,
                groups,
                examples=examples,
                read_calls=StoredCalls(self.store, self.record).read,
                options=RescoreOptions(
                    weights=self.config.environment.weights,
                    timeout_seconds=limits.rollout_timeout_seconds,
                    concurrency=limits.max_concurrent_rollouts,
                    seed=self.config.run.seed,
                ),
                on_group=on_group,
            )

    async def _run_saved(
        self, groups: Sequence[StoredGroup], examples: Mapping[tuple[str, str], Example[Any]]
    ) -> RescoreReport:
        """Rescore as a run of its own, which keeps the rollouts, their calls and the report."""
        from castform.call_log import append_calls
        from castform.cli.measured_run import stop_on_sigterm
        from castform.runs import hold_run_folder, run_folder

        self.saved_id = run_id = secrets.token_hex(5)
        with hold_run_folder(run_folder(self.store.home, run_id)) as folder, stop_on_sigterm():
            (folder / CALLS_FILE).parent.mkdir()
            self.store.create_run(
                kind="rescore",
                name=f"{self.record.name} in {self.loaded.id}",
                config=self.config.model_dump(mode="json"),
                environment=self.loaded.pin,
                run_id=run_id,
                parent_id=self.record.run_id,
            )

            def keep(stored: StoredGroup, again: RolloutGroup) -> None:
                append_calls(folder / CALLS_FILE, (call for r in again.rollouts for call in r.calls))
                self.store.add_rollouts(
                    run_id, [again], mode=stored.mode, step=stored.step, calls_path=CALLS_FILE
                )

            with self.store.running(run_id):
                report = await self._rescore(groups, examples, keep)
                self.store.add_eval(run_id, "rescore", step=0, result=report.as_dict())
                return report

    def as_dict(self, report: RescoreReport) -> dict[str, Any]:
        return {
            "run_id": self.record.run_id,
            "saved_run_id": self.saved_id,
            "scored_by": [{"digest": pin.digest, **pin.pin} for pin in self.pins],
            "rescored_by": {"digest": self.loaded.pin.digest(), **self.loaded.pin.as_dict()},
            "environment_changes": self.changes,
            **report.as_dict(),
        }

    def show(self, report: RescoreReport) -> None:
        """Write the pins, the counts, the components and the examples that changed most."""
        fields: dict[str, object] = {"run": f"{self.record.run_id} ({self.record.kind})"}
        for pin in self.pins:
            fields.setdefault("scored by", describe_pin(pin.pin))
        if len(self.pins) > 1:
            fields["and lastly by"] = describe_pin(self.pins[-1].pin)
        fields["now by"] = describe_pin(self.loaded.pin.as_dict())
        print_fields(fields)
        for line in self.changes:
            print_text(f"  {line}")
        if self.pins and not self.changes:
            print_text("  the environment is the same")
        print_text()
        if report.rollouts:
            print_result(report)
        for reason, count in report.skipped.items():
            print_text(f"skipped {count}: {reason}")
        if report.missing_examples:
            print_text(f"missing examples: {some(report.missing_examples)}")
        if report.diverged:
            print_text(
                f"{len(report.diverged)} conversations went elsewhere, so their replies may not fit: "
                f"{some(report.diverged)}"
            )
        if self.saved_id is not None:
            print_text(f"saved as run {self.saved_id}")
