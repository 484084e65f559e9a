"""Collect the data files that a bundle declares, and lay them out again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from benchmax.bundle.bundle import BundleData, DataFile
from benchmax.bundle.errors import BundlingError

_SKIPPED = ("__pycache__", ".git", ".venv")


def collect_data(
    paths: Iterable[str | Path], *, root: Path, base: str = "", max_bytes: int | None = None
) -> BundleData:
    """Read data files and folders below `root`; relative paths start there. Folders count whole.

    BundlingError for a path that is missing, outside the root (after symbolic links) or no plain file,
    and for more than `max_bytes` of them, of which none is read further then.
    """
    left = max_bytes
    files: dict[str, DataFile] = {}
    root = root.resolve()
    for declared in paths:
        if not isinstance(declared, str | Path) or not str(declared).strip():
            raise BundlingError(f"data_files must hold paths, not {declared!r}")
        place = root / declared
        found = sorted(_files_below(place)) if place.is_dir() else [place]
        if not found:
            raise BundlingError(f"data folder {declared} has no files in it")
        for file in found:
            path = _find(file, root, str(declared))
            if path in files:
                continue
            files[path] = DataFile(path=path, content=_read(file, str(declared), left))
            if left is not None:
                left -= len(files[path].content)
    return BundleData(files=tuple(files[path] for path in sorted(files)), base=base if files else "")


def _files_below(folder: Path) -> Iterable[Path]:
    return (
        path
        for path in folder.rglob("*")
        if not path.is_dir() and not any(part in _SKIPPED for part in path.relative_to(folder).parts)
    )


def _find(file: Path, root: Path, declared: str) -> str:
    """Return the path of a data file in the bundle."""
    if not file.is_file():
        what = "is not a plain file" if file.exists() else "does not exist"
        raise BundlingError(f"data file {declared} {what} (data files are looked up from {root})")
    if root not in file.resolve().parents:
        raise BundlingError(f"data file {declared} lies outside the project folder {root}")
    return check_data_path(_normalised(file, root))


def _read(file: Path, declared: str, most: int | None) -> bytes:
    try:
        size = file.stat().st_size
        if most is not None and size > most:
            raise BundlingError(
                f"data file {declared} has {size:,} bytes, and {most:,} are left for it (max_bytes)"
            )
        return file.read_bytes()
    except OSError as error:
        raise BundlingError(f"data file {declared} cannot be read: {error.strerror}") from error


def _normalised(file: Path, root: Path) -> str:
    """Return a path below the root, with `..` taken out and symbolic links kept."""
    parts: list[str] = []
    for part in file.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    place = Path(*parts)
    return (place if root in place.parents else file.resolve()).relative_to(root).as_posix()


def check_data_path(path: str) -> str:
    """Return a data path that stays inside its folder, in the one spelling it has. BundlingError otherwise."""
    pure = PurePosixPath(path)
    is_plain = path == pure.as_posix() and path not in ("", ".") and not pure.is_absolute()
    if not is_plain or ".." in pure.parts or "\\" in path or "\0" in path:
        raise BundlingError(f"{path!r} is not a relative path inside the bundle")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise BundlingError(f"{path!r} is not valid text") from error
    return path


def check_data(data: BundleData) -> BundleData:
    """Return data whose paths are safe, sorted and different, also where case does not count."""
    paths = [check_data_path(file.path) for file in data.files]
    if paths != sorted(set(paths)) or len({path.lower() for path in paths}) != len(paths):
        raise BundlingError("the data files of a bundle must have different paths, in order")
    taken = set(paths)
    for path in paths:
        if inside := next((str(p) for p in PurePosixPath(path).parents if str(p) in taken), None):
            raise BundlingError(f"the bundle has a data file {inside!r} and another inside it")
    if data.base:
        check_data_path(data.base)
    return data


def lay_out_data(data: BundleData, folder: Path) -> Path:
    """Write data files below `folder`, which must be empty or new; return the class's own folder in it."""
    check_data(data)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise BundlingError(f"{folder} is not empty; a bundle's data files go to a folder of their own")
    try:
        for file in data.files:
            place = folder / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as stream:
                stream.write(file.content)
        base = folder / data.base
        base.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BundlingError(f"the bundle's data files cannot be laid out here: {error.strerror}") from error
    return base
