"""Tasks that are written where a test needs them, and boxes to run them in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_boxes import FakeProvider

HERE = Path(__file__).parent
JUDGE = "castform/harbor-judge:local"
PASSING = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"


@pytest.fixture(scope="session")
def judge_image():
    """The image of `separate-docker-image` that brings its own tests, made for these tests and removed after them."""
    docker = pytest.importorskip("docker").from_env()
    image, _ = docker.images.build(path=str(HERE / "images" / "judge"), tag=JUDGE, rm=True)
    yield image
    docker.images.remove(JUDGE)


@pytest.fixture
def provider(tmp_path: Path) -> FakeProvider:
    return FakeProvider(tmp_path / "boxes")


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a whole task; `files` replaces or adds any, None leaves one out."""

    def write(toml: str = "", *, name: str = "harbour", files: dict[str, str | None] | None = None) -> Path:
        folder = tmp_path / "tasks" / name
        content: dict[str, str | None] = {
            "task.toml": dedent(toml),
            "instruction.md": "Do what has to be done.\n",
            "environment/Dockerfile": "FROM castform/base:local\n",
            "tests/test.sh": PASSING,
            **(files or {}),
        }
        for path, text in content.items():
            if text is None:
                continue
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            if path.endswith(".sh"):
                file.chmod(0o755)
        return folder

    return write
