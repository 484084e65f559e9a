"""One tiny model and two adapters for all engine tests, and one thread."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from castform_trainer.testing import make_tiny_adapter, make_tiny_model


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("tiny") / "model", "llama")


@pytest.fixture(scope="session")
def tiny_adapters(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("adapters")
    return make_tiny_adapter(tiny_folder, root / "1", seed=1), make_tiny_adapter(
        tiny_folder, root / "2", seed=2
    )
