"""Install copies of tests/plugins_broken into a folder on the path, the way pip lays them out."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from castform.plugins import load_registry

BROKEN = Path(__file__).parents[2] / "plugins_broken"


def install_folder(source: Path, target: Path) -> None:
    """Copy a distribution's package and write its metadata."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    (package,) = (p for p in source.iterdir() if p.is_dir() and p.name.startswith("castform_env_"))
    shutil.copytree(package, target / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    info = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
    ]
    lines += [f"Requires-Dist: {text}" for text in project.get("dependencies", [])]
    for extra, texts in project.get("optional-dependencies", {}).items():
        lines += [f"Provides-Extra: {extra}"]
        lines += [f'Requires-Dist: {text}; extra == "{extra}"' for text in texts]
    (info / "METADATA").write_text("\n".join(lines) + "\n\nName: not-a-header\n")
    points = project["entry-points"]["castform"]
    text = "\n".join(
        ["[console_scripts]", "x = y:z", "", "[castform]", *(f"{k} = {v}" for k, v in points.items())]
    )
    (info / "entry_points.txt").write_text(text + "\n")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Return a function that installs folders of tests/plugins_broken; they are importable until the test ends."""
    site = tmp_path / "site"
    site.mkdir()
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delenv("CASTFORM_PLUGINS", raising=False)

    def install_all(*folders: str) -> Path:
        for folder in folders:
            install_folder(BROKEN / folder, site)
        importlib.invalidate_caches()
        return site

    yield install_all
    for name in set(sys.modules) - before:
        if name.startswith("castform_env_"):
            del sys.modules[name]


@pytest.fixture
def registry(install: Callable[..., Path]):
    """Return a function that installs folders and gives a registry of them and nothing else."""

    def make(*folders: str):
        return load_registry([str(install(*folders))])

    return make


@pytest.fixture
def castform(install: Callable[..., Path], tmp_path: Path):
    """Return a function that runs the command line in a fresh process with a home of its own.

    The installed folders are found there.
    """

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "castform", *words],
            env={
                **os.environ,
                "PYTHONPATH": str(install()),
                "CASTFORM_HOME": str(tmp_path / "castform-home"),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run
