"""A runner of Harbor trials that runs nothing: each task says what its trials come to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmax.envs.harbor.trial import HarborTrial, HarborTrialResult, HarborTrialTemplate

SCRIPT = "tests/scripted_result.json"
RUNNER = "benchmax.testing.trial_runner:make_runner"


class ScriptedTrialRunner:
    """Answers a trial with the HarborTrialResult that its task's `tests/scripted_result.json` has.

    Beside a result's own fields it may hold `files`, text by path below the trial's folder.
    """

    uses_process_environment = False

    def __init__(self) -> None:
        self.trials: list[HarborTrial] = []
        self.checked: list[tuple[str, Path]] = []
        self.running = 0
        self.most_running = 0

    def check(self, template: HarborTrialTemplate, tasks: Sequence[tuple[str, Path]]) -> None:
        self.checked += tasks

    async def check_ready(self, template: HarborTrialTemplate) -> None:
        """Nothing is needed."""

    async def run(self, trial: HarborTrial) -> HarborTrialResult:
        self.trials.append(trial)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            await asyncio.sleep(0)
            script: dict[str, Any] = json.loads(await asyncio.to_thread((trial.task / SCRIPT).read_text))
            await asyncio.to_thread(self._write, trial.trial_dir, script.pop("files", {}))
        finally:
            self.running -= 1
        return HarborTrialResult(trial_dir=trial.trial_dir, **script)

    def _write(self, folder: Path, files: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)

    async def aclose(self) -> None:
        """Nothing is held."""


def make_runner() -> ScriptedTrialRunner:
    return ScriptedTrialRunner()
