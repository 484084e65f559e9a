"""What is installed isolated: one small record a distribution, beside the virtual environments.

    CASTFORM_HOME/isolated/castform-env-x.json              which environment counts, and what is in it
    CASTFORM_HOME/isolated/castform-env-x-0123456789abcdef  a virtual environment, named after its lock

`castform env list` reads the records, so this imports little.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from castform.home import castform_home_text
from castform.plugins.catalog import CatalogEntry
from castform.plugins.names import normalize_name

FORMAT = "castform-isolated-1"
FOLDER = "isolated"
READY = "castform-isolated.json"
"""Written last into a virtual environment: one without it does not count."""
LOCK_FILE = "castform-lock.txt"
_NO_TEXTS = ("requirements", "packages", "plugins")


class IsolatedRecord(NamedTuple):  # not a dataclass: listing reads one for each plugin
    """One distribution in a virtual environment of its own."""

    distribution: str
    version: str
    summary: str
    requirements: tuple[str, ...]
    """The distribution's requirements on castform, as written."""
    folder: str
    """The virtual environment."""
    metadata: str
    """The distribution's metadata folder, relative to `folder`."""
    python: str
    """Version of its Python."""
    castform: str
    """Version of castform that it was resolved for."""
    runtime: str
    """full: castform's own dependencies are there too; minimal: what a worker needs alone."""
    resolver: str
    """uv or pip."""
    request: str
    """What was asked for, as a hash: asking again finds it without resolving."""
    lock: str
    """Hash of the lock."""
    packages: int
    """Distributions in it."""
    plugins: Mapping[str, Any]
    """Plugin name to `module` and, by kind, what it registers."""

    def entries(self) -> list[CatalogEntry]:
        """Return its plugins as a listing has them."""
        return [
            CatalogEntry(
                name=name,
                module=plugin["module"],
                distribution=self.distribution,
                version=self.version,
                summary=self.summary,
                requirements=tuple(self.requirements),
                path=f"{self.folder}/{self.metadata}",
            )
            for name, plugin in self.plugins.items()
        ]

    def python_path(self) -> str:
        """Return its interpreter."""
        return f"{self.folder}/bin/python"


def isolated_folder() -> str:
    """Return the folder of all isolated plugins. It need not exist yet."""
    return f"{castform_home_text()}/{FOLDER}"


def list_records() -> list[IsolatedRecord]:
    """Return what is installed isolated, by distribution. A record that cannot be read is left out.

    In an isolated environment itself nothing is: there a plugin is installed as any other.
    """
    place = isolated_folder()
    if os.path.realpath(sys.prefix).startswith(f"{os.path.realpath(place)}/"):
        return []
    try:
        names = sorted(os.listdir(place))  # noqa: PTH208  (pathlib costs much of the listing)
    except OSError:
        return []
    records = [_read(f"{place}/{name}", place) for name in names if name.endswith(".json")]
    return [record for record in records if record is not None]


def list_isolated() -> list[CatalogEntry]:
    """Return the plugins that are installed isolated, sorted as `list_installed` sorts."""
    entries = [entry for record in list_records() for entry in record.entries()]
    return sorted(entries, key=lambda e: (normalize_name(e.name), normalize_name(e.distribution)))


class Listing(NamedTuple):
    """All plugins, those that are installed isolated among them."""

    entries: list[CatalogEntry]
    isolated: list[CatalogEntry]
    """Those of `entries` that run in an environment of their own."""
    replaced: list[CatalogEntry]
    """Installed here too, from the same distribution: the isolated one is used."""

    def is_isolated(self, entry: CatalogEntry) -> bool:
        """Whether this very entry of `entries` runs in an environment of its own."""
        return any(entry is other for other in self.isolated)


def add_isolated(installed: Iterable[CatalogEntry]) -> Listing:
    """Add what is installed isolated to what is installed here.

    A plugin that is installed both ways from one distribution runs isolated. Of two distributions
    both are listed, which is a clash.
    """
    isolated = list_isolated()
    ours = {(normalize_name(e.name), normalize_name(e.distribution)) for e in isolated}
    here: list[CatalogEntry] = []
    replaced: list[CatalogEntry] = []
    for entry in installed:
        key = (normalize_name(entry.name), normalize_name(entry.distribution))
        (replaced if key in ours else here).append(entry)
    entries = sorted(
        [*here, *isolated], key=lambda e: (normalize_name(e.name), normalize_name(e.distribution))
    )
    return Listing(entries, isolated, replaced)


def read_record(distribution: str) -> IsolatedRecord | None:
    """Return the record of a distribution, or None where there is none that can be read."""
    place = isolated_folder()
    return _read(f"{place}/{normalize_name(distribution)}.json", place)


def read_ready(folder: str) -> IsolatedRecord | None:
    """Return what a virtual environment says of itself; None while it was not built to its end."""
    return _read(f"{folder}/{READY}", os.path.dirname(folder))  # noqa: PTH120


def is_usable(record: IsolatedRecord) -> bool:
    """Say whether a record's environment was built to its end and its Python is still there."""
    return os.path.isfile(f"{record.folder}/{READY}") and os.path.exists(record.python_path())  # noqa: PTH110, PTH113


def write_record(record: IsolatedRecord) -> None:
    """Make a virtual environment the one that counts for its distribution."""
    write_json(f"{isolated_folder()}/{normalize_name(record.distribution)}.json", record)


def write_json(path: str, record: IsolatedRecord) -> None:
    """Write a record whole or not at all. The environment is named relative to the folder of all."""
    plain = {**record._asdict(), "format": FORMAT, "folder": os.path.basename(record.folder)}  # noqa: PTH119
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(plain, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)  # noqa: PTH105


@contextlib.contextmanager
def hold_lock(distribution: str) -> Iterator[None]:
    """Keep other processes from installing or removing the same distribution meanwhile."""
    import fcntl

    os.makedirs(isolated_folder(), exist_ok=True)  # noqa: PTH103
    path = f"{isolated_folder()}/{normalize_name(distribution)}.lock"
    with open(path, "w", encoding="utf-8") as handle:  # noqa: PTH123
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _read(path: str, place: str) -> IsolatedRecord | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            data = json.loads(file.read())
        if data.pop("format") != FORMAT:
            return None
        data["requirements"] = tuple(data["requirements"])
        record = IsolatedRecord(**data)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return record._replace(folder=f"{place}/{record.folder}") if _is_whole(record) else None


def _is_whole(record: IsolatedRecord) -> bool:
    """Say whether everything is of its kind: what reads a record relies on it, in every command."""
    plugins = record.plugins
    texts = [value for key, value in record._asdict().items() if key not in _NO_TEXTS]
    if not all(isinstance(text, str) for text in (*texts, *record.requirements)):
        return False
    return isinstance(plugins, dict) and all(_is_plugin(plugin) for plugin in plugins.values())


def _is_plugin(plugin: object) -> bool:
    return (
        isinstance(plugin, dict)
        and isinstance(plugin.get("module"), str)
        and isinstance(plugin.get("registers"), dict)
        and isinstance(plugin["registers"].get("environment"), list)
    )
