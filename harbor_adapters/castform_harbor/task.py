"""One Harbor task: a folder that was read and checked, today's schema or an older one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.errors import UsageError
from castform_harbor.task_config import StepConfig, TaskConfig, VerifierConfig, resolve_verifier_mode
from castform_harbor.task_files import COMPOSE_FILE, LeavesOut, check_inside, hash_task, make_ignore
from castform_harbor.task_parsing import find_name_problem, parse_task

_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class HarborTask:
    """A task as it was read. Its files are looked at again when it runs."""

    name: str
    """`org/name` where task.toml has one, else the folder's name."""
    folder: Path
    """Absolute."""
    digest: str
    """`sha256:…` of the content, as Harbor's lock.json has it."""
    config: TaskConfig
    instruction: str
    """Without canary lines; empty for a task of several steps."""
    step_instructions: Mapping[str, str]
    """By step, without canary lines; empty for a task of one."""
    trajectory: Mapping[str, Any] | None = None  # Any: ATIF
    """What was said before the agent starts."""
    step_trajectories: Mapping[str, Mapping[str, Any]]
    warnings: tuple[str, ...] = ()
    """What is odd about task.toml: unknown keys, older ones."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def steps(self) -> tuple[StepConfig, ...]:
        return self.config.steps

    @property
    def tests(self) -> Path:
        return self.folder / "tests"

    @property
    def environment(self) -> Path:
        return self.folder / "environment"

    def step_folder(self, name: str) -> Path:
        return self.folder / "steps" / name

    def solution(self, step: str | None = None) -> Path | None:
        """The folder whose solve.sh solves the task, or that step of it."""
        own = self.step_folder(step) / "solution" if step else None
        for folder in [own, self.folder / "solution"]:
            if folder is not None and (folder / "solve.sh").is_file():
                return folder
        return None

    def leaves_out(self) -> LeavesOut:
        """Return what says whether .harborignore leaves a path out."""
        return make_ignore(self.folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifierImage:
    """What a separate verifier's box is made of."""

    docker_image: str | None
    context: Path | None
    """A folder with a Dockerfile."""
    holds_tests: bool
    """The image brings /tests itself; else the task's tests are uploaded."""


def load_task(path: Path | str) -> HarborTask:
    """Read a task's folder. UsageError lists what is wrong with it; nothing is started."""
    folder = Path(path).expanduser().resolve()
    file = folder / "task.toml"
    if not file.is_file():
        raise UsageError(
            f"{folder} is no Harbor task: it has no task.toml", hint="name the folder that holds task.toml"
        )
    leaves_out = make_ignore(folder)
    config, warnings = _check_task(file, leaves_out)
    steps = {step.name: folder / "steps" / step.name for step in config.steps}
    return HarborTask(
        name=config.name or folder.name,
        folder=folder,
        digest=hash_task(folder, leaves_out),
        config=config,
        instruction="" if steps else strip_canary(_read_text(folder / "instruction.md")),
        step_instructions={
            name: strip_canary(_read_text(place / "instruction.md")) for name, place in steps.items()
        },
        trajectory=None if steps else _read_trajectory(folder / "trajectory.json"),
        step_trajectories={
            name: found
            for name, place in steps.items()
            if (found := _read_trajectory(place / "trajectory.json")) is not None
        },
        warnings=warnings,
    )


def _check_task(file: Path, leaves_out: LeavesOut) -> tuple[TaskConfig, tuple[str, ...]]:
    """Return what task.toml says and what is odd about it. UsageError: all that is wrong with the task."""
    folder = file.parent
    config, warnings, fault = parse_task(_read_text(file), where=str(file))
    errors = [] if fault is None else [fault]
    checks: list[Callable[[], None]] = [
        lambda: check_inside(folder, leaves_out),
        lambda: _check_files(folder, config, leaves_out),
    ]
    for check in checks:
        try:
            check()
        except UsageError as error:
            errors.append(error)
    if errors or config is None:
        told = dict.fromkeys(str(error) for error in errors)  # both meet a broken .harborignore
        raise UsageError("\n  ".join(told), hint=errors[0].hint) from errors[0]
    return config, warnings


def strip_canary(text: str) -> str:
    """Return an instruction without the canary comments it begins with, and the blank lines after them."""
    lines = text.split("\n")
    while lines and _CANARY.fullmatch(lines[0].strip()):
        del lines[0]
    while lines and not lines[0].strip():
        del lines[0]
    return "\n".join(lines)


def find_verifier_image(folder: Path, config: TaskConfig, step: StepConfig | None) -> VerifierImage:
    """Say what a separate verifier runs in.

    An image that is named, else a Dockerfile beside the tests, the step's before the task's: both
    hold the tests. Else the agent's own image, into which the tests are uploaded.
    """
    places: list[tuple[VerifierConfig, Path]] = [(config.verifier, folder / "tests")]
    if step is not None:
        places.insert(0, (step.verifier, folder / "steps" / step.name / "tests"))
    for verifier, tests in places:
        if verifier.environment is not None and verifier.environment.docker_image:
            return VerifierImage(
                docker_image=verifier.environment.docker_image, context=None, holds_tests=True
            )
        if (tests / "Dockerfile").is_file() or (tests / COMPOSE_FILE).is_file():
            return VerifierImage(docker_image=None, context=tests, holds_tests=True)
    return VerifierImage(
        docker_image=config.environment.docker_image, context=folder / "environment", holds_tests=False
    )


def _check_files(folder: Path, config: TaskConfig | None, leaves_out: LeavesOut) -> None:
    """Check that a task has its files; those of steps with an unusable name are not looked for.

    `config`: None where task.toml cannot be read. UsageError lists what is missing.
    """
    faults = []
    steps: Sequence[StepConfig | None] = (None,)
    if config is None and (folder / "steps").is_dir():
        steps = ()
    elif config is not None:
        if config.steps:
            steps = [step for step in config.steps if not find_name_problem(step.name)]
        if config.environment.docker_image is None and not (folder / "environment").is_dir():
            faults.append("has neither environment/ nor [environment].docker_image")
    for step in steps:
        instruction = f"steps/{step.name}/instruction.md" if step else "instruction.md"
        if not (folder / instruction).is_file():
            faults.append(f"has no {instruction}")
    for step in steps:
        script = "test.bat" if config and config.environment.os == "windows" else "test.sh"
        separate = config is not None and resolve_verifier_mode(config, step) == "separate"
        if config and separate and find_verifier_image(folder, config, step).holds_tests:
            continue
        places = [folder / "tests"]
        if step is not None:
            places.insert(0, folder / "steps" / step.name / "tests")
        if not any((place / script).is_file() and not leaves_out(place / script) for place in places):
            whose = f" for step {step.name}" if step else ""
            faults.append(f"has no tests/{script}{whose}, or .harborignore leaves it out")
    if faults:
        raise UsageError(
            f"{folder} is no whole Harbor task: it {'; it '.join(faults)}",
            hint="docs/harbor.md shows what a task is made of",
        )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8") from error


def _read_trajectory(path: Path) -> Mapping[str, Any] | None:
    if not path.is_file():
        return None
    try:
        found = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no ATIF trajectory: it holds no object")
    return found
