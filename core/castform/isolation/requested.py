"""What `castform env install` is asked for: a requirement, a wheel, or the folder of a plugin."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from castform.errors import UsageError
from castform.home import expand_home
from castform.plugins.content import hash_file

_BUILT = {"__pycache__", "build", "dist", "node_modules"}
_FORMS = "give a requirement (castform-env-x, castform-env-x==1.2), a wheel, or a plugin's folder"


@dataclass(frozen=True, kw_only=True, slots=True)
class Requested:
    """One distribution to install."""

    text: str
    """As it was asked for."""
    distribution: str
    """Its name in normal form."""
    path: Path | None = None
    """The wheel, source archive or folder; None for what an index has."""
    content: str = ""
    """Hash of the wheel or of the folder's files."""

    @property
    def is_folder(self) -> bool:
        return self.path is not None and self.path.is_dir()


def read_requested(text: str) -> Requested:
    """Take what was asked for apart. Raises UsageError for what is no requirement, wheel or folder."""
    if text.startswith(("http://", "https://", "file://")):
        name = text.rpartition("/")[2].partition("-")[0].replace("_", "-") or "castform-env-x"
        raise UsageError(
            f"{text} is an address without a name", hint=f"'{name} @ {text}' names what is there"
        )
    path = expand_home(text)
    if text.strip() and path.is_dir():
        return _read_folder(text, path.resolve())
    if text.endswith((".whl", ".tar.gz")) and "@" not in text:
        return _read_archive(text, path)
    if text.startswith((".", "~", "/")):
        raise UsageError(f"{text} does not exist", hint=_FORMS)
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(
            f"{text!r} is not a requirement: {str(error).splitlines()[0]}", hint=_FORMS
        ) from error
    if requirement.url and requirement.url.startswith(("git+", "hg+", "svn+", "bzr+")):
        raise UsageError(
            f"{text!r} is a repository, which has no hash to lock",
            hint="clone it and give its folder",
        )
    if canonicalize_name(requirement.name) == "castform":
        raise UsageError(f"{text!r} is castform itself, which every environment has", hint=_FORMS)
    return Requested(text=text, distribution=canonicalize_name(requirement.name))


def _read_folder(text: str, path: Path) -> Requested:
    project = path / "pyproject.toml"
    try:
        name = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["name"]
    except FileNotFoundError:
        raise UsageError(f"{text} has no pyproject.toml", hint=_FORMS) from None
    except (KeyError, TypeError):
        raise UsageError(
            f"{project} names no [project].name", hint="a plugin is a distribution with a name"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{project} is not valid TOML: {error}") from error
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        inside = file.relative_to(path)
        if file.is_file() and not any(part in _BUILT or part.startswith(".") for part in inside.parts):
            digest.update(f"{inside.as_posix()}\0{hash_file(file)}\n".encode())
    return Requested(
        text=text, distribution=canonicalize_name(str(name)), path=path, content=digest.hexdigest()
    )


def _read_archive(text: str, path: Path) -> Requested:
    if not path.is_file():
        raise UsageError(f"{text} does not exist", hint=_FORMS)
    if path.suffix == ".whl":
        try:
            name = str(parse_wheel_filename(path.name)[0])
        except InvalidWheelFilename as error:
            raise UsageError(f"{path.name} is not a wheel's name: {error}") from error
    else:
        name = canonicalize_name(path.name.removesuffix(".tar.gz").rpartition("-")[0])
    return Requested(text=text, distribution=name, path=path.resolve(), content=hash_file(path))
