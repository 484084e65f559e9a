"""What a plugin's package holds in its source folder and not in its wheel."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from castform.authoring.building import Built
from castform.authoring.project import Project
from castform.authoring.report import CheckRow, fails, passes, unchecked

CHECK = "files in the wheel"
MOST_NAMED = 10


def check_wheel_files(project: Project, built: Built) -> CheckRow:
    """Compare each package of the source folder with the wheel: whoever installs it gets the wheel alone."""
    if built.wheel is None or built.sdist is None:
        return unchecked(CHECK, "there is no wheel")
    with zipfile.ZipFile(built.wheel) as archive:
        shipped = set(archive.namelist())
    with tarfile.open(built.sdist) as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
    missing: list[str] = []
    unpacked: list[str] = []
    count = 0
    for package, place in project.packages.items():
        if place is None:
            if not any(name.startswith((f"{package}/", f"{package}.py")) for name in shipped):
                return fails(
                    CHECK, f"the entry point names {package}, which is neither in the source nor in the wheel"
                )
            continue
        source = built.source / place.relative_to(project.folder)
        for name in list_package_files(source):
            count += 1
            path = f"{package}/{name}"
            if path not in shipped:
                missing.append(path)
                if (source / name).relative_to(built.source).as_posix() not in packed:
                    unpacked.append(path)
    if not missing:
        return passes(CHECK, f"all {count} files of the package")
    named = ", ".join(missing[:MOST_NAMED]) + (
        f" and {len(missing) - MOST_NAMED} more" if missing[MOST_NAMED:] else ""
    )
    lost = "the sdist" if unpacked else "the wheel"
    return fails(
        CHECK,
        f"{len(missing)} of {count} files are lost in {lost}: {named}",
        hint=suggest_lines(project.backend, missing),
        details=missing[MOST_NAMED:],
    )


def list_package_files(package: Path) -> list[str]:
    """Return the files of a package, below it; what begins with a dot is nobody's data."""
    found = (path.relative_to(package) for path in sorted(package.rglob("*")) if path.is_file())
    return [
        path.as_posix()
        for path in found
        if not any(part.startswith(".") or part == "__pycache__" for part in path.parts)
        and path.suffix not in (".pyc", ".pyo", ".so", ".pyd")
    ]


def suggest_lines(backend: str, missing: Sequence[str]) -> str:
    """Return what to add to pyproject.toml so that these files of packages are packed."""
    patterns = list(dict.fromkeys(_make_pattern(PurePosixPath(name)) for name in missing))
    if backend == "hatchling":
        texts = ", ".join(f'"{pattern}"' for pattern in patterns)
        return f"in pyproject.toml: [tool.hatch.build] artifacts = [{texts}]"
    if backend == "setuptools":
        by_package: dict[str, list[str]] = {}
        for pattern in patterns:
            package, _, rest = pattern.partition("/")
            by_package.setdefault(package, []).append(f'"{rest}"')
        lines = "; ".join(f"{package} = [{', '.join(rest)}]" for package, rest in by_package.items())
        return f"in pyproject.toml: [tool.setuptools.package-data] {lines}"
    return f"tell {backend} to put {', '.join(patterns)} into the sdist and the wheel; see its documentation"


def _make_pattern(path: PurePosixPath) -> str:
    return str(path.with_name(f"*{path.suffix}")) if path.suffix else str(path)
