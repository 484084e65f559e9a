"""Read what the real harbor left of a job: every result that is whole, and why the others are none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmax.envs.harbor.reasons import GRADED_AGENT_FAILURES, find_failure

MAX_RESULT_BYTES = 64 << 20
CANCELLED = "CancelledError"


@dataclass(frozen=True, kw_only=True, slots=True)
class RealTrial:
    """One attempt by the real harbor."""

    task: Path
    trial_dir: Path | None = None
    rewards: Mapping[str, float] | None = None
    """None: there is no verdict, or none that can be trusted."""
    exception_type: str | None = None
    exception_message: str = ""
    problem: str | None = None
    """Why there is no result at all: infrastructure, and no word about the agent."""
    document: Mapping[str, Any] = field(default_factory=dict)  # Any: Harbor's result.json

    @property
    def is_finished(self) -> bool:
        """Whether it ran to its own end."""
        return self.problem is None and self.exception_type != CANCELLED


def read_job(job: Path, tasks: Sequence[Path]) -> dict[Path, list[RealTrial]]:
    """Return the trials of each task, in the order of the tasks; a task without one has an empty list."""
    found: dict[Path, list[RealTrial]] = {task.resolve(): [] for task in tasks}
    for folder in sorted(path for path in job.glob("*/") if (path / "config.json").is_file()):
        trial = read_trial(folder)
        if trial is not None and trial.task.resolve() in found:
            found[trial.task.resolve()].append(trial)
    return found


def read_trial(folder: Path) -> RealTrial | None:
    """Return a trial from its folder; None where not even its config tells which task it was of.

    A result.json that is missing, empty, cut short or of another shape is a `problem`. An exception of
    a step counts like the trial's own, and one that is not the agent's doing takes the reward away.
    """
    config, _ = _read_json(folder / "config.json")
    source = config.get("task")
    path = source.get("path") if isinstance(source, dict) else None
    if not isinstance(path, str):
        return None
    task = Path(path)
    document, problem = _read_json(folder / "result.json")
    verdict = document.get("verifier_result")
    rewards = verdict.get("rewards") if isinstance(verdict, dict) else None
    if problem is None and not _are_rewards(rewards):
        problem = f"has rewards that are none: {str(rewards)[:200]}"
    if problem is not None:
        return RealTrial(task=task, trial_dir=folder, problem=f"result.json {problem}")
    failure = find_failure(document)
    name = None if failure is None else str(failure["exception_type"])
    return RealTrial(
        task=task,
        trial_dir=folder,
        rewards=(rewards or None) if name is None or name in GRADED_AGENT_FAILURES else None,
        exception_type=name,
        exception_message=str(failure.get("exception_message") or "") if failure else "",
        document=document,
    )


def _are_rewards(value: object) -> bool:
    return value is None or (
        isinstance(value, dict) and all(isinstance(each, (int, float)) for each in value.values())
    )


def _read_json(path: Path) -> tuple[dict[str, Any], str | None]:
    try:
        if path.stat().st_size > MAX_RESULT_BYTES:
            return {}, "is larger than any result"
        text = path.read_text(encoding="utf-8")
        value = json.loads(text) if text.strip() else None
    except FileNotFoundError:
        return {}, "is missing"
    except OSError as error:
        return {}, f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        return {}, "is cut short or no JSON"
    return (value, None) if isinstance(value, dict) else ({}, "is empty or no object")
