"""Generated plugins, laid out as if they were installed, and sources of small ones."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from castform.authoring.new import TEMPLATES, NewPlugin, write_plugin


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NewPlugin]:
    """One plugin of every template. Not to be changed."""
    folder = tmp_path_factory.mktemp("generated")
    return {name: write_plugin(f"my-{name}", template=name, directory=folder) for name in TEMPLATES}


@pytest.fixture(scope="session")
def site(generated: dict[str, NewPlugin], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on the path where all of them are installed."""
    site = tmp_path_factory.mktemp("site")
    for new in generated.values():
        install(new.folder, site)
    sys.path.insert(0, str(site))
    yield site
    sys.path.remove(str(site))
    for name in [n for n in sys.modules if n.startswith("castform_env_my_")]:
        del sys.modules[name]


def install(folder: Path, site: Path) -> None:
    """Lay a distribution out as pip does."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    (package,) = (path for path in folder.iterdir() if (path / "__init__.py").is_file())
    shutil.copytree(package, site / package.name)
    info = site / f"{package.name}-{project['version']}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [f"Summary: {project['description']}"]
    lines += [f"Requires-Dist: {text}" for text in project["dependencies"]]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    points = [f"{name} = {module}" for name, module in project["entry-points"]["castform"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[castform]", *points]) + "\n")


@pytest.fixture
def write_source(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a plugin's source folder: its pyproject.toml, and files by name."""

    def write(pyproject: str, **files: str) -> Path:
        folder = tmp_path / "source"
        folder.mkdir()
        (folder / "pyproject.toml").write_text(pyproject)
        for name, text in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        return folder

    return write
