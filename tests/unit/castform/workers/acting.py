"""An environment that does what its example says, good or bad. Loaded by id, in worker processes mostly."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmax.envs import (
    Dataset,
    DatasetSplit,
    Environment,
    Example,
    RolloutAttempt,
    RolloutFailure,
    RolloutRequest,
)

logger = logging.getLogger("acting")


class Acting(Environment[Mapping[str, Any], RolloutAttempt]):
    """Acts."""

    def __init__(self, folder: str = "", slots: int | None = None) -> None:
        self.folder = Path(folder)
        self.max_concurrent_rollouts = slots

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        rows = [{"act": act} for act in ("answer", "gone", "exclusive")]
        return Dataset([Example(f"{split}-{n}", row) for n, row in enumerate(rows)][:max_examples])

    async def run_rollout(self, request: RolloutRequest[Mapping[str, Any]]) -> RolloutAttempt:
        act = request.example.payload["act"]
        rewards = await getattr(self, act)(request)
        return RolloutAttempt(
            rollout_id=request.rollout_id, termination_reason="finished", rewards=rewards or {"r": 1.0}
        )

    async def aclose(self) -> None:
        if self.folder != Path():
            (self.folder / f"closed-{os.getpid()}").touch()

    async def answer(self, request):
        return {"r": 0.5, "pid": os.getpid()}

    async def wait(self, request):
        """Says that it is there, and goes on when it is told so. Cleans up when it is cancelled."""
        (self.folder / f"here-{request.rollout_id}").write_text(str(os.getpid()))
        try:
            while not self.told_to_go(request):  # noqa: ASYNC110 - told by another process
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            (self.folder / f"cancelled-{request.rollout_id}").touch()
            raise

    def told_to_go(self, request):
        return (self.folder / f"go-{request.rollout_id.rpartition('-')[0]}").exists()

    async def block(self, request):
        (self.folder / f"here-{request.rollout_id}").write_text(str(os.getpid()))
        told = self.folder / f"go-{request.rollout_id.rpartition('-')[0]}"
        while not told.exists():
            time.sleep(0.002)  # noqa: ASYNC251 - on purpose: nothing else of this process runs

    async def exclusive(self, request):
        mark = os.open(self.folder / "exclusive", os.O_CREAT | os.O_EXCL)
        await asyncio.sleep(0.01)
        os.close(mark)
        (self.folder / "exclusive").unlink()
        return {"pid": os.getpid()}

    async def gone(self, request):
        print("the last that it says", file=sys.stderr)
        os._exit(7)

    async def sigkill(self, request):
        os.kill(os.getpid(), signal.SIGKILL)

    async def segfault(self, request):
        ctypes.string_at(0)

    async def hang(self, request):
        while True:
            time.sleep(0.01)  # noqa: ASYNC251 - on purpose

    async def hold_the_lock(self, request):
        (self.folder / f"here-{request.rollout_id}").write_text(str(os.getpid()))
        re.fullmatch(r"(a+)+b", "a" * 40)

    async def leak(self, request):
        self.kept = b"x" * 100_000_000
        await asyncio.Event().wait()

    async def flood(self, request):
        while True:
            sys.stdout.write("y" * 10_000 + "\n")

    async def write_to_the_pipe(self, request):
        os.write(int(sys.argv[2]), b"GET / HTTP/1.1")
        await asyncio.Event().wait()

    async def break_the_contract(self, request):
        raise ArithmeticError("one and one is three")

    async def leave(self, request):
        sys.exit(3)

    async def give_up(self, request):
        raise RolloutFailure("sandbox_error", "no box is left")

    async def cancel_itself(self, request):
        raise asyncio.CancelledError

    async def list_descriptors(self, request):
        """Count the pipes to the host that a program gets which the environment starts."""
        listing = await asyncio.create_subprocess_exec("ls", "-l", "/proc/self/fd", stdout=subprocess.PIPE)
        seen, _ = await listing.communicate()
        ours = [pipe_of(word) for word in sys.argv[1:3]]
        return {"inherited": sum(pipe in seen for pipe in ours)}

    async def list_imports(self, request):
        return {
            name: 1.0 for name in sys.modules if name in ("pydantic", "rich", "sqlalchemy", "openai", "httpx")
        }

    async def speak(self, request):
        print("to stdout")
        logger.warning("to the log of %s", request.rollout_id)


def pipe_of(descriptor):
    return bytes(Path(f"/proc/self/fd/{descriptor}").readlink())
