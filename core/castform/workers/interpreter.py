"""The Python that a worker process runs with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """An executable that can `import castform`, and the environment variables it gets."""

    python: Path
    env: Mapping[str, str] = field(repr=False)
    """All of them: a worker inherits nothing else. Not shown: they may hold keys."""
    import_path: tuple[str, ...] = ()
    """Folders added at the end of its `sys.path`. Empty for another virtual environment."""

    def command(self, module: str, *arguments: str) -> list[str]:
        """Return the command line that runs a module. The working folder is not on its import path."""
        return [str(self.python), "-P", "-m", module, *arguments]


def this_interpreter() -> Interpreter:
    """Return this process's own Python, with its variables and import path as they are now."""
    return Interpreter(
        python=Path(sys.executable),
        env=dict(os.environ),
        import_path=tuple(entry or str(Path.cwd()) for entry in sys.path),
    )
