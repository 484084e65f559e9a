"""Open a model: find its folder, check that it can be served and trained, choose dtype and device."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.config import ModelSection
from castform.errors import MissingError, UsageError
from castform.home import models_folder

_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFolder:
    """A model that was found complete, and how to compute with it."""

    path: Path
    name: str
    """What the user called it, short: for listings and for the model field of requests."""
    dtype: str
    """float32, bfloat16 or float16."""
    device: str
    """cpu or cuda[:n]."""


def open_model(section: ModelSection) -> ModelFolder:
    """Find the model that `section.id` names: a folder, a pulled name, or a hub id, in this order.

    Raises UsageError for a folder in which something is missing, MissingError when there is no
    such model or the device is not there.
    """
    if not section.id:
        raise UsageError("no model given", hint="pass -m smollm2-135m, a folder, or a hub id")
    path = _find_folder(section.id)
    check_model_folder(path)
    device = _choose_device(section.device)
    name = path.name if Path(section.id).expanduser().is_dir() else section.id
    return ModelFolder(path=path, name=name, dtype=_choose_dtype(section.dtype, device), device=device)


def check_model_folder(path: Path) -> None:
    """Raise UsageError unless the folder holds a config, weights, a tokenizer and a chat template."""
    config = path / "config.json"
    if not config.is_file():
        raise UsageError(f"{path} is not a model folder: it has no config.json")
    try:
        json.loads(config.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{config} is not valid JSON: {error}") from error
    if not any(next(path.glob(pattern), None) for pattern in _WEIGHTS):
        raise UsageError(
            f"{path} has no weights (*.safetensors)", hint="was the download or the export cut short?"
        )
    if not any((path / name).is_file() for name in _TOKENIZERS):
        raise UsageError(
            f"{path} has no tokenizer (tokenizer.json)",
            hint="copy the tokenizer files of the model it was trained from into the folder",
        )
    if not _has_chat_template(path):
        raise UsageError(
            f"{path} has no chat template, so messages cannot be turned into a prompt",
            hint="use the instruct variant of the model, or put a chat_template.jinja into the folder",
        )


def load_tokenizer(folder: ModelFolder | Path) -> Any:
    """Load a folder's tokenizer. `Any`: transformers has no type information.

    Raises UsageError when the files are damaged.
    """
    from transformers import AutoTokenizer

    path = folder.path if isinstance(folder, ModelFolder) else folder
    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"the tokenizer in {path} cannot be loaded: {error}") from error


def load_causal_lm(path: Path, *, dtype: str, device: str) -> Any:
    """Load the weights of a folder, in evaluation mode and without gradients.

    Raises UsageError when transformers cannot load them. `Any`: as above.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    had_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"the model in {path} cannot be loaded: {error}") from error
    finally:
        if had_bar:
            logging.enable_progress_bar()
    return model.to(device).eval().requires_grad_(False)


def has_fast_bfloat16() -> bool:
    """Say whether this CPU computes in bfloat16 (AMX or AVX-512 BF16); elsewhere it is many times slower."""
    import torch

    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _find_folder(model_id: str) -> Path:
    local = Path(model_id).expanduser()
    if local.is_dir():
        return local.absolute()
    pulled = models_folder() / model_id
    if pulled.is_dir() and not model_id.startswith("."):
        return pulled
    if model_id.count("/") == 1 and not model_id.startswith((".", "/", "~")):
        return _fetch_from_hub(model_id)
    from castform_trainer.model_pull import PULLABLE

    if model_id in PULLABLE:
        raise MissingError(
            f"the model {model_id!r} is not here yet", hint=f"`castform model pull {model_id}` fetches it"
        )
    if local.exists():
        raise UsageError(f"{model_id} is a file, a model is a folder")
    there = [path.name for path in models_folder().glob("[!.]*")]
    close = difflib.get_close_matches(model_id, [*there, *PULLABLE], n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    raise MissingError(
        f"no model called {model_id!r}",
        hint=f"{guess}`castform model list` shows what is here; a folder or a hub id (org/name) works too",
    )


def _fetch_from_hub(model_id: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
    try:
        return Path(snapshot_download(model_id, allow_patterns=patterns, local_files_only=True))
    except (LocalEntryNotFoundError, ValueError):
        pass  # not in the hub's cache: ask the hub
    try:
        return Path(snapshot_download(model_id, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise MissingError(
            f"the model {model_id!r} is neither a folder nor pulled, and the hub did not give it: "
            f"{str(error).strip().splitlines()[0]}",
            hint="check the id and the network, or use a local folder; "
            "`castform model pull smollm2-135m` needs no hub",
        ) from error


def _has_chat_template(path: Path) -> bool:
    if (path / "chat_template.jinja").is_file() or (path / "chat_template.json").is_file():
        return True
    try:
        settings = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(settings.get("chat_template"))


def _choose_device(wanted: str) -> str:
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise UsageError(
            f"model.device = {wanted!r} is not a device", hint="use auto, cpu, cuda or cuda:0"
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise MissingError(
            f"model.device = {wanted!r}, but torch sees no GPU",
            hint="set model.device = 'cpu', or install a torch build for your GPU",
        )
    return wanted


def _choose_dtype(wanted: str, device: str) -> str:
    if wanted != "auto":
        return wanted
    if device.startswith("cuda"):
        return "bfloat16"
    return "bfloat16" if has_fast_bfloat16() else "float32"
