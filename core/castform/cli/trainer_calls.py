"""What the commands that train share: reaching the trainer, an early end, the copy of the result."""

from __future__ import annotations

import os
import pkgutil
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from castform.errors import ConfigError, MissingError, RunFailedError, UsageError

EXIT_CODES: Mapping[str | None, int] = {"signal": 130, "requested": 1}
"""Of a run that was stopped before its verdict: what comes after it in a script must not go on."""


def reach_trainer(reference: str) -> Any:
    """Return something of the trainer. MissingError when its extra is not installed."""
    try:
        return pkgutil.resolve_name(reference)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("torch", "transformers", "peft", "castform_trainer"):
            raise MissingError(
                f"training needs {error.name}, which is not installed", hint="pip install 'castform[train]'"
            ) from error
        raise


def settle(runner: Any, work: Any) -> Any:
    """Run the coroutine; a second Ctrl-C cancels it, which is an interrupt for the command line."""
    import asyncio

    try:
        return runner(work)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def change_config(config: Any, **sections: Mapping[str, Any]) -> Any:
    """Return a config with some sections replaced, for a run that is resumed. ConfigError names every fault.

    `Any`: a RunConfig or an SftConfig.
    """
    from pydantic import ValidationError

    from castform.config_faults import describe_fault

    data = {**config.model_dump(), **sections}
    try:
        return type(config).model_validate(data)
    except ValidationError as error:
        faults = [describe_fault(item, data, type(config)) for item in error.errors()]
        head = f"{len(faults)} wrong setting{'s' if len(faults) > 1 else ''}:"
        raise ConfigError("\n".join([head, *(f"  {fault}" for fault in faults)])) from error


def check_output(folder: Path) -> None:
    """Raise UsageError unless a new folder can be made there: now, and not after hours of training."""
    if folder.exists():
        raise UsageError(f"{folder} exists already", hint="choose a folder that does not exist")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be made: {above} is not a folder that you can write")


def copy_result(result: Path, output: Path, *, beside: Path | None = None) -> None:
    """Copy an adapter or model folder, and the file `beside` it, whole or not at all.

    Raises RunFailedError when the disk refuses.
    """
    partial = output.with_name(f".{output.name}.partial")
    try:
        shutil.copytree(result, partial)
        if beside is not None:
            shutil.copy(beside, partial / beside.name)
        partial.rename(output)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise RunFailedError(
            f"cannot copy the {result.name} to {output}: {error.strerror or error}",
            hint=f"the run itself is whole, and so is its {result.name}: {result}",
        ) from error
