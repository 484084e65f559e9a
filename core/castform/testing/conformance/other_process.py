"""Ask a fresh interpreter, with another hash seed, what it makes of the same environment."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmax.envs.termination import describe_error
from castform.rollouts import Split
from castform.testing.conformance.rule import NotCheckedError
from castform.testing.conformance.subject import Subject, dump_by_value

TIMEOUT_SECONDS = 60.0
_START = (
    "import json, os, sys; job = json.load(sys.stdin); sys.path[:] = job['path']; "
    "from castform.testing.conformance.child import work; work(job); os._exit(0)"
)
"""It waits for no thread that the environment started: one may never end."""
_SHOWN_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherProcess:
    """What came back."""

    error: str = ""
    """Why nothing did."""
    marks: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """Split to (id, hash of id and payload), in order."""
    heavy: Sequence[str] = ()
    """Heavy packages that were imported with the environment."""
    where: str = ""
    """The line that imported the first of them."""
    refused: Sequence[str] = ()
    """What it asked the network for."""


def ask_other_process(subject: Subject, split: Split, examples: int) -> OtherProcess:
    """Load the environment there and return what it has. NotCheckedError when it cannot be sent."""
    job = {
        "path": sys.path,
        "id": subject.id,
        "args": dict(subject.arguments),
        "base_dir": str(subject.base_dir),
        "examples": examples,
        "splits": list(dict.fromkeys([split, "train", "eval"])),
    }
    try:
        if subject.id is None:
            job["pickle"] = base64.b64encode(dump_by_value(subject.environment)).decode()
        text = json.dumps(job)
    except Exception as error:
        raise NotCheckedError(
            f"the environment cannot be sent to another process ({describe_error(error)}; rule pickles)"
        ) from error
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _START],
            input=text.encode(),
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return OtherProcess(error=f"it did not load within {TIMEOUT_SECONDS:g} s")
    last = ended.stdout.decode("utf-8", "replace").rpartition("\x1e")[2]
    try:
        answer = json.loads(last)
    except ValueError:
        said = ended.stderr.decode("utf-8", "replace").strip()
        return OtherProcess(error=f"it ended with exit code {ended.returncode}: {said[-_SHOWN_CHARACTERS:]}")
    return OtherProcess(
        error=answer["error"],
        marks={s: [(id, mark) for id, mark in rows] for s, rows in answer["marks"].items()},
        heavy=answer["heavy"],
        where=answer["where"],
        refused=answer["refused"],
    )
