"""Virtual environments for the tools that castform is measured beside, one each, built once.

They live in the machine's temporary space, so a second run of a bench finds them ready.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PEERS: dict[str, tuple[str, ...]] = {
    "verifiers": ("verifiers==0.1.14",),
    "inspect": ("inspect-ai==0.3.285", "openai"),
    # torch goes in first and alone: with none installed, trl's own range would fetch a CUDA build.
    "trl": ("torch==2.13.0", "trl==1.16.0 peft==0.21.2"),
}
"""Requirements of each peer, in the order in which they are installed."""


def cache_folder() -> Path:
    return Path(tempfile.gettempdir()) / "castform-bench"


def peer_python(name: str) -> Path:
    """Return the interpreter of a peer's environment; build the environment when it is not there.

    Two benches at once wait for each other. Raises RuntimeError with pip's last words.
    """
    folder = cache_folder() / name
    python = folder / "bin" / "python"
    stamp = folder / ".complete"
    wanted = "\n".join(PEERS[name])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == wanted:
            return python
        print(f"bench: installing {' '.join(PEERS[name])} into {folder}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        for requirement in PEERS[name]:
            done = subprocess.run(
                [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirement.split()],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise RuntimeError(f"{name} cannot be installed: {done.stderr.strip()[-800:]}")
        stamp.write_text(wanted)
    return python
