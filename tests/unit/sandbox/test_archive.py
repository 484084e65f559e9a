"""Archives: what goes in belongs to root, and nothing hostile comes out."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from castform.sandbox.archive import ChunkReader, pack_bytes, pack_path, unpack
from castform.sandbox.errors import SandboxFileError, UsageError


def make_archive(*members: tuple[str, bytes, str, int]) -> io.BytesIO:
    """Return an archive of (name, kind, link or content, mode)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, words, mode in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, mode
            if kind == tarfile.REGTYPE:
                member.size = len(words)
                archive.addfile(member, io.BytesIO(words.encode()))
            else:
                member.linkname = words
                archive.addfile(member)
    buffer.seek(0)
    return buffer


def file(name: str, words: str = "x", mode: int = 0o644) -> tuple[str, bytes, str, int]:
    return (name, tarfile.REGTYPE, words, mode)


def link(name: str, to: str) -> tuple[str, bytes, str, int]:
    return (name, tarfile.SYMTYPE, to, 0o777)


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_comes_back_as_it_was(tmp_path):
    source = tmp_path / "source"
    (source / "deep" / "empty").mkdir(parents=True)
    (source / "deep" / "run").write_bytes(b"\xff\x00")
    (source / "deep" / "run").chmod(0o755)
    (source / "link").symlink_to("deep/run")
    os.mkfifo(source / "pipe")
    with pack_path(source) as archive:
        owners = {(m.uid, m.gid, m.uname) for m in tarfile.open(fileobj=archive).getmembers()}
        archive.seek(0)
        unpack(archive, tmp_path / "target", max_bytes=10)
    assert owners == {(0, 0, "root")}
    assert names_below(tmp_path / "target") == ["deep", "deep/empty", "deep/run", "link"]
    assert (tmp_path / "target" / "link").read_bytes() == b"\xff\x00"
    assert (tmp_path / "target" / "deep" / "run").stat().st_mode & 0o777 == 0o755


def test_a_file_goes_in_under_another_name(tmp_path):
    (tmp_path / "a").write_text("words")
    (tmp_path / "to-a").symlink_to("a")
    with pack_path(tmp_path / "to-a", name="b") as archive:
        unpack(archive, tmp_path / "target", max_bytes=10)
    assert (tmp_path / "target" / "b").read_text() == "words"


def test_what_is_not_there_cannot_go_in(tmp_path):
    with pytest.raises(UsageError, match="does not exist"), pack_path(tmp_path / "none"):
        pass


def test_bytes_go_in_as_one_file(tmp_path):
    archive = tarfile.open(fileobj=io.BytesIO(pack_bytes("f", b"\xff", mode=0o600, uid=7)))
    (member,) = archive.getmembers()
    assert (member.name, member.size, member.mode, member.uid) == ("f", 1, 0o600, 7)


@pytest.mark.parametrize(
    "members",
    [
        [file("../out")],
        [file("/out")],
        [file("a/../../out")],
        [link("l", "/etc"), file("l/out")],
        [link("l", ".."), file("l/out")],
        [link("l", "/etc/passwd")],
        [link("l", "../out")],
        [link("d/l", "../../out")],
        [link("k/l/m", "../../.."), link("a", "k/l/m/out")],
        [link("a", "k/l/m/../../z"), link("k/l/m", "../..")],
        [link("a", "b"), link("b", "a")],
        [("l", tarfile.LNKTYPE, "/etc/passwd", 0o644)],
        [("l", tarfile.LNKTYPE, "../out", 0o644)],
        [link("s", "/etc/passwd"), ("l", tarfile.LNKTYPE, "s", 0o644)],
        [("c", tarfile.CHRTYPE, "", 0o666), ("f", tarfile.FIFOTYPE, "", 0o666)],
        [file("l"), link("l", "/etc/passwd")],
    ],
)
def test_nothing_is_written_or_led_outside(members, tmp_path):
    (tmp_path / "out").write_text("before")
    target = tmp_path / "target"
    unpack(make_archive(*members), target, max_bytes=100)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "target"]
    assert (tmp_path / "out").read_text() == "before"
    for path in target.rglob("*"):
        assert path.resolve().is_relative_to(target)
        assert path.is_file() or path.is_dir() or path.is_symlink()


def test_a_link_is_replaced_by_a_later_file_and_never_written_through(tmp_path):
    unpack(make_archive(file("a", "one"), link("l", "a"), file("l", "two")), tmp_path / "t", max_bytes=100)
    assert (tmp_path / "t" / "a").read_text() == "one"


def test_hard_links_become_copies_and_count(tmp_path):
    members = [file("a", "12345"), ("b", tarfile.LNKTYPE, "a", 0o644)]
    unpack(make_archive(*members), tmp_path / "t", max_bytes=10)
    assert (tmp_path / "t" / "b").read_text() == "12345"
    with pytest.raises(SandboxFileError, match="max_bytes"):
        unpack(make_archive(*members), tmp_path / "u", max_bytes=9)


def test_more_than_max_bytes_is_refused_before_it_is_written(tmp_path):
    with pytest.raises(SandboxFileError, match="more than 10 bytes"):
        unpack(make_archive(file("a", "x" * 6), file("b", "x" * 5)), tmp_path / "t", max_bytes=10)
    assert names_below(tmp_path / "t") == ["a"]


def test_what_is_too_large_is_not_even_packed(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "f").write_bytes(b"x" * 11)
    with pytest.raises(SandboxFileError, match="more than 10 bytes"), pack_path(tmp_path / "s", max_bytes=10):
        pass


def test_set_id_bits_do_not_come_out(tmp_path):
    unpack(make_archive(file("a", mode=0o4755)), tmp_path / "t", max_bytes=10)
    assert (tmp_path / "t" / "a").stat().st_mode & 0o7777 == 0o755


def test_a_folder_that_its_owner_cannot_write_to_is_still_filled(tmp_path):
    unpack(make_archive(("d", tarfile.DIRTYPE, "", 0o555), file("d/f")), tmp_path / "t", max_bytes=10)
    assert (tmp_path / "t" / "d" / "f").read_text() == "x"


@pytest.mark.parametrize("cut", [1, 700, 1100])
def test_an_archive_that_is_cut_off_is_an_error(cut, tmp_path):
    data = make_archive(file("a", "x" * 600)).getvalue()[:cut]
    with pytest.raises(SandboxFileError):
        unpack(io.BytesIO(data), tmp_path / "t", max_bytes=1000)


def test_chunks_are_read_like_a_file_and_a_top_folder_is_stripped(tmp_path):
    data = make_archive(("top", tarfile.DIRTYPE, "", 0o755), file("top/a", "words")).getvalue()
    chunks = (data[n : n + 100] for n in range(0, len(data), 100))
    unpack(ChunkReader(chunks), tmp_path / "t", max_bytes=10, strip="top")
    assert names_below(tmp_path / "t") == ["a"]


def test_what_cannot_be_written_here_is_said_of_the_place(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SandboxFileError, match=r"file on this machine: .*[Ee]xist"):
        unpack(make_archive(file("a")), tmp_path / "file", max_bytes=10)
    with pytest.raises(SandboxFileError, match="on this machine: Not a directory"):
        unpack(make_archive(file("a")), tmp_path / "file" / "below", max_bytes=10)


def test_a_full_disk_is_said_and_not_taken_for_the_archive(tmp_path):
    """A limit on a file's size stands for the disk: the kernel refuses the write itself."""
    script = (
        "import resource, signal, sys; from pathlib import Path; from castform.sandbox.archive import unpack;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "unpack(sys.stdin.buffer, Path(sys.argv[1]), max_bytes=1 << 20)"
    )
    data = make_archive(file("small"), file("a", "x" * 5000)).getvalue()
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out")], input=data, capture_output=True
    )
    assert b"SandboxFileError" in done.stderr and b"File too large" in done.stderr, done.stderr
