"""The other process: it loads the environment, tells what its examples are, and ends."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

from castform.testing.conformance.network_guard import guard_network

HEAVY = ("torch", "transformers", "vllm", "tensorflow", "jax")
"""Packages that take seconds and hundreds of megabytes; the process that runs environments needs none."""


def work(job: dict[str, Any]) -> None:
    """Write one JSON object after a record separator; what the environment prints comes before it."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    answer: dict[str, Any] = {"error": "", "marks": {}, "heavy": [], "where": "", "refused": []}
    with guard_network() as network:
        try:
            environment = _load(job)
            answer["heavy"] = [name for name in HEAVY if name in sys.modules]
            answer["where"] = finder.where
            answer["marks"] = asyncio.run(_mark(environment, job))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
            answer["error"] = f"{type(error).__name__}: {error}"
    answer["refused"] = network.refused
    sys.stdout.write("\x1e" + json.dumps(answer))
    sys.stdout.flush()


class _Finder:
    """Notes which line asks for a heavy package first; finds nothing itself."""

    def __init__(self) -> None:
        self.where = ""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in HEAVY and not self.where:
            frame = sys._getframe(1)
            while frame is not None and "importlib" in frame.f_code.co_filename:
                frame = frame.f_back  # type: ignore[assignment]  # None ends the walk
            if frame is not None:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _load(job: dict[str, Any]) -> Any:  # Any: an Environment, whose import comes with it
    if job["id"] is None:
        import cloudpickle

        return cloudpickle.loads(base64.b64decode(job["pickle"]))
    from castform.plugins.environments import load_environment

    return load_environment(job["id"], job["args"]).environment


async def _mark(environment: Any, job: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    from castform.environments import load_examples
    from castform.errors import CastformError
    from castform.plugins.fingerprints import hash_example

    marks = {}
    for split in job["splits"]:
        try:
            examples = await load_examples(environment, split, Path(job["base_dir"]), limit=job["examples"])
        except CastformError:
            if split == job["splits"][0]:
                raise
            continue
        marks[split] = [(example.id, hash_example(example)) for example in examples]
    return marks
