"""What an exported task brings to score with: the modules that scoring imports, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.errors import RunFailedError, UsageError

PROBE_TIMEOUT_SECONDS = 300
MAX_LIBRARY_BYTES = 64 << 20
COMPILED = (".so", ".pyd", ".dylib")


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What scoring said, and what it imported."""

    scores: Sequence[Sequence[Mapping[str, float]]]
    """By example, then by reply."""
    modules: Mapping[str, Path]
    """By name, those beyond the standard library."""
    standard: Mapping[str, Path]
    """By name, those of the standard library."""
    weights: Mapping[str, float]

    @property
    def is_compiled(self) -> bool:
        """Whether the library fits one version of Python alone."""
        return any(path.name.endswith(COMPILED) for path in self.modules.values())


def probe_scoring(
    environment: Mapping[str, Any],
    paths: Sequence[str],
    examples: Sequence[Any],
    replies: Sequence[Sequence[str]],
) -> Probe:
    """Score replies in a process of its own, without a model and with no keys in its environment.

    UsageError: the environment's reward cannot be computed like that, with what it said.
    """
    request = {"environment": environment, "paths": list(paths), "examples": examples, "replies": replies}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "castform_harbor.export_probe"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_SECONDS,
            env={name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"scoring the right answers of {len(examples)} examples took longer than {PROBE_TIMEOUT_SECONDS} s",
            hint="export fewer: --limit N",
        ) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise UsageError(
            f"the environment's reward cannot be computed away from it: {last}",
            hint="what is exported scores offline: no judge, no model, no service",
        )
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    modules = {name: Path(file) for name, file in answer["modules"].items()}
    standard = {name: path for name, path in modules.items() if _is_standard(path)}
    before = set(answer["before"])
    return Probe(
        scores=answer["scores"],
        modules={name: path for name, path in modules.items() if name not in standard.keys() | before},
        standard=standard,
        weights=answer["weights"],
    )


def write_standard_library(probe: Probe, folder: Path) -> None:
    """Copy what scoring imports of the standard library, for images whose Python is a minimal one."""
    _copy_all({_place_of(name, path): path for name, path in probe.standard.items()}, folder)


def write_library(probe: Probe, folder: Path) -> None:
    """Copy the modules to a folder from which they can be imported, with the data files of their packages.

    UsageError: they hold more than 64 MiB.
    """
    places = {_place_of(name, path): path for name, path in probe.modules.items()}
    places |= _find_data(probe.modules)
    size = sum(path.stat().st_size for path in places.values())
    if size > MAX_LIBRARY_BYTES:
        raise UsageError(
            f"scoring imports {size >> 20} MiB of modules, too much for every task to carry",
            hint="an environment with a lighter reward can be exported",
        )
    _copy_all(places, folder)


def _copy_all(places: Mapping[str, Path], folder: Path) -> None:
    for place, path in places.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def link_library(library: Path, target: Path) -> None:
    """Give a task the library by hard links, or by copies where there are none."""

    def link(source: str, destination: str) -> str:
        try:
            os.link(source, destination)
        except OSError:
            shutil.copyfile(source, destination)
        return destination

    shutil.copytree(library, target, copy_function=link)


def check_scorer(tests: Path, answer: Path, expected: float) -> None:
    """Run a written scorer as the task will: only its own library. RunFailedError: it says something else."""
    output = answer.with_name("reward.json")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(tests / "score.py"), str(answer), str(output)],
        capture_output=True,
        text=True,
        timeout=PROBE_TIMEOUT_SECONDS,
        check=False,
    )
    found = json.loads(output.read_text())["reward"] if output.is_file() else None
    if done.returncode or found != expected:
        raise RunFailedError(
            f"the exported scorer gives {found}, not {expected}: {done.stderr.strip()[-500:] or 'no error'}"
        )


def _place_of(name: str, path: Path) -> str:
    """Return where a module lies in a library: `a.b` is a/b.py, or a/b/__init__.py for a package."""
    base = name.replace(".", "/")
    if path.stem == "__init__":
        return f"{base}/{path.name}"
    return f"{base.rpartition('/')[0]}/{path.name}".lstrip("/")


def _find_data(modules: Mapping[str, Path]) -> dict[str, Path]:
    """Return files that are no Python, of packages that are not installed by others: an author's tables."""
    found = {}
    for name, path in modules.items():
        if (
            path.name != "__init__.py"
            or "." in name
            or name in ("benchmax", "castform")
            or _is_installed(path)
        ):
            continue
        for file in path.parent.rglob("*"):
            inside = file.relative_to(path.parent)
            if file.is_file() and file.suffix not in (".py", ".pyc") and "__pycache__" not in inside.parts:
                found[f"{name}/{inside.as_posix()}"] = file
    return found


def _is_installed(path: Path) -> bool:
    return "site-packages" in path.parts and path.parent.name in ("pydantic", "pydantic_core")


def _is_standard(path: Path) -> bool:
    standard = Path(sysconfig.get_paths()["stdlib"])
    return path.is_relative_to(standard) and "site-packages" not in path.parts
