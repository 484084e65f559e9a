"""Where a module's source lies: in the project that is bundled, in an installation, or elsewhere."""

from __future__ import annotations

import importlib.util
import json
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Literal
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

Origin = Literal["standard", "runtime", "installed", "declared", "local", "external", "unknown"]
"""local: below a project root. external: source that is neither there nor installed nor declared.
declared: outside the project, from a distribution that the bundle declares. runtime: always there."""

RUNTIME_PACKAGES = ("benchmax", "castform", "cloudpickle")
PROJECT_FILE = "pyproject.toml"
_INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What belongs to a bundle."""

    roots: tuple[Path, ...]
    dependencies: tuple[str, ...] = ()
    """Declared dependencies, PEP 508."""

    def origin_of(self, name: str) -> Origin:
        """Say where a module comes from, without importing it."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in sys.builtin_module_names:
            return "standard"
        if top in RUNTIME_PACKAGES:
            return "runtime"
        file = module_file(name) or module_file(top)
        if file is None:
            return "unknown"
        if is_installed(file):
            return "installed"
        if any(root in file.parents for root in self.roots):
            return "local"
        return "declared" if self.is_declared(top, file) else "external"

    def is_declared(self, top: str, file: Path) -> bool:
        """Say whether a declared distribution brings the module."""
        names = {canonicalize_name(Requirement(text).name) for text in self.dependencies}
        return any(canonicalize_name(owner) in names for owner in distributions_of(top)) or any(
            folder in file.parents for folder in map(_editable_folder, names) if folder is not None
        )

    def relative_path(self, path: Path) -> str | None:
        """Return a path below a root as a relative POSIX path, None for any other."""
        for root in self.roots:
            if root in path.parents:
                return path.relative_to(root).as_posix()
        return None


def module_file(name: str) -> Path | None:
    """Return the file of a module, or the folder of a package without one. None where there is neither."""
    module = sys.modules.get(name)
    if isinstance(module, ModuleType):
        return file_of(module)
    if "." in name:
        return None  # looking for a submodule would import its parent
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    if spec.has_location and spec.origin:
        return Path(spec.origin).resolve()
    return next((Path(place).resolve() for place in spec.submodule_search_locations or ()), None)


def file_of(module: ModuleType) -> Path | None:
    """Return the file of an imported module, or the folder of a package without one."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return Path(file).resolve()
    return next((Path(place).resolve() for place in getattr(module, "__path__", ())), None)


def project_root(file: Path) -> Path | None:
    """Return the nearest folder above with a pyproject.toml; without one, the folder of the top package.

    None for an installed file.
    """
    if is_installed(file):
        return None
    for folder in file.parents:
        if (folder / PROJECT_FILE).is_file():
            return folder
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def is_installed(file: Path) -> bool:
    """Say whether a file belongs to an installation: site-packages, or Python's own library."""
    return any(part in _INSTALLED for part in file.parts) or any(
        folder in file.parents for folder in _python_folders()
    )


def distributions_of(top: str) -> Iterable[str]:
    """Return the names of the installed distributions that bring a top-level module."""
    return _packages_distributions().get(top, ())


@cache
def _packages_distributions() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())


@cache
def _python_folders() -> frozenset[Path]:
    paths = sysconfig.get_paths()
    return frozenset(Path(paths[key]).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def _editable_folder(distribution: str) -> Path | None:
    """Return the source folder of a distribution that is installed editable."""
    try:
        text = metadata.distribution(distribution).read_text("direct_url.json")
        url = urlsplit(json.loads(text or "{}").get("url", ""))
    except (metadata.PackageNotFoundError, ValueError, AttributeError):
        return None
    return Path(unquote(url.path)).resolve() if url.scheme == "file" else None
