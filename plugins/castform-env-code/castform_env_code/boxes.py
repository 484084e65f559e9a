"""Run a model's function in a sandbox of castform's: the same process as ever, with a box around it.

Every reply has a box of its own that nothing was run in before, without a network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmax.envs import RolloutFailure
from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, ExecResult, SandboxProvider
from castform.sandbox.contract import Limits as BoxLimits
from castform.sandbox.errors import CastformError, ExecTimeoutError, SandboxStartError
from castform.sandbox.pool import WarmPool
from castform.sandbox.teardown import Background
from castform_env_code.candidate import (
    CHILD,
    CandidateRun,
    Ending,
    Layers,
    Limits,
    read_run,
    refuse_long,
    write_request,
)

PLACE = "/tmp/candidate_child.py"
COMMAND = ("python3", "-P", "-s", "-S", "-B", "-X", "utf8", PLACE)
IMAGE = "python:3.12-slim"
OVERHEAD_MB = 64
"""What Python itself needs beside the memory that the code may use."""
NOT_STARTED = (126, 127)


class CandidateBoxes:
    """Gives every candidate a box, on one event loop."""

    def __init__(self, name: str, *, image: str | None, warm_boxes: int, memory_bytes: int) -> None:
        """`image` needs a whole Python of 3.11 or later. `name` is the provider's."""
        self._name = name
        self._size = warm_boxes
        self._image = image
        self._limits = BoxLimits(memory_mb=(memory_bytes >> 20) + OVERHEAD_MB, pids=32, disk_mb=16)
        self._request = BoxRequest()
        self._opening = asyncio.Lock()
        self._provider: SandboxProvider | None = None
        self._pool: WarmPool | None = None
        self._background = Background()

    async def check(self) -> None:
        """Start a box and close it. MissingError: the provider cannot work here; SandboxError: no box starts."""
        provider = await self._get_provider()
        try:
            await (await provider.start(self._request)).close()
        except SandboxStartError as error:
            raise SandboxStartError(self._explain(error)) from error

    async def run(
        self, source: str, function: str, calls: Sequence[Sequence[object]], *, limits: Limits
    ) -> CandidateRun:
        """See `candidate.run_candidate`. RolloutFailure `sandbox_error`: the box failed, or has no Python."""
        refused = refuse_long(source)
        if refused is not None:
            return refused
        # The box confines; what the kernel and Python add inside it keeps rewards what they are without one.
        sent = write_request(source, function, calls, limits=limits, layers=Layers(required=False))
        try:  # who is cancelled does not wait for the box to be closed
            ending, output, code = await self._background.run(self._exec(sent, limits))
        except CastformError as error:
            raise RolloutFailure("sandbox_error", self._explain(error)) from error
        if (
            ending == "flood"
        ):  # of what was written the end alone is kept, and nothing in it can be told apart
            return CandidateRun(ending="flood", defined=True, outcomes=(), error="its results are too long")
        return read_run(ending, output, code, calls=len(calls))

    async def aclose(self) -> None:
        """Close what is ready, and the provider; wait for what replies that were cancelled left to be done."""
        try:
            if self._pool is not None:
                await self._pool.aclose()
            if self._provider is not None:
                await self._provider.aclose()
        finally:
            await self._background.wait()
            self._pool = self._provider = None

    def _explain(self, error: CastformError) -> str:
        said = f"{error} ({error.hint})" if error.hint else str(error)
        if isinstance(error, SandboxStartError) and self._image is None and self._request.image is not None:
            said += f"; {IMAGE} is the default, --set env.image=NAME names another with a whole Python"
        return said

    async def _exec(self, sent: bytes, limits: Limits) -> tuple[Ending, bytes, int]:
        provider = await self._get_provider()
        if self._size and self._pool is None:
            self._pool = WarmPool(provider, self._request, size=self._size)
            self._pool.warm()
        box = await (self._pool.take() if self._pool is not None else provider.start(self._request))
        try:
            await box.write_file(PLACE, CHILD.read_bytes())
            result = await box.exec(
                COMMAND,
                cwd="/",
                env={"PYTHONHASHSEED": "0"},
                timeout_seconds=limits.wall_seconds,
                stdin=sent,
                max_output_bytes=limits.output_bytes,
            )
        except ExecTimeoutError as error:
            return "timeout", error.result.stdout, 0
        finally:
            await box.close()
        if not result.stdout and (result.exit_code in NOT_STARTED or result.stderr):
            reason = result.error_text.strip().rpartition("\n")[2]
            raise RolloutFailure("sandbox_error", f"the box has no whole python3: {reason}")
        return _read_ending(result)

    async def _get_provider(self) -> SandboxProvider:
        async with self._opening:
            if self._provider is None:
                provider = load_provider(self._name)
                image = self._image or (IMAGE if (await provider.check()).images else None)
                self._request = BoxRequest(image=image, limits=self._limits)
                self._provider = provider
            return self._provider


def _read_ending(result: ExecResult) -> tuple[Ending, bytes, int]:
    code = 128 - result.exit_code if result.exit_code > 128 else result.exit_code
    return ("flood" if result.stdout_dropped else "finished"), result.stdout, code
