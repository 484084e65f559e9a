"""A checkpoint is whole or it is not there."""

from __future__ import annotations

import errno

import pytest
import torch

from castform.errors import RunFailedError
from castform_trainer.learning.checkpoint import list_checkpoints, save_checkpoint


def write_adapter(folder):
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(b"weights")


def save(folder, step, keep=2):
    return save_checkpoint(
        folder,
        step=step,
        counters={"step": step},
        tensors={"weights": {"a": torch.arange(3)}, "updates": step},
        save_weights=write_adapter,
        keep=keep,
    )


def test_what_was_saved_reads_back(tmp_path):
    save(tmp_path, 4)
    (found,) = list_checkpoints(tmp_path)
    assert (found.step, found.counters) == (4, {"step": 4})
    assert found.load_tensors()["weights"]["a"].tolist() == [0, 1, 2]
    assert (found.adapter / "adapter_model.safetensors").read_bytes() == b"weights"


def test_only_the_newest_are_kept(tmp_path):
    for step in (1, 2, 10):
        save(tmp_path, step)
    assert [found.step for found in list_checkpoints(tmp_path)] == [2, 10]


@pytest.mark.parametrize("name", ["state.json", "trainer.pt", "adapter/adapter_model.safetensors"])
def test_a_checkpoint_with_a_short_file_is_ignored(tmp_path, name):
    save(tmp_path, 1)
    save(tmp_path, 2)
    damaged = tmp_path / "step-000002" / name
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert [found.step for found in list_checkpoints(tmp_path)] == [1]
    save(tmp_path, 2)
    assert [found.step for found in list_checkpoints(tmp_path)] == [1, 2]


def test_what_a_crash_left_behind_is_no_checkpoint(tmp_path):
    (tmp_path / ".partial-000003").mkdir(parents=True)
    (tmp_path / ".partial-000003" / "state.json").write_text("{}")
    (tmp_path / "step-000009").mkdir()
    assert list_checkpoints(tmp_path) == []
    assert save(tmp_path, 3).step == 3


def test_saving_a_step_again_changes_nothing(tmp_path):
    before = (save(tmp_path, 1).path / "state.json").stat().st_mtime_ns
    assert (save(tmp_path, 1).path / "state.json").stat().st_mtime_ns == before


def test_a_full_disk_is_one_clear_error_and_leaves_the_last_checkpoint(tmp_path):
    save(tmp_path, 1)

    def refuse(folder):
        folder.mkdir()
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(RunFailedError, match="No space left") as caught:
        save_checkpoint(tmp_path, step=2, counters={}, tensors={}, save_weights=refuse, keep=1)
    assert "resume" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]
