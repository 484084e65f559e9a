"""Bundle files: what is written is what is read, and any change shows."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import benchmax
from benchmax.bundle import (
    Bundle,
    BundleData,
    BundleIntegrityError,
    BundleMetadata,
    BundlingError,
    DataFile,
    bundle_digest,
    check_integrity,
    container,
    key_id,
    load_bundle,
    parse_bundle,
    read_bundle,
    read_key,
    sign_bundle,
    write_bundle,
)
from benchmax.bundle.container import MAGIC, bundle_bytes

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
METADATA = BundleMetadata(
    pip_dependencies=["a"],
    python_version=f"{sys.version_info.major}.{sys.version_info.minor}",
    benchmax_version=benchmax.__version__,
    env_class_source="class A: ...",
)
FILES = (DataFile("a.jsonl", b"{}\n"), DataFile("data/b.bin", bytes(range(256))))
BUNDLE = Bundle(b"pickle", METADATA, BundleData(files=FILES, base="src"))


def test_a_file_gives_back_the_bundle(tmp_path: Path) -> None:
    path = tmp_path / "x.castform-bundle"
    assert write_bundle(BUNDLE, path) == bundle_digest(BUNDLE)
    assert read_bundle(path) == BUNDLE
    signed = sign_bundle(BUNDLE, KEY)
    write_bundle(signed, path)
    assert read_bundle(path) == signed
    assert [p.name for p in tmp_path.iterdir()] == ["x.castform-bundle"]


def test_the_layout_is_the_documented_one() -> None:
    content = bundle_bytes(BUNDLE)
    assert content[:8] == b"\x93CFBNDL\x01"
    length = int.from_bytes(content[8:12], "big")
    header = json.loads(content[12 : 12 + length])
    metadata = METADATA.to_json_bytes()
    assert header == {
        "base": "src",
        "digest": bundle_digest(BUNDLE),
        "sections": [
            ["metadata", len(metadata)],
            ["pickle", 6],
            ["data/a.jsonl", 3],
            ["data/data/b.bin", 256],
        ],
        "signature": None,
    }
    assert content[12 + length :] == metadata + b"pickle" + b"{}\n" + bytes(range(256))


def test_no_byte_of_a_file_can_be_changed_unseen() -> None:
    content = bundle_bytes(BUNDLE)
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 0x01
        with pytest.raises(BundlingError):
            parse_bundle(bytes(changed))


def test_no_byte_can_be_cut_or_added() -> None:
    content = bundle_bytes(BUNDLE)
    for end in range(len(content)):
        with pytest.raises(BundlingError):
            parse_bundle(content[:end])
    with pytest.raises(BundleIntegrityError, match="not as long as its header says"):
        parse_bundle(content + b"x")


def test_a_changed_pickle_is_named_as_a_change(tmp_path: Path) -> None:
    path = tmp_path / "b"
    path.write_bytes(bundle_bytes(BUNDLE).replace(b"pickle", b"tickle").replace(b'"tickle"', b'"pickle"'))
    with pytest.raises(BundleIntegrityError, match="changed or damaged: its content does not fit its digest"):
        read_bundle(path)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_arbitrary_content_is_refused(content: bytes) -> None:
    with pytest.raises(BundlingError):
        parse_bundle(MAGIC + content)
    with pytest.raises(BundlingError, match="is not a bundle"):
        parse_bundle(b"PK" + content)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sections": [["pickle", 6], ["metadata", 1]]}, "not as long"),
        ({"sections": 3}, "header cannot be read"),
        ({"sections": [["metadata", True]]}, "header cannot be read"),
        ({"sections": [["metadata", -1]]}, "header cannot be read"),
        ({"sections": [["metadata"]]}, "header cannot be read"),
        ({"base": None}, "header cannot be read"),
        ({"digest": 3}, "header cannot be read"),
        ({"digest": "é"}, "does not fit its digest"),
        ({"signature": "x"}, "header cannot be read"),
        ({"signature": {"algorithm": "none", "value": "x"}}, "header cannot be read"),
        ({"signature": {"algorithm": "hmac-sha256", "value": 3}}, "header cannot be read"),
    ],
)
def test_a_wrong_header_is_named(change: dict[str, Any], words: str) -> None:
    content = bundle_bytes(BUNDLE)
    length = int.from_bytes(content[8:12], "big")
    header = json.dumps({**json.loads(content[12 : 12 + length]), **change}).encode()
    with pytest.raises(BundleIntegrityError, match=words):
        parse_bundle(MAGIC + len(header).to_bytes(4, "big") + header + content[12 + length :])


def test_sections_stand_in_their_order() -> None:
    content = bundle_bytes(Bundle(b"p" * len(METADATA.to_json_bytes()), METADATA))
    swapped = content.replace(b'["metadata"', b'["METADATA"')
    with pytest.raises(BundleIntegrityError, match="does not have the parts of a bundle"):
        parse_bundle(swapped)


def test_a_newer_format_says_so() -> None:
    with pytest.raises(BundlingError, match="newer format than this castform reads"):
        parse_bundle(MAGIC[:-1] + b"\x02" + bytes(20))


def test_a_file_that_is_not_there_or_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(BundlingError, match="cannot be read: No such file"):
        read_bundle(tmp_path / "none")
    with pytest.raises(BundlingError, match="cannot be read: Is a directory"):
        read_bundle(tmp_path)
    with pytest.raises(BundlingError, match="cannot be written: No such file"):
        write_bundle(BUNDLE, tmp_path / "no" / "folder")


def test_a_file_over_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b"
    write_bundle(BUNDLE, path)
    monkeypatch.setattr(container, "MAX_FILE_BYTES", path.stat().st_size)
    assert read_bundle(path) == BUNDLE
    monkeypatch.setattr(container, "MAX_FILE_BYTES", path.stat().st_size - 1)
    with pytest.raises(BundlingError, match="is larger than"):
        read_bundle(path)


@pytest.mark.parametrize(
    "name", ["", ".", "../x", "/etc/x", "a//b", "a/./b", "a/../b", "a\\b", "a\0b", "\ud800"]
)
def test_a_data_path_never_leaves_its_folder(name: str) -> None:
    bundle = replace(BUNDLE, data=BundleData(files=(DataFile(name, b""),)))
    with pytest.raises(BundlingError, match=r"not a relative path inside the bundle|not valid text"):
        bundle_bytes(bundle)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["b", "a"], "different paths, in order"),
        (["a", "a"], "different paths, in order"),
        (["A", "a"], "different paths, in order"),
        (["a", "a/b"], "data file 'a' and another inside it"),
    ],
)
def test_data_paths_are_sorted_different_and_no_folders_of_each_other(names: list[str], words: str) -> None:
    data = BundleData(files=tuple(DataFile(name, b"") for name in names))
    with pytest.raises(BundlingError, match=words):
        bundle_bytes(replace(BUNDLE, data=data))


# --- digest and signature --------------------------------------------------------------------


def test_the_digest_covers_data_files_and_not_the_signature() -> None:
    digest = bundle_digest(BUNDLE)
    assert bundle_digest(sign_bundle(BUNDLE, KEY)) == digest
    changed = [
        BundleData(),
        BundleData(files=FILES[:1], base="src"),
        BundleData(files=FILES, base=""),
        BundleData(files=(DataFile("a.jsonl", b"{}"), FILES[1]), base="src"),
        BundleData(files=(DataFile("a.json", b"l{}\n"), FILES[1]), base="src"),
    ]
    assert len({digest, *(bundle_digest(replace(BUNDLE, data=data)) for data in changed)}) == 6


def test_a_good_digest_and_a_good_signature_pass() -> None:
    signed = sign_bundle(BUNDLE, KEY)
    digest = bundle_digest(BUNDLE)
    assert check_integrity(signed, digest=f" {digest.upper()}\n", key=KEY) == digest
    assert check_integrity(BUNDLE) == digest


def test_another_digest_another_key_and_no_signature_are_refused() -> None:
    signed = sign_bundle(BUNDLE, KEY)
    with pytest.raises(
        BundleIntegrityError, match=f"digest is {bundle_digest(BUNDLE)}, not 00: it is another"
    ):
        check_integrity(signed, digest="00")
    with pytest.raises(BundleIntegrityError, match="signature is not by this key"):
        check_integrity(signed, key=OTHER_KEY)
    with pytest.raises(BundleIntegrityError, match="not signed, and a key was given"):
        check_integrity(BUNDLE, key=KEY)
    with pytest.raises(BundleIntegrityError, match="signature is not by this key"):
        check_integrity(replace(signed, pickled=b"other"), key=KEY)
    with pytest.raises(BundleIntegrityError, match="signature is not by this key"):
        check_integrity(replace(signed, signature="é"), key=KEY)


def test_integrity_comes_before_everything_else() -> None:
    other_python = replace(BUNDLE, metadata=replace(METADATA, python_version="3.99"))
    with pytest.raises(BundleIntegrityError):
        load_bundle(other_python, digest="00")
    with pytest.raises(BundleIntegrityError):
        load_bundle(other_python, key=KEY)


def test_a_signature_is_an_hmac_over_the_digest_of_fixed_form() -> None:
    bundle = Bundle(b"p", replace(METADATA, python_version="3.12", benchmax_version="0.1.0"))
    import hashlib
    import hmac

    message = b"benchmax.bundle.signature.v1\0" + bytes.fromhex(bundle_digest(bundle))
    assert sign_bundle(bundle, KEY).signature == hmac.new(KEY, message, hashlib.sha256).hexdigest()


def test_a_key_file_holds_16_bytes_or_more_and_a_last_line_break_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"x" * 16 + b"\n")
    assert read_key(path) == b"x" * 16
    path.write_bytes(b"x" * 15 + b"\n")
    with pytest.raises(BundlingError, match="is 15 bytes long; it needs at least 16"):
        read_key(path)
    with pytest.raises(BundlingError, match=r"key file .* cannot be read: No such file"):
        read_key(tmp_path / "none")
    with pytest.raises(BundlingError, match="at least 16 bytes"):
        sign_bundle(BUNDLE, b"short")


def test_the_name_of_a_key_tells_nothing_of_it() -> None:
    assert key_id(KEY) != key_id(OTHER_KEY) and len(key_id(KEY)) == 16


def test_secrets_do_not_show_in_a_repr() -> None:
    shown = repr(sign_bundle(BUNDLE, KEY))
    assert "pickled" not in shown and "signature" not in shown and "x02" not in shown
