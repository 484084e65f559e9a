"""Write what a run trained: a plain PEFT folder, or a plain transformers folder with its tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path

from castform.errors import RunFailedError
from castform_trainer.learning.learner import Learner
from castform_trainer.sft.loop import RESUME

_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", ".index.json")


def save_weights(learner: Learner, source: Path, folder: Path) -> None:
    """Write the learner's weights into a new folder. OSError when the disk refuses.

    A model that was trained in full gets the other files of `source`, the folder that it was
    loaded from, byte for byte: tokenizer, chat template, generation settings.
    """
    if not learner.is_full:
        learner.save_adapter(folder)
        return
    learner.save_weights(folder)
    for path in sorted(source.iterdir()):
        if path.is_file() and path.name != "config.json" and not path.name.endswith(_WEIGHTS):
            shutil.copyfile(path, folder / path.name)


def save_result(learner: Learner, source: Path, run_dir: Path) -> Path:
    """Write run_dir/adapter or run_dir/model, whole or not at all, and return it."""
    result = run_dir / learner.result_name
    partial = run_dir / f".{learner.result_name}"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        save_weights(learner, source, partial)
        shutil.rmtree(result, ignore_errors=True)
        partial.rename(result)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise RunFailedError(
            f"cannot write the {learner.result_name} {result}: {error.strerror or error}",
            hint=f"free some space, then `{RESUME}`; the last checkpoint is whole",
        ) from error
    return result
