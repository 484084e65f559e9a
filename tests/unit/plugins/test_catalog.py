"""What is installed is read from metadata, and nothing of it is imported."""

from __future__ import annotations

import importlib.metadata
import sys

from castform.plugins.catalog import GROUP, list_installed


def write_distribution(site, folder, points, metadata=None):
    info = site / folder
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_bytes(points if isinstance(points, bytes) else points.encode())
    if metadata is not None:
        (info / "METADATA").write_text(metadata)
    return info


def test_name_version_summary_and_requirements_come_from_the_headers(install):
    (entry,) = list_installed([str(install("sound"))])
    assert (entry.name, entry.distribution, entry.version) == ("sound", "castform-env-sound", "1.2.0")
    assert entry.summary == "Nothing is wrong with this one"
    assert entry.module == "castform_env_sound.plugin"
    assert entry.requirements == ("castform>=0.1",)


def test_listing_imports_no_plugin(install):
    site = install("sound", "import_error", "exit_at_import", "slow_import")
    before = set(sys.modules)
    assert len(list_installed([str(site)])) == 4
    assert not [m for m in set(sys.modules) - before if m.startswith("castform_env_")]


def test_the_catalog_agrees_with_the_standard_library():
    expected = {
        (p.name, p.value, p.dist.name, p.dist.version) for p in importlib.metadata.entry_points(group=GROUP)
    }
    assert {(e.name, e.module, e.distribution, e.version) for e in list_installed()} == expected


def test_a_distribution_found_twice_counts_once_and_the_first_on_the_path_wins(tmp_path):
    for place, version in (("one", "1.0"), ("two", "2.0")):
        write_distribution(
            tmp_path / place,
            f"x-{version}.dist-info",
            "[castform]\nx = x\n",
            f"Name: x\nVersion: {version}\n",
        )
    (entry,) = list_installed([str(tmp_path / "two"), str(tmp_path / "one"), str(tmp_path / "two")])
    assert entry.version == "2.0"


def test_a_requirement_on_a_plugin_is_none_on_castform(tmp_path):
    metadata = "Name: x\nVersion: 1\n" + "".join(
        f"Requires-Dist: {r}\n"
        for r in ("castform-env-arith>=1", "Castform[train] <2", "castform", "castformer")
    )
    write_distribution(tmp_path, "x-1.dist-info", "[castform]\nx = x\n", metadata)
    (entry,) = list_installed([str(tmp_path)])
    assert entry.requirements == ("Castform[train] <2", "castform")


def test_other_groups_comments_and_extras_of_an_entry_point_are_left_out(tmp_path):
    points = "[console_scripts]\ncastform = y\n\n[castform]\n# a = b\n; c = d\nX.y = pkg.mod:obj [extra]\n[other]\nz = z\n"
    write_distribution(tmp_path, "x-1.dist-info", points, "Name: x\nVersion: 1\n")
    assert [(e.name, e.module) for e in list_installed([str(tmp_path)])] == [("X.y", "pkg.mod:obj")]


def test_damaged_metadata_is_listed_as_far_as_it_goes(tmp_path):
    write_distribution(tmp_path, "no_metadata-3.1.dist-info", "[castform]\na = a\n")
    write_distribution(tmp_path, "bytes-1.dist-info", b"[castform]\nb\xff = b\n", "Name: bytes\nVersion: 1\n")
    write_distribution(tmp_path, "empty-1.dist-info", "[castform]\n", "")
    assert [(e.distribution, e.version) for e in list_installed([str(tmp_path)])] == [
        ("no_metadata", "3.1"),
        ("bytes", "1"),
    ]


def test_headers_end_at_the_first_empty_line_whatever_the_bytes_and_line_ends(tmp_path):
    info = write_distribution(tmp_path, "x-1.dist-info", "[castform]\nx = x\n")
    headers = "Name: x\nVersion: 2\nSummary: Grün und \N{SNOWMAN}\nLicense: a\n Summary: b".encode() + b"\xff"
    description = b"Summary: no header\nVersion: 3\n"
    for end in (b"\n", b"\r\n"):
        (info / "METADATA").write_bytes((headers + b"\n\n" + description).replace(b"\n", end))
        (entry,) = list_installed([str(tmp_path)])
        assert (entry.version, entry.summary) == ("2", "Grün und \N{SNOWMAN}")
    (info / "METADATA").write_bytes(b"Name: x\nVersion: 4\nSummary: gr\xfcn\n")
    (entry,) = list_installed([str(tmp_path)])
    assert (entry.version, entry.summary) == ("4", "gr\N{REPLACEMENT CHARACTER}n")


def test_a_path_that_is_no_folder_is_skipped(tmp_path):
    file = tmp_path / "python.zip"
    file.write_bytes(b"")
    assert list_installed([str(file), str(tmp_path / "gone")]) == []


def test_an_egg_info_folder_counts(tmp_path):
    info = write_distribution(tmp_path, "old.egg-info", "[castform]\nold = old\n")
    (info / "PKG-INFO").write_text("Name: old\nVersion: 0.9\nSummary: From setuptools\n")
    (entry,) = list_installed([str(tmp_path)])
    assert (entry.version, entry.summary) == ("0.9", "From setuptools")
