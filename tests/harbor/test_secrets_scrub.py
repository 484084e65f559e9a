"""Secrets go out of the files of a trial, and no file is ever half of what it was."""

from __future__ import annotations

import json
import subprocess
import sys

from castform_harbor.secrets_scrub import find_secrets, scrub_document, scrub_folder

FULL_DISK = """
import resource, sys
from pathlib import Path
from castform_harbor.secrets_scrub import scrub_folder
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    scrub_folder(Path(sys.argv[1]), ["sesame-sesame"])
except OSError as error:
    print(error.strerror)
"""


def test_values_go_out_of_text_and_every_file_keeps_its_mode(tmp_path):
    (tmp_path / "deep").mkdir()
    log = tmp_path / "deep" / ("\U0001f600" * 60)
    log.write_bytes(b"key sesame-sesame, sesame-sesame-longer\n")
    log.chmod(0o640)
    (tmp_path / "binary").write_bytes(b"\0 sesame-sesame")
    (tmp_path / "link").symlink_to(log)
    secrets = find_secrets(
        {"A_KEY": "sesame-sesame", "B_TOKEN": "sesame-sesame-longer", "PATH": "key sesame"}
    )
    scrub_folder(tmp_path, secrets)
    assert log.read_bytes() == b"key [redacted], [redacted]\n"
    assert log.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "binary").read_bytes() == b"\0 sesame-sesame"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["binary", "deep", "link"]


def test_a_secret_is_found_as_json_spells_it(tmp_path):
    secret = 'sesame"\\\n\U0001f600'
    document = {"error": f"it was {secret}!", "steps": [{"text": secret}, 1, None]}
    for name, plain in [("plain", False), ("ascii", True)]:
        (tmp_path / name).write_text(json.dumps(document, ensure_ascii=plain))
    scrub_folder(tmp_path, [secret])
    expected = {"error": "it was [redacted]!", "steps": [{"text": "[redacted]"}, 1, None]}
    assert [json.loads(path.read_text()) for path in sorted(tmp_path.iterdir())] == [expected, expected]
    assert scrub_document(document, [secret]) == expected


def test_on_a_full_disk_a_file_is_whole_and_nothing_lies_beside_it(tmp_path):
    text = "sesame-sesame\n" + "line\n" * 1000
    (tmp_path / "log").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "File too large\n"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("log", text)]
