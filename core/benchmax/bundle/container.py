"""The file format of a bundle, `*.castform-bundle`: read and written without unpickling.

    8 bytes    b"\\x93CFBNDL" and the format's number, 1
    4 bytes    length of the header, big-endian
    header     canonical JSON: digest, signature or null, and the sections' names and lengths
    sections   the bytes of "metadata" (JSON), "pickle", then of the data files ("data/<path>"),
               one after the other; nothing follows

The digest in the header is checked whenever a file is read, so damage shows at once. It
protects against accidents only: whoever changes a file can write a fitting digest. A
digest that came another way, or a signature, shows that too.
"""

from __future__ import annotations

import hmac
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.bundle.bundle import Bundle, BundleData, DataFile, bundle_digest
from benchmax.bundle.data_files import check_data
from benchmax.bundle.errors import BundleIntegrityError, BundlingError
from benchmax.bundle.metadata import BundleMetadata
from benchmax.bundle.signing import ALGORITHM

MAGIC = b"\x93CFBNDL\x01"
SUFFIX = ".castform-bundle"
MAX_HEADER_BYTES = 8 << 20
MAX_FILE_BYTES = 4 << 30
_DATA = "data/"


def write_bundle(bundle: Bundle, path: Path) -> str:
    """Write a bundle to a file, all of it or nothing; return its digest. Equal bundles give equal files."""
    content = bundle_bytes(bundle)
    path = Path(path)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
            stream.write(content)
        written = Path(stream.name)
        written.chmod(0o644)
        written.replace(path)
    except OSError as error:
        raise BundlingError(f"{path} cannot be written: {error.strerror}") from error
    return bundle_digest(bundle)


def bundle_bytes(bundle: Bundle) -> bytes:
    """Return the content of a bundle's file."""
    data = check_data(bundle.data)
    sections = [("metadata", bundle.metadata.to_json_bytes()), ("pickle", bundle.pickled)]
    sections += [(_DATA + file.path, file.content) for file in data.files]
    header = json.dumps(
        {
            "base": data.base,
            "digest": bundle_digest(bundle),
            "sections": [[name, len(content)] for name, content in sections],
            "signature": None
            if bundle.signature is None
            else {"algorithm": ALGORITHM, "value": bundle.signature},
        },
        sort_keys=True,
        separators=(",", ":"),
    ).encode("ascii")
    return b"".join([MAGIC, len(header).to_bytes(4, "big"), header, *(content for _, content in sections)])


def read_bundle(path: Path) -> Bundle:
    """Read a bundle from a file, its digest checked; nothing is unpickled.

    BundleIntegrityError for a file that was damaged or cut, BundlingError for one that is no bundle.
    """
    try:
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise BundlingError(f"{path} is larger than {MAX_FILE_BYTES >> 30} GiB")
        content = Path(path).read_bytes()
    except OSError as error:
        raise BundlingError(f"{path} cannot be read: {error.strerror}") from error
    return parse_bundle(content, name=str(path))


def parse_bundle(content: bytes, *, name: str = "the file") -> Bundle:
    """Read a bundle from the content of its file. Raises what `read_bundle` raises."""
    start = len(MAGIC) + 4
    if content[: len(MAGIC)] != MAGIC:
        newer = content[: len(MAGIC) - 1] == MAGIC[:-1]
        what = "has a newer format than this castform reads" if newer else "is not a bundle"
        raise BundlingError(f"{name} {what}")
    length = int.from_bytes(content[len(MAGIC) : start], "big")
    if length > MAX_HEADER_BYTES or start + length > len(content):
        raise BundleIntegrityError(f"{name} is damaged: its header does not fit into it")
    header = _read_header(content[start : start + length], name)
    bundle = _assemble(header, memoryview(content)[start + length :], name)
    if not hmac.compare_digest(bundle_digest(bundle).encode(), header.digest.encode()):
        raise BundleIntegrityError(f"{name} was changed or damaged: its content does not fit its digest")
    return bundle


@dataclass(frozen=True, kw_only=True, slots=True)
class _Header:
    base: str
    digest: str
    sections: list[tuple[str, int]]
    signature: str | None


def _read_header(content: bytes, name: str) -> _Header:
    try:
        value = json.loads(content)
        return _Header(
            base=_typed(value, "base", str),
            digest=_typed(value, "digest", str),
            sections=[_section(item) for item in _typed(value, "sections", list)],
            signature=_signature(value["signature"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BundleIntegrityError(f"{name} is damaged: its header cannot be read ({error})") from error


def _assemble(header: _Header, body: memoryview, name: str) -> Bundle:
    if sum(length for _, length in header.sections) != len(body):
        raise BundleIntegrityError(f"{name} is damaged: it is not as long as its header says")
    parts: list[tuple[str, bytes]] = []
    position = 0
    for section, length in header.sections:
        parts.append((section, bytes(body[position : position + length])))
        position += length
    if [section for section, _ in parts[:2]] != ["metadata", "pickle"] or not all(
        section.startswith(_DATA) for section, _ in parts[2:]
    ):
        raise BundleIntegrityError(f"{name} is damaged: it does not have the parts of a bundle")
    files = tuple(DataFile(path=section.removeprefix(_DATA), content=part) for section, part in parts[2:])
    try:
        return Bundle(
            pickled=parts[1][1],
            metadata=BundleMetadata.from_json_bytes(parts[0][1]),
            data=check_data(BundleData(files=files, base=header.base)),
            signature=header.signature,
        )
    except (ValueError, TypeError) as error:
        raise BundlingError(f"{name} cannot be used: {error}") from error


# Any: these read JSON of unknown make.
def _typed(value: Any, key: str, kind: type) -> Any:
    if not isinstance(value, Mapping) or not isinstance(value[key], kind):
        raise TypeError(f"{key} is not a {kind.__name__}")
    return value[key]


def _section(item: Any) -> tuple[str, int]:
    name, length = item
    if not isinstance(name, str) or isinstance(length, bool) or not isinstance(length, int) or length < 0:
        raise TypeError("a section is no name and length")
    return name, length


def _signature(value: Any) -> str | None:
    if value is None:
        return None
    if value["algorithm"] != ALGORITHM or not isinstance(value["value"], str):
        raise ValueError("the signature's algorithm is not known")
    return str(value["value"])
