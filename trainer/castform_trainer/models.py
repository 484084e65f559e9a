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
    for weights in sorted(path.glob("*.safetensors")):
        _check_weights_file(weights)
    _check_shards(path)
    if not _has_chat_template(path):
        raise UsageError(
            f"{path} has no chat template, so messages cannot be turned into a prompt",
            hint="use the instruct variant of the model, or put a chat_template.jinja into the folder",
        )


def _check_weights_file(path: Path) -> None:
    """Raise UsageError unless a safetensors file is as long as its header says."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = path.stat().st_size
            header = json.loads(file.read(length) if 8 + length <= size else b"")
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        whole = 8 + length + max(ends, default=0) == size
    except (ValueError, AttributeError, KeyError, TypeError, LookupError):
        whole = False
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if not whole:
        raise UsageError(
            f"the weights in {path} are damaged: its header and its length do not agree",
            hint="the download or the copy was cut short; fetch the file again",
        )


def _check_shards(path: Path) -> None:
    """Raise UsageError when the index names weight files that are not there."""
    index = path / "model.safetensors.index.json"
    if not index.is_file() or (path / "model.safetensors").is_file():
        return
    try:
        named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise UsageError(f"{index} is not an index of weights: {error}") from error
    missing = sorted(name for name in named if not (path / name).is_file())
    if missing:
        raise UsageError(
            f"{path} lacks {len(missing)} of its {len(named)} weight files, {missing[0]} for one",
            hint="was the download cut short? fetch them again",
        )


def load_tokenizer(folder: ModelFolder | Path) -> Any:
    """Load a folder's tokenizer. `Any`: transformers has no type information.

    Raises UsageError when the files are damaged or the chat template cannot write a prompt.
    """
    from transformers import AutoTokenizer

    path = folder.path if isinstance(folder, ModelFolder) else folder
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:  # the tokenizers library raises bare Exception for damaged files
        raise UsageError(f"the tokenizer in {path} cannot be loaded: {_first_line(error)}") from error
    _check_chat_template(tokenizer, path)
    return tokenizer


def _check_chat_template(tokenizer: Any, path: Path) -> None:
    """Raise UsageError unless the template can write a user's message, with or without a system's."""
    user = {"role": "user", "content": "Hello"}
    system = {"role": "system", "content": "Be brief."}
    fault: Exception | None = None
    for messages in ([user], [system, user]):
        try:
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            return
        except Exception as error:  # noqa: BLE001 - a template is the model author's program
            fault = fault or error
    raise UsageError(
        f"the chat template of {path} cannot write a prompt: {_first_line(fault)}",
        hint="mend its chat_template.jinja (or chat_template in tokenizer_config.json)",
    ) from fault


def _first_line(error: BaseException | None) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def load_causal_lm(path: Path, *, dtype: str, device: str) -> Any:
    """Load the weights of a folder, in evaluation mode and without gradients.

    Raises UsageError when transformers cannot load them. `Any`: as above.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    had_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype), local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError, SafetensorError) as error:
        raise UsageError(f"the model in {path} cannot be loaded: {_first_line(error)}") from error
    finally:
        if had_bar:
            logging.enable_progress_bar()
    return model.to(device).eval().requires_grad_(False)


def make_empty_causal_lm(path: Path) -> Any:
    """Return the model of a folder without its weights: all names and sizes, and no memory.

    Raises UsageError when transformers does not know such a model. `Any`: as above.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(path, local_files_only=True)
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        raise UsageError(f"the model in {path} cannot be loaded: {_first_line(error)}") from error


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
