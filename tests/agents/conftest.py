"""Real agent programs, installed from their registries, in front of the real gateway with a scripted engine.

Each is installed once into a folder that CASTFORM_AGENTS_CACHE names, or one of this test run. An agent
that cannot be installed is skipped, save where CI is set.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from castform.calls import ModelCall, Sampling
from castform.endpoint import SessionSpec
from castform.harness import AgentTask, Harness, HarnessResult
from castform.sandbox.contract import (
    BoxRequest,
    Limits,
    ModelEndpoint,
    NetworkPolicy,
    Sandbox,
    SandboxProvider,
)
from castform.sandbox.load import load_provider
from castform_trainer.engines.fake import FakeEngine
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.gateway.fake_tokenizer import TOOLS, make_fake_tokenizer
from castform_trainer.gateway.fidelity import count_fidelity
from castform_trainer.gateway.trajectory import build_segments

END = 2
BOX_PATH = "/usr/local/bin:/usr/bin:/bin"
Answer = Callable[[str, int], str]
"""Given the whole prompt as text and the number of earlier replies, what the model says."""


@pytest.fixture
def call_tool() -> Callable[..., str]:
    """Return a function that writes a tool call in the format of the template."""

    def write(name: str, **arguments: object) -> str:
        body = json.dumps({"name": name, "arguments": arguments})
        return f"<tool_call>\n{body}\n</tool_call>"

    return write


@dataclass
class Stage:
    """A gateway with a script behind it, and a box for the agent."""

    gateway: Gateway
    endpoint: GatewayEndpoint
    box: Sandbox
    workdir: str
    log_dir: str
    prompts: list[str] = field(default_factory=list)

    async def perform(
        self, harness: Harness, task: AgentTask, *, max_context_tokens: int | None = None
    ) -> tuple[HarnessResult, list[ModelCall]]:
        """Let an agent work on a task of its own session; return its end and what was recorded."""
        grant = await self.endpoint.open_session(
            SessionSpec(
                session_id="agent",
                sampling=Sampling(max_new_tokens=2000),
                max_context_tokens=max_context_tokens,
            )
        )
        model = ModelEndpoint(base_url=grant.base_url, api_key=grant.api_key, model=grant.model)
        await harness.setup(self.box)
        result = await harness.run(task, self.box, model)
        return result, list(await self.endpoint.collect("agent"))

    async def read(self, name: str) -> str:
        return (await self.box.read_file(f"{self.workdir}/{name}")).decode()

    def make_task(self, instruction: str, **more: Any) -> AgentTask:
        more.setdefault("timeout_seconds", 120.0)
        return AgentTask(instruction=instruction, workdir=self.workdir, log_dir=self.log_dir, **more)


@pytest.fixture
def check_recorded() -> Callable[[list[ModelCall]], None]:
    """Return a check: every call has all its tokens, and what is trained is what was sampled."""

    def check(calls: list[ModelCall]) -> None:
        assert calls
        for call in calls:
            assert call.prompt_ids and call.sampled_ids and len(call.sampled_ids) == len(call.logprobs or ())
        counts = count_fidelity(calls)
        assert counts.broken_calls == 0 and counts.aborted_tokens == 0
        assert counts.trained_tokens + counts.unchosen_tokens == counts.sampled_tokens
        assert sum(sum(s.mask) for s in build_segments(calls)) == counts.trained_tokens

    return check


MakeStage = Callable[..., Any]


@pytest.fixture
async def make_stage(tmp_path: Path) -> AsyncIterator[MakeStage]:
    stages: list[Stage] = []
    providers: list[SandboxProvider] = []

    async def make(answer: Answer, *, path: str, sandbox: str = "process") -> Stage:
        """Programs are looked for in `path` first; in boxes that isolate nothing but the model is reachable."""
        tokenizer = make_fake_tokenizer(TOOLS)
        prompts: list[str] = []

        def script(prompt_ids: Any, sampling: Any) -> list[int]:
            text = str(tokenizer.decode(list(prompt_ids)))
            prompts.append(text)
            return [*tokenizer.encode(answer(text, len(prompts) - 1), add_special_tokens=False), END]

        engine = FakeEngine(script=script, decode=tokenizer.decode, max_context_tokens=2_000_000)
        gateway = Gateway(engine, tokenizer, log_path=tmp_path / "calls.jsonl", model_name="tiny").start()
        endpoint = GatewayEndpoint(gateway)
        shared = sandbox == "process"
        provider = load_provider(sandbox, **({"root": str(tmp_path / "boxes")} if shared else {}))
        providers.append(provider)
        request = BoxRequest(
            image="castform/base:local" if sandbox == "docker" else None,
            limits=Limits(cpus=None, memory_mb=None, pids=None, disk_mb=None),
            network=NetworkPolicy(mode="public" if shared else "none"),
            env={"PATH": f"{path}:{os.environ['PATH'] if shared else BOX_PATH}"},
        )
        stage = Stage(
            gateway=gateway,
            endpoint=endpoint,
            box=await provider.start(request),
            workdir=str(tmp_path / "work") if shared else "/root/work",
            log_dir=str(tmp_path / "logs") if shared else "/logs/agent",
            prompts=prompts,
        )
        stages.append(stage)
        await stage.box.exec(["mkdir", "-p", stage.workdir], cwd="/")
        return stage

    yield make
    for stage in stages:
        await stage.box.close()
        await stage.endpoint.aclose()
    for provider in providers:
        await provider.aclose()


@pytest.fixture(name="leave_out")
def leave_out_fixture() -> Callable[[str], NoReturn]:
    """Return what skips a test whose agent is not there, and fails it in CI."""
    return leave_out


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("CASTFORM_AGENTS_CACHE")
    folder = Path(named) if named else tmp_path_factory.mktemp("agents")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def install(cache: Path) -> Callable[..., str]:
    """Return a function that installs packages into a folder of their own and returns its bin folder."""

    def into_folder(name: str, source: str, packages: Sequence[str]) -> str:
        folder = cache / name
        done = folder / "installed"
        if source == "npm" and shutil.which("npm") is None:
            leave_out("npm is not installed here")
        if source == "npm":
            place = folder / "node_modules" / ".bin"
            command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--silent"]
        else:
            place = folder / "bin"
            command = [str(place / "python"), "-m", "pip", "install", "-q"]
        if not done.exists():
            folder.mkdir(parents=True, exist_ok=True)
            if source == "pip":
                venv.create(folder, with_pip=True)
            run_install([*command, *packages])
            done.touch()
        return str(place)

    return into_folder


def run_install(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        leave_out(f"{command[-1]} cannot be installed here: {done.stderr.strip()[-300:]}")


def leave_out(reason: str) -> NoReturn:
    """Skip a test whose agent is not there; fail it in CI, where nobody would notice."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
