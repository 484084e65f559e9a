"""Write what a run trained: a plain PEFT folder, or a plain transformers folder with its tokenizer."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from castform.errors import RunFailedError
from castform_trainer.learning.canary import save_canary, score_ids
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


def save_result(learner: Learner, source: Path, run_dir: Path, *, canary_ids: Sequence[int]) -> Path:
    """Write run_dir/adapter or run_dir/model and canary.json beside it, each whole or not at all.

    Returns the folder.
    """
    result = run_dir / learner.result_name
    partial, canary = run_dir / f".{learner.result_name}", run_dir / ".canary.json"
    logprobs = score_ids(learner, canary_ids)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        save_weights(learner, source, partial)
        save_canary(canary, canary_ids, logprobs)
        shutil.rmtree(result, ignore_errors=True)
        partial.rename(result)
        canary.rename(run_dir / "canary.json")
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        canary.unlink(missing_ok=True)
        raise RunFailedError(
            f"cannot write the {learner.result_name} {result}: {error.strerror or error}",
            hint=f"free some space, then `{RESUME}`; the last checkpoint is whole",
        ) from error
    return result
