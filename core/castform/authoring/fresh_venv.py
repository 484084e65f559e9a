"""A virtual environment that holds castform, one plugin and what the plugin declares."""

from __future__ import annotations

import importlib.util
import os
import sys
import venv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from castform.bundles.bounded_process import Finished, environ_without_python, run_bounded
from castform.bundles.runtime_links import distribution_entries, runtime_entries, runtime_versions
from castform.errors import MissingError
from castform.isolation.installers import ConflictError, choose_resolver, run_pip, run_uv
from castform.plugins.catalog import CORE

TEST_EXTRA = "test"
"""castform's own extra with which plugins are tested."""
_DROPPED = ("CASTFORM_PLUGINS", "CASTFORM_HOME", "VIRTUAL_ENV")


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshVenv:
    """A new virtual environment. castform and what it needs are linked into it, not installed."""

    folder: Path
    python: Path
    tools: Path
    """Links to pytest and what else tests are run with. On the path of tests only: a plugin that imports one
    of them without declaring it is found out."""

    def environ(self, *, with_tools: bool = False) -> dict[str, str]:
        """Return the environment variables of a process in it."""
        kept = {name: value for name, value in environ_without_python().items() if name not in _DROPPED}
        kept["PATH"] = os.pathsep.join([str(self.python.parent), kept.get("PATH", os.defpath)])
        kept["CASTFORM_HOME"] = str(self.folder / "castform-home")
        if with_tools:
            kept["PYTHONPATH"] = str(self.tools)
        return kept

    def run(
        self, words: Sequence[str], *, cwd: Path, timeout_seconds: float, with_tools: bool = False
    ) -> Finished:
        """Run its Python; what lies in `cwd` is not importable by that."""
        return run_bounded(
            [str(self.python), "-P", *words],
            cwd=cwd,
            env=self.environ(with_tools=with_tools),
            timeout_seconds=timeout_seconds,
        )


def make_fresh_venv(folder: Path, *, tools: Sequence[str] = ()) -> FreshVenv:
    """Make a virtual environment of this Python at `folder`, which does not exist yet.

    `tools` are requirements that tests may use besides: of those that are installed here.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    runtime, tools_folder = folder / "castform-runtime", folder / "castform-test-tools"
    linked = runtime_entries()
    _link(linked, runtime)
    _link({name: place for name, place in _tool_entries(tools).items() if name not in linked}, tools_folder)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "castform-runtime.pth").write_text(
        f"{runtime}\n", encoding="utf-8"
    )
    return FreshVenv(folder=folder, python=folder / "bin" / "python", tools=tools_folder)


def find_missing_tools() -> list[str]:
    """Return what castform's test extra needs and this environment lacks."""
    from castform.plugins.requirements import find_missing

    return find_missing(CORE, TEST_EXTRA) or []


def install_wheel(fresh: FreshVenv, wheel: Path) -> list[str]:
    """Install a wheel and what it requires; return the requirements that castform does not bring.

    ConflictError when it requires another version of something that castform needs,
    MissingError when something cannot be installed.
    """
    wanted = install_requirements(fresh, read_requirements(wheel))
    _install(fresh, ["--no-deps", "--no-index", str(wheel)], what=wheel.name)
    return wanted


def install_requirements(fresh: FreshVenv, requirements: Iterable[Requirement]) -> list[str]:
    """Install requirements beside castform's own; errors as in `install_wheel`."""
    have = {canonicalize_name(name): version for name, version in runtime_versions().items()}
    wanted: list[str] = []
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        if name == CORE or (name in have and requirement.specifier.contains(have[name], prereleases=True)):
            continue
        if name in have:
            raise ConflictError(
                f"it requires {requirement.name}{requirement.specifier}, and castform is used with {have[name]} here",
                hint="widen the range, or tell users to install it with `castform env install --isolated`",
            )
        wanted.append(str(requirement).partition(";")[0].strip())
    if wanted:
        constraints = fresh.folder / "castform-constraints.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in have.items()))
        _install(fresh, ["-c", str(constraints), *wanted], what=", ".join(wanted))
    return wanted


def read_requirements(wheel: Path, extra: str = "") -> list[Requirement]:
    """Return what a wheel requires on this Python; with an extra, what that one adds."""
    with ZipFile(wheel) as archive:
        files = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        (name,) = [name for name in files if name.count("/") == 1]  # deeper ones are of what it vendors
        headers = HeaderParser().parsestr(archive.read(name).decode("utf-8"))
    found = [Requirement(text) for text in headers.get_all("Requires-Dist") or ()]
    if not extra:
        return [r for r in found if r.marker is None or r.marker.evaluate({"extra": ""})]
    return [
        r
        for r in found
        if r.marker is not None
        and not r.marker.evaluate({"extra": ""})
        and r.marker.evaluate({"extra": extra})
    ]


def _install(fresh: FreshVenv, words: Sequence[str], *, what: str) -> None:
    """Install with pip, which takes what is linked for installed; with uv, which does not, where there is no pip."""
    doing = f"installing {what}"
    try:
        if importlib.util.find_spec("pip") is not None:
            run_pip(["install", "--quiet", *words], doing=doing, python=fresh.python)
        elif choose_resolver("auto") == "uv":
            run_uv(["pip", "install", "--python", str(fresh.python), *words], doing=doing)
    except MissingError as error:
        raise MissingError(
            str(error.args[0]),
            hint="check names and versions in `dependencies`, and that the package index can be reached",
        ) from error


def _tool_entries(tools: Sequence[str]) -> dict[str, Path]:
    """Return what lies on the path for tests: castform's test extra and `tools`, with all that they need."""
    waiting = [*_read_test_extra(), *(Requirement(text).name for text in tools)]
    names: set[str] = set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in names:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        names.add(name)
        for text in distribution.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return distribution_entries(names)


def _read_test_extra() -> list[str]:
    try:
        texts = metadata.requires(CORE) or []
    except metadata.PackageNotFoundError:  # castform runs from a source folder
        return []
    found = [Requirement(text) for text in texts]
    return [r.name for r in found if r.marker is not None and r.marker.evaluate({"extra": TEST_EXTRA})]


def _link(entries: dict[str, Path], folder: Path) -> None:
    folder.mkdir()
    for name, place in entries.items():
        (folder / name).symlink_to(place)
