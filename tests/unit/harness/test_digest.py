"""A harness's digest: the same for the same settings and files, another for others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from castform.harness import load_harness
from castform.harness.digest import digest_harness


@dataclass(frozen=True, slots=True)
class Slotted:
    name: str = "a"
    version: str | None = None
    turns: tuple[int, ...] = (1,)
    where: Path = Path("/here")


class Plain:
    name, version = "a", None

    def __init__(self, **settings):
        self.client = object()
        self.__dict__.update(settings)


SAME = [
    (Slotted(), Slotted(where=Path("/there"))),
    (Plain(turns=1), Plain(turns=1)),
    (load_harness("terminus-lite"), load_harness("terminus-lite")),
    (load_harness("codex"), load_harness("codex")),
]
OTHER = [
    (Slotted(), Slotted(turns=(2,))),
    (Slotted(), Slotted(name="b")),
    (Slotted(), Slotted(version="1")),
    (Slotted(turns=()), Plain(turns=())),
    (Plain(turns={"a": 1}), Plain(turns={"a": 2})),
    (load_harness("terminus-lite"), load_harness("terminus-lite", max_turns=3)),
    (load_harness("codex"), load_harness("codex", version="0.171.0")),
    (load_harness("codex"), load_harness("qwen-code")),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=["slots", "plain", "own loop", "binding"])
def test_the_same_settings_have_the_same_digest(one, other):
    assert digest_harness(one) == digest_harness(other)


@pytest.mark.parametrize(
    ("one", "other"), OTHER, ids=["slots", "name", "version", "kind", "plain", "own loop", "binding", "agent"]
)
def test_what_is_made_otherwise_has_another_digest(one, other):
    assert digest_harness(one) != digest_harness(other)


def test_files_that_are_uploaded_count_by_name_and_content(tmp_path):
    folder = tmp_path / "program"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "run").write_text("1")
    (tmp_path / "a.toml").write_text("[harness]\ncommand = 'true'\nupload = { '/opt/p' = 'program' }\n")
    digests = [digest_harness(load_harness(tmp_path / "a.toml"))]
    for change in (
        lambda: (folder / "deep" / "run").write_text("2"),
        lambda: (folder / "deep" / "run").rename(folder / "run"),
        lambda: (folder / "other").write_text(""),
    ):
        change()
        digests.append(digest_harness(load_harness(tmp_path / "a.toml")))
    assert len(set(digests)) == 4
