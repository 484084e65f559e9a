"""`terminus-lite`: an agent loop of our own, in the process that trains.

It asks the model through the endpoint, runs the shell commands of each reply in the box and shows the
model what they printed, until the model says DONE. The box needs `sh` and nothing else, no network
and no agent program.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field

from castform.harness.contract import AgentTask, HarnessError, HarnessResult, HarnessStatus
from castform.sandbox.contract import ModelEndpoint, Sandbox
from castform.section import Section
from castform_harbor.harnesses.answers import read_answer, replace_surrogates
from castform_harbor.harnesses.atif_steps import StepLog, append_message, make_messages
from castform_harbor.harnesses.box_shell import run_command
from castform_harbor.harnesses.replies import ReadReply, read_reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

VERSION = "1"
KEPT_CHARACTERS = 32_768
CONTEXT_CODES = frozenset({"context_budget_exceeded", "context_length_exceeded"})
"""What the gateway says, and what other servers do, when a prompt leaves no room."""

SYSTEM = """\
You work in a Linux shell. Answer with the commands to run, in a block:

```sh
ls
```

You are then shown what they print. When the task is complete, answer with this line alone:

DONE"""
NO_COMMANDS = (
    "There is no command in your answer. Write commands in a ```sh block, or DONE when the task is complete."
)
NO_OUTPUT = "(no output)"


class TerminusLiteOptions(Section):
    """Options of terminus-lite."""

    max_turns: int = Field(default=30, ge=1)
    """Replies of the model."""
    command_timeout_seconds: float = Field(default=60.0, gt=0)
    max_output_characters: int = Field(default=8000, ge=100)
    """Of what one command prints, shown to the model: the head and the tail."""
    timeout_seconds: float = Field(default=3600.0, gt=0)
    """Where the task sets no limit."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Of one reply; by default what the endpoint allows."""
    max_retries: int = Field(default=4, ge=0)
    """Of one request that failed on the way or at the server."""
    system_prompt: str = SYSTEM
    """Has to say what a reply looks like."""


@dataclass(frozen=True, kw_only=True)
class TerminusLite:
    """See the module."""

    options: TerminusLiteOptions
    clock: Callable[[], float] = time.time
    make_token: Callable[[], str] = lambda: secrets.token_hex(8)
    name: str = "terminus-lite"
    version: str | None = VERSION

    async def setup(self, sandbox: Sandbox) -> None:
        """HarnessError when the box has no `sh`."""
        done = await sandbox.exec(["sh", "-c", "exit 0"], cwd="/", timeout_seconds=60)
        if done.exit_code != 0:
            raise HarnessError(f"terminus-lite needs `sh` in the box: {done.error_text.strip()[-500:]}")

    async def run(self, task: AgentTask, sandbox: Sandbox, endpoint: ModelEndpoint | None) -> HarnessResult:
        """Work until DONE, the last turn, the deadline, or a prompt that no longer fits."""
        import openai

        if endpoint is None:
            raise HarnessError("terminus-lite needs a model, and the task has none")
        limit = self.options.timeout_seconds if task.timeout_seconds is None else task.timeout_seconds
        work = _Work(self, task, sandbox, deadline=self.clock() + limit)
        async with openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key,
            max_retries=self.options.max_retries,
            timeout=None,
        ) as client:
            status: HarnessStatus
            try:
                async with asyncio.timeout(limit) as deadline:
                    await work.begin()
                    status = await work.go_on(client, endpoint.model)
            except TimeoutError:
                if not deadline.expired():  # the box's own trouble
                    raise
                status = "timeout"
            except openai.BadRequestError as error:
                if error.code not in CONTEXT_CODES:
                    raise HarnessError(f"the model's endpoint refuses the request: {error}") from error
                status = "context_exceeded"
            except openai.APIError as error:
                raise HarnessError(f"the model's endpoint failed: {error}") from error
        return work.finish(status, endpoint.model)


class _Work:
    """One run: what was said and done so far."""

    def __init__(self, harness: TerminusLite, task: AgentTask, sandbox: Sandbox, *, deadline: float) -> None:
        self.options = harness.options
        self.harness = harness
        self.task = task
        self.sandbox = sandbox
        self.deadline = deadline
        self.cwd = task.workdir
        self.marker = f"castform-{harness.make_token()}-"
        self.log = StepLog(clock=lambda: datetime.fromtimestamp(harness.clock(), UTC).isoformat())
        self.messages: list[dict[str, Any]] = []  # Any: chat messages
        self.turns = 0

    async def begin(self) -> None:
        """Say the rules, what was said before, and the task."""
        self._say("system", self.options.system_prompt)
        if self.task.trajectory is not None:
            self.messages += make_messages(self.task.trajectory)
        text = self.task.instruction
        skills = await self._list_skills()
        if skills:
            text += "\n\nThese files describe skills that may help; read them where they fit:\n" + skills
        self._say("user", text)

    async def go_on(self, client: AsyncOpenAI, model: str) -> HarnessStatus:
        while self.turns < self.options.max_turns:
            reply, finish_reason = await self._ask(client, model)
            if finish_reason == "length":
                return "output_exceeded"
            shown = await self._run(reply)
            if reply.done:
                return "finished"
            self._say("user", shown)
        return "max_turns"

    async def _ask(self, client: AsyncOpenAI, model: str) -> tuple[ReadReply, str | None]:
        more: dict[str, Any] = {}  # Any: options of the SDK's call
        if self.options.max_new_tokens is not None:
            more["max_tokens"] = self.options.max_new_tokens
        try:
            answer: object = await client.chat.completions.create(
                model=model,
                messages=self.messages,  # type: ignore[arg-type]  # plain dicts
                **more,
            )
        except ValueError as error:
            raise HarnessError(f"the model's endpoint sent no JSON: {error}") from error
        said = read_answer(answer)
        self.turns += 1
        self.messages.append({"role": "assistant", "content": said.text})
        self.log.add_reply(said.text, said.reasoning, said.usage)
        return read_reply(said.text), said.finish_reason

    async def _run(self, reply: ReadReply) -> str:
        """Run the commands of a reply; return what the model is shown."""
        ran: list[tuple[str, str]] = []
        for command in reply.commands:
            outcome = await run_command(
                self.sandbox,
                command,
                cwd=self.cwd,
                user=self.task.user,
                env={**self.task.env, "CASTFORM_DEADLINE": str(int(self.deadline))},
                timeout_seconds=self.options.command_timeout_seconds,
                max_characters=self.options.max_output_characters,
                marker=self.marker,
            )
            self.cwd = outcome.cwd
            ran.append((command, outcome.text or NO_OUTPUT))
        if not ran:
            return NO_COMMANDS
        self.log.add_commands(ran)
        return "\n".join(printed for _, printed in ran)

    async def _list_skills(self) -> str:
        if not self.task.skills_dir:
            return ""
        done = await self.sandbox.exec(
            ["find", self.task.skills_dir, "-name", "SKILL.md"], cwd="/", timeout_seconds=60
        )
        return "\n".join(sorted(done.text.split("\n"))).strip()

    def _say(self, role: str, text: str) -> None:
        text = replace_surrogates(text)
        append_message(self.messages, role, text)
        if (
            role == "system"
            or not self.log.steps
            or self.log.steps[-1]["source"] != "agent"
            or "observation" not in self.log.steps[-1]
        ):
            self.log.add(role, text)

    def finish(self, status: HarnessStatus, model: str) -> HarnessResult:
        agent = {"name": self.harness.name, "version": VERSION, "model_name": model}
        metadata: dict[str, Any] = {"turns": self.turns, "harness": self.harness.name}  # Any: plain data
        if self.task.mcp_servers:
            metadata["not_offered"] = [server.name for server in self.task.mcp_servers]
        transcript = "\n".join(f"[{m['role']}]\n{m['content']}" for m in self.messages[1:])
        return HarnessResult(
            status=status,
            output=transcript[-KEPT_CHARACTERS:],
            trajectory=self.log.finish(session_id=self.marker.strip("-"), agent=agent),
            metadata=metadata,
        )


def make_terminus_lite(options: TerminusLiteOptions) -> TerminusLite:
    """Return the harness `terminus-lite`."""
    return TerminusLite(options=options)
