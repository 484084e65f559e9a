"""A sound environment, and others that each break one rule."""

from __future__ import annotations

import asyncio
import decimal
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, Dataset, Environment, Example, RolloutAttempt

NUMBERS = range(3, 40)


class Doubles(BaseEnv):
    """n + n. Sound."""

    max_turns = 3

    def rows(self, split: str) -> list[Example[dict[str, Any]]]:
        start = 0 if split == "train" else 1000
        return [make_double(start + n) for n in NUMBERS]

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset(self.rows(split)[:max_examples])

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1].get("content") or "").strip()
        return {"correct": float(said == rollout.example_args["answer"])}


def make_double(n: int) -> Example[dict[str, Any]]:
    prompt = [{"role": "user", "content": f"What is {n} + {n}? The number alone."}]
    return Example(f"double-{n}", {"prompt_messages": prompt, "answer": str(2 * n)})


class SleepsInReward(Doubles):
    async def compute_reward(self, rollout):
        time.sleep(600)  # noqa: ASYNC251 - that is what it is here for


class ComputesInReward(Doubles):
    async def compute_reward(self, rollout):
        while True:
            with suppress(Exception):  # as authors do
                self.count = getattr(self, "count", 0) + 1


class WaitsInReward(Doubles):
    async def compute_reward(self, rollout):
        await asyncio.Event().wait()


class WaitsForData(Doubles):
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        await asyncio.Event().wait()


class SleepsInGold(Doubles):
    def gold(self, example):
        time.sleep(600)


class SleepsInThread(Doubles):
    async def compute_reward(self, rollout):
        ended = threading.Event()
        STOPS.append(ended)
        await asyncio.to_thread(ended.wait)
        return {"correct": 0.0}


class FreshIds(Doubles):
    def rows(self, split):
        return [Example(uuid.uuid4().hex, example.payload) for example in super().rows(split)]


class FreshPayloads(Doubles):
    def rows(self, split):
        return [
            Example(e.id, {**e.payload, "made": uuid.uuid4().hex}) if e.id == "double-4" else e
            for e in super().rows(split)
        ]


class HashedPayloads(Doubles):
    """The same in every build of one process."""

    def rows(self, split):
        return [Example(e.id, {**e.payload, "hash": hash(e.id)}) for e in super().rows(split)]


class Shuffled(Doubles):
    """The order is another one in each build; the examples are the same."""

    built = 0

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        type(self).built += 1
        rows = self.rows(split)[:max_examples]
        return Dataset(rows if self.built % 2 else rows[::-1])


class IgnoresMax(Doubles):
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset(self.rows(split))


class SamplesMax(Doubles):
    """Which examples there are depends on how many are asked for."""

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        rows = self.rows(split)
        return Dataset(random.Random(max_examples).sample(rows, min(max_examples or len(rows), len(rows))))


class CountsSiblings(Doubles):
    """Each member of a group is told something else."""

    def __init__(self) -> None:
        super().__init__()
        self.started = 0

    async def run_rollout(self, request):
        self.started += 1
        text = f"You are player {self.started}. {request.example.payload['prompt_messages'][0]['content']}"
        payload = {**request.example.payload, "prompt_messages": [{"role": "user", "content": text}]}
        return await super().run_rollout(
            type(request)(
                rollout_id=request.rollout_id,
                example=Example(request.example.id, payload),
                model=request.model,
                base_url=request.base_url,
                model_auth=request.model_auth,
                split=request.split,
            )
        )


class PaysInfinity(Doubles):
    async def compute_reward(self, rollout):
        return {"correct": float("inf")}


class WrongGold(Doubles):
    def gold(self, example):
        return "no number"


class GoldRaises(Doubles):
    def gold(self, example):
        raise KeyError("answer_key")


class HalfGold(Doubles):
    """Pays the right answer of one example less than the others'."""

    async def compute_reward(self, rollout):
        rewards = await super().compute_reward(rollout)
        return {
            name: value / (2 if rollout.example_args["answer"] == "8" else 1)
            for name, value in rewards.items()
        }


class NoGold(Doubles):
    def gold(self, example):
        return None


class PaysAnything(Doubles):
    async def compute_reward(self, rollout):
        return {"correct": 1.0}


class FragileTool(Doubles):
    """A tool that cannot take what its schema allows."""

    async def list_tools(self):
        parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        return [{"type": "function", "function": {"name": "share", "parameters": parameters}}]

    async def run_tool(self, rollout_id, tool_name, /, **arguments):
        return [0, 1, 2, 3][min(arguments["n"], 3)]


class FailureIsZero(Environment[dict[str, Any], RolloutAttempt]):
    """Calls the model itself, and scores 0 when that fails."""

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return await Doubles().create_dataset(split, base_dir, max_examples=max_examples)

    async def run_rollout(self, request):
        try:
            attempt = await Doubles().run_rollout(request)
        except Exception:  # noqa: BLE001 - that is what it does wrong
            attempt = None
        if attempt is None or attempt.termination_reason == "model_error":
            return RolloutAttempt(
                rollout_id=request.rollout_id, termination_reason="finished", rewards={"correct": 0.0}
            )
        return RolloutAttempt(
            rollout_id=request.rollout_id,
            termination_reason=attempt.termination_reason,
            rewards=attempt.rewards,
            error=attempt.error,
        )


class LeavesTask(Doubles):
    """A task of each rollout goes on for ever when the rollout is cancelled."""

    @asynccontextmanager
    async def rollout_context(self, rollout_id, example):
        watcher = asyncio.create_task(asyncio.Event().wait(), name="watcher")
        yield
        watcher.cancel()


class LeavesFiles(Doubles):
    """Makes a folder a rollout and removes it only when all goes well."""

    @asynccontextmanager
    async def rollout_context(self, rollout_id, example):
        folder = Path(tempfile.mkdtemp(prefix="scratch-"))
        yield
        folder.rmdir()  # noqa: ASYNC240


class KeepsFile(Doubles):
    """Opens a file a rollout and never closes it."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[Any] = []

    async def compute_reward(self, rollout):
        self.files.append(Path(__file__).open())  # noqa: ASYNC230
        return await super().compute_reward(rollout)

    def __getstate__(self):
        return {**self.__dict__, "files": []}


class FillsPool(Doubles):
    """Grades in a pool that has one thread more after each group, up to four. Sound."""

    def __init__(self) -> None:
        super().__init__()
        self.pool: list[threading.Event] = []

    async def compute_group_rewards(self, rollouts):
        if len(self.pool) < 4:
            stop = threading.Event()
            self.pool.append(stop)
            STOPS.append(stop)
            threading.Thread(target=stop.wait, name="pooled", daemon=True).start()


class KeepsThread(Doubles):
    async def compute_reward(self, rollout):
        stop = threading.Event()
        STOPS.append(stop)
        threading.Thread(target=stop.wait, name="grader", daemon=True).start()
        return await super().compute_reward(rollout)


STOPS: list[threading.Event] = []


class KeepsProcess(Doubles):
    """Leaves a process a group behind."""

    async def compute_group_rewards(self, rollouts):
        command = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
        PROCESSES.append(subprocess.Popen(command))  # noqa: ASYNC220


PROCESSES: list[subprocess.Popen[bytes]] = []


class SwallowsCancel(Doubles):
    """Waits for the model again when it is told to stop."""

    async def run_rollout(self, request):
        inner = asyncio.ensure_future(super().run_rollout(request))
        while not inner.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(inner)
        return inner.result()


class LocksUp(Doubles):
    """A group that was cancelled leaves the lock of the environment taken."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = False

    async def run_rollout(self, request):
        if self.taken:
            raise RuntimeError("the simulator is in use")
        attempt = None
        try:
            attempt = await super().run_rollout(request)
        finally:
            self.taken = attempt is None
        return attempt


class SetsPrecision(Doubles):
    async def compute_reward(self, rollout):
        decimal.getcontext().prec = 7
        return await super().compute_reward(rollout)


class SetsVariable(Doubles):
    async def compute_reward(self, rollout):
        os.environ["DOUBLES_SEEN"] = "1"
        return await super().compute_reward(rollout)


class HoldsLock(Doubles):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class CallsHome(Doubles):
    """Reports each score to a server on the internet, and goes on when there is none."""

    async def compute_reward(self, rollout):
        with suppress(OSError):
            socket.create_connection(("192.0.2.7", 443), timeout=1).close()
        with suppress(OSError):
            socket.getaddrinfo("scores.example.org", 443)
        return await super().compute_reward(rollout)
