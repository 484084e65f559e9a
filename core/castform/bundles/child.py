"""The bundle's own process: load it, look at what it is, write a report. Started by `trial`.

Everything here runs beside code of the bundle's maker. The report is as honest as that
code; what matters is that none of it runs in the host.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmax.bundle import load_bundle, read_bundle
from benchmax.envs import Environment, Example
from castform.bundles.report import (
    MAX_PAYLOAD_CHARACTERS,
    RolloutReport,
    SplitReport,
    TrialOptions,
    TrialReport,
)

BUNDLE, REQUEST, REPORT, STAGE, DATA = "bundle", "request.json", "report.json", "stage", "data"
"""Names in the work folder that host and child share."""
SPLITS = ("train", "eval")
_ROLLOUT_TIMEOUT_SECONDS = 60.0


def main(work: Path) -> None:
    """Try the bundle in a work folder and write the report there."""
    request = json.loads((work / REQUEST).read_text(encoding="utf-8"))
    digest = request.pop("digest")
    report = _Trial(work, digest, TrialOptions(**request)).run()
    part = work / f"{REPORT}.part"
    part.write_text(json.dumps(asdict(report), default=str), encoding="utf-8")
    part.replace(work / REPORT)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that the environment started would keep the process


class _Trial:
    def __init__(self, work: Path, digest: str, options: TrialOptions) -> None:
        self.work = work
        self.digest = digest
        self.options = options
        self.stage = "load"
        self.found: dict[str, Any] = {"python_version": platform.python_version()}  # fields of TrialReport

    def run(self) -> TrialReport:
        try:
            self.look()
        except BaseException as error:  # noqa: BLE001  (the bundle's code may raise anything, SystemExit too)
            self.found |= {"failed_stage": self.stage, "error": f"{_STAGES[self.stage]}: {describe(error)}"}
        return TrialReport(**self.found)

    def enter(self, stage: str) -> None:
        self.stage = stage
        (self.work / STAGE).write_text(stage, encoding="utf-8")

    def look(self) -> None:
        self.enter("load")
        bundle = read_bundle(self.work / BUNDLE)
        folder = self.work / DATA
        loaded = load_bundle(bundle, instantiate=False, digest=self.digest, data_folder=folder)
        assert isinstance(loaded, tuple)
        env_class, args = loaded
        self.found["class_name"] = f"{env_class.__module__}.{env_class.__qualname__}"
        base_dir = folder / bundle.data.base
        os.chdir(base_dir)
        self.enter("make")
        environment = env_class(**args)
        self.enter("diagnostics")
        self.found["diagnostics"] = [
            {key: None if value is None else str(value) for key, value in asdict(diagnostic).items()}
            for diagnostic in environment.validation_diagnostics()
        ]
        asyncio.run(self.run_environment(environment, base_dir))

    async def run_environment(self, environment: Environment[Any, Any], base_dir: Path) -> None:
        try:
            self.enter("dataset")
            heads = [await _read_split(environment, s, base_dir, self.options.examples) for s in SPLITS]
            self.found["splits"] = [report for report, _ in heads]
            first = next(((r.split, examples[0]) for r, examples in heads if examples), None)
            if self.options.rollout and first is not None:
                self.enter("rollout")
                self.found["rollout"] = await _play(environment, *first)
        finally:
            await environment.aclose()


_STAGES = {
    "load": "it cannot be loaded",
    "make": "its constructor failed",
    "diagnostics": "validation_diagnostics failed",
    "dataset": "create_dataset failed",
    "rollout": "the rollout failed",
}


def describe(error: BaseException) -> str:
    """Return an error as one line, of bounded length."""
    if isinstance(error, SystemExit):
        return f"it called sys.exit({error.code!r})"[:MAX_PAYLOAD_CHARACTERS]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:MAX_PAYLOAD_CHARACTERS]


async def _read_split(
    environment: Environment[Any, Any], split: Any, base_dir: Path, limit: int
) -> tuple[SplitReport, Sequence[Example[Any]]]:
    from castform.environments import load_examples
    from castform.errors import CastformError

    try:
        examples = await load_examples(environment, split, base_dir, limit=limit)
    except CastformError as error:
        return SplitReport(split=split, examples=(), error=str(error)[:MAX_PAYLOAD_CHARACTERS]), ()
    shown = [{"id": example.id, "payload": _preview(example.payload)} for example in examples]
    return SplitReport(split=split, examples=shown), examples


def _preview(payload: object) -> str:
    try:
        text = json.dumps(payload, ensure_ascii=False, default=str, skipkeys=True)
    except (ValueError, TypeError, RecursionError):  # a payload may be anything
        text = f"<{type(payload).__name__}>"
    return text if len(text) <= MAX_PAYLOAD_CHARACTERS else f"{text[:MAX_PAYLOAD_CHARACTERS]}…"


async def _play(environment: Environment[Any, Any], split: Any, example: Example[Any]) -> RolloutReport:
    from castform.gold import RENDERINGS, gold_script, read_gold
    from castform.playback import Playback

    gold = read_gold(environment, example)
    script = (lambda _: "ok") if gold is None else gold_script(gold, RENDERINGS[0])
    async with Playback() as playback:
        group = await playback.play(
            environment,
            example,
            [script],
            group_id="bundle-trial",
            split=split,
            weights={},
            timeout_seconds=_ROLLOUT_TIMEOUT_SECONDS,
        )
    [rollout] = group.rollouts
    return RolloutReport(
        example_id=example.id,
        answer="ok" if gold is None else "right",
        termination_reason=rollout.termination_reason,
        rewards=dict(rollout.rewards),
        error=rollout.error,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
