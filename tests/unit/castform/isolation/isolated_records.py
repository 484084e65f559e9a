"""Records of isolated plugins for tests."""

from __future__ import annotations

import sys
from pathlib import Path

from castform.isolation.store import READY, IsolatedRecord, write_json


def make_record(home: Path, name: str = "made-up", **changes) -> IsolatedRecord:
    """A record of one plugin with one environment, whose virtual environment need not exist."""
    environment = {
        "name": "one",
        "summary": "The only one",
        "factory": "castform_env_made_up.environment:make",
        "config": None,
        "requires": [],
        "tags": ["single-turn"],
    }
    registers = {"environment": [environment], "dataset": [{**environment, "name": "rows"}]}
    fields = {
        "distribution": f"castform-env-{name}",
        "version": "1.2",
        "summary": "Made up",
        "requirements": ("castform>=0.1",),
        "folder": str(home / "isolated" / f"castform-env-{name}-0123456789abcdef"),
        "metadata": "lib/python3/site-packages/x.dist-info",
        "python": "3.11.7",
        "castform": "0.1.0",
        "runtime": "minimal",
        "resolver": "pip",
        "request": "asked",
        "lock": "0123456789abcdef" * 4,
        "packages": 4,
        "plugins": {name: {"module": "castform_env_made_up.plugin", "registers": registers}},
    }
    return IsolatedRecord(**{**fields, **changes})


def make_usable(record: IsolatedRecord) -> IsolatedRecord:
    """Put in place what makes a record's environment look whole."""
    folder = Path(record.folder)
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    if not (folder / "bin" / "python").is_symlink():
        (folder / "bin" / "python").symlink_to(sys.executable)
    write_json(str(folder / READY), record)
    return record
