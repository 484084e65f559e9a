"""An agent program behind a command template, run in a box."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from castform.harness.contract import AgentTask, HarnessError, HarnessResult, HarnessStatus
from castform.harness.launch import Extend, Extras, Launch, Place, make_launch, make_values
from castform.harness.settings import HarnessSection, StatusRule
from castform.sandbox.contract import ExecResult, ModelEndpoint, Sandbox
from castform.sandbox.errors import ExecTimeoutError, SandboxError, SandboxFileError

KEPT_CHARACTERS = 32_768
"""Of stdout and of stderr, in a result."""
MAX_TRAJECTORY_BYTES = 64 << 20
MAKE_PLACE = (
    "sh",
    "-c",
    'umask 077; dir="${TMPDIR:-/tmp}/$1"; mkdir "$dir" || exit 1; umask 022; '
    'printf "%s\\n" "$PWD" "${HOME:-/}" "$dir"; '
    'if mkdir -p "$2" 2>/dev/null && [ -w "$2" ]; then echo writable; else echo locked; fi',
    "sh",
)
"""Prints four lines: working folder, home, the run's folder, whether the log folder can be written to."""
NOT_STARTED = (126, 127)
LAST_RULES = (StatusRule(status="context_exceeded", output="context_budget_exceeded"),)
"""The gateway's own word for a prompt that leaves no room."""


def add_nothing(task: AgentTask, values: Mapping[str, object]) -> Extras:
    """Extend a template by nothing."""
    return Extras()


@dataclass(frozen=True, kw_only=True)
class CommandHarness:
    """Any program that takes a task and calls a model, by its `[harness]` section."""

    section: HarnessSection
    base_dir: Path = Path()
    """Where relative sources of `upload` start."""
    extend: Extend = add_nothing
    """What a binding adds for each task."""
    clock: Callable[[], float] = time.time
    """Says the deadline to the program, in Unix time."""
    timer: Callable[[], float] = time.monotonic
    """Measures the time that is left: the clock may be set meanwhile."""
    make_token: Callable[[], str] = lambda: secrets.token_hex(8)

    @property
    def name(self) -> str:
        return self.section.name

    @property
    def version(self) -> str | None:
        return self.section.version

    async def setup(self, sandbox: Sandbox) -> None:
        """Upload, check, install where the check fails or there is none, check again. HarnessError with the way out."""
        for target, source in self.section.upload.items():
            path = self.base_dir / Path(source).expanduser()  # noqa: ASYNC240 - spells a name out
            if not path.exists():
                raise HarnessError(f"the harness {self.name} uploads {path}, which does not exist")
            await sandbox.upload(path, target)
        check = self.section.check
        if check is not None and await self._passes(sandbox, check):
            return
        if check is not None and not self.section.installs:
            raise HarnessError(
                f"{self.name} is not in the box ({check!r} fails), and nothing says how to install it: "
                "put it into the image, or set harness.install"
            )
        for script in self.section.installs:
            await self._install(sandbox, script)
        if check is not None and not await self._passes(sandbox, check):
            raise HarnessError(f"{self.name} was installed, and {check!r} fails nevertheless")

    async def _passes(self, sandbox: Sandbox, check: str) -> bool:
        return (await self._run_script(sandbox, check, user=self.section.user)).exit_code == 0

    async def _install(self, sandbox: Sandbox, script: str) -> None:
        done = await self._run_script(sandbox, script, user=self.section.install_user)
        if done.exit_code != 0:
            tail = (done.error_text.strip() or done.text.strip())[-2000:]
            raise HarnessError(
                f"{self.name} cannot be installed, {script!r} ended with {done.exit_code}: {tail}\n"
                "(a box without network installs nothing: put the program into the image)"
            )

    async def _run_script(self, sandbox: Sandbox, script: str, *, user: str | None) -> ExecResult:
        try:
            return await sandbox.exec(
                [self.section.shell, "-c", script],
                env=self._plain_env(),
                user=user,
                timeout_seconds=self.section.install_timeout_seconds,
            )
        except ExecTimeoutError as error:
            raise HarnessError(
                f"{self.name}: {script!r} took longer than {self.section.install_timeout_seconds:g} s"
            ) from error

    def _plain_env(self) -> dict[str, str]:
        """Return the variables that need no task, PATH above all."""
        return {k: v for k, v in self.section.env.items() if "{" not in v and "}" not in v}

    async def run(self, task: AgentTask, sandbox: Sandbox, endpoint: ModelEndpoint | None) -> HarnessResult:
        """Write the files, run the program until its end or its deadline, say how it ended."""
        began = self.timer()
        started = self.clock()
        limit = self.section.timeout_seconds if task.timeout_seconds is None else task.timeout_seconds
        inside = None if endpoint is None else await sandbox.connect(endpoint)
        place = await self._make_place(task, sandbox, started + limit, limit)
        keys = [each.api_key for each in (endpoint, inside) if each is not None]
        try:
            values = make_values(task, inside, place)
            launch = make_launch(self.section, task, values, self.extend(task, values))
            await self._prepare(sandbox, launch, began + limit, keys)
            result = await self._execute(sandbox, launch, place, began + limit, keys)
        finally:
            await self._clean_up(sandbox, place, as_root=bool(task.user or self.section.user))
        metadata = {**result.metadata, "seconds": round(self.timer() - began, 3), "harness": self.name}
        metadata |= {"version": self.version} if self.version else {}
        return replace(result, metadata=metadata)

    async def _make_place(self, task: AgentTask, sandbox: Sandbox, deadline: float, limit: float) -> Place:
        """Make the run's own folder, the program's user's, and the log folder; look where things are."""
        user = task.user or self.section.user
        done = await sandbox.exec(
            [*MAKE_PLACE, f"castform-run-{self.make_token()}", task.log_dir],
            cwd=task.workdir,
            user=user,
            timeout_seconds=60,
        )
        lines = done.text.splitlines()
        if done.exit_code != 0 or len(lines) != 4:
            raise HarnessError(
                f"{self.name}: the box cannot be prepared: {done.error_text.strip()[-500:] or done.text[-500:]}"
            )
        if lines[3] != "writable":
            await self._open_log_dir(sandbox, task.log_dir)
        return Place(
            run_dir=lines[2],
            workdir=task.workdir or lines[0],
            home=lines[1],
            log_dir=task.log_dir,
            deadline=deadline,
            timeout_seconds=limit,
        )

    async def _open_log_dir(self, sandbox: Sandbox, path: str) -> None:
        made = await sandbox.exec(
            ["sh", "-c", 'mkdir -p "$1" && chmod 777 "$1"', "sh", path],
            cwd="/",
            user="root",
            timeout_seconds=60,
        )
        if made.exit_code != 0:
            raise HarnessError(f"{self.name}: cannot make {path}: {made.error_text.strip()[-500:]}")

    async def _prepare(self, sandbox: Sandbox, launch: Launch, ends: float, keys: Sequence[str]) -> None:
        """Write the files and run `prepare`, as the program's user."""
        if launch.user and launch.files:  # or the folders above them would be root's
            folders = sorted({str(PurePosixPath(file.path).parent) for file in launch.files})
            await sandbox.exec(["mkdir", "-p", *folders], cwd="/", user=launch.user, timeout_seconds=60)
        for file in launch.files:
            await sandbox.write_file(file.path, file.data, mode=file.mode, user=launch.user)
        if launch.prepare is None:
            return
        try:
            done = await sandbox.exec(
                [self.section.shell, "-c", launch.prepare],
                cwd=launch.workdir,
                env=launch.env,
                user=launch.user,
                timeout_seconds=max(1.0, ends - self.timer()),
            )
        except ExecTimeoutError as error:
            raise HarnessError(f"{self.name}: prepare took all of the program's time") from error
        if done.exit_code != 0:
            raise HarnessError(
                f"{self.name}: prepare ended with {done.exit_code}: {_hide(done.error_text, keys).strip()[-2000:]}"
            )

    async def _execute(
        self, sandbox: Sandbox, launch: Launch, place: Place, ends: float, keys: Sequence[str]
    ) -> HarnessResult:
        left = ends - self.timer()
        status: HarnessStatus
        code: int | None = None
        try:
            if left <= 0:
                return HarnessResult(
                    status="timeout", output="its time was over before the program could start"
                )
            done = await sandbox.exec(
                launch.argv,
                cwd=launch.workdir,
                env=launch.env,
                user=launch.user,
                timeout_seconds=left,
                stdin=launch.stdin,
            )
        except ExecTimeoutError as error:
            status, done = "timeout", error.result
        else:
            code = done.exit_code
            await self._check_started(sandbox, launch, done)
            status = self._judge(done)
        output = _show(done, keys)
        await self._log(sandbox, place, output)
        trajectory, note = await self._read_trajectory(sandbox, launch.trajectory, keys)
        return HarnessResult(
            status=status, exit_code=code, output=output, trajectory=trajectory, metadata=note
        )

    def _judge(self, done: ExecResult) -> HarnessStatus:
        text = f"{done.text}\n{done.error_text}"
        for rule in (*self.section.status, *LAST_RULES):
            if rule.fits(done.exit_code, text, self.section.success_exit_codes):
                return rule.status
        return "finished" if done.exit_code in self.section.success_exit_codes else "nonzero_exit"

    async def _check_started(self, sandbox: Sandbox, launch: Launch, done: ExecResult) -> None:
        """Raise HarnessError where 126 or 127 means that there is no such program."""
        if done.exit_code not in NOT_STARTED or done.stdout:
            return
        found = await sandbox.exec(
            ["sh", "-c", 'cd -- "$2" || exit 3; command -v -- "$1"', "sh", launch.argv[0], launch.workdir],
            cwd="/",
            env=launch.env,
            user=launch.user,
            timeout_seconds=60,
        )
        if found.exit_code == 3:
            raise HarnessError(f"the folder {launch.workdir!r}, where {self.name} works, is not in the box")
        if found.exit_code != 0:
            raise HarnessError(
                f"the program {launch.argv[0]!r} of the harness {self.name} is not in the box: put it into the "
                "image, or set harness.install"
            )

    async def _log(self, sandbox: Sandbox, place: Place, output: str) -> None:
        """Leave the output where the program's logs are; a full disk or an odd folder is no failure."""
        try:
            await sandbox.write_file(f"{place.log_dir}/{self.name}.txt", output.encode("utf-8", "replace"))
        except SandboxFileError:
            return

    async def _read_trajectory(
        self, sandbox: Sandbox, path: str | None, keys: Sequence[str]
    ) -> tuple[Mapping[str, Any] | None, dict[str, Any]]:  # Any: ATIF; plain metadata
        if path is None:
            return None, {}
        try:
            text = (await sandbox.read_file(path, max_bytes=MAX_TRAJECTORY_BYTES)).decode()
            data = json.loads(_hide(text, keys))
        except (SandboxFileError, ValueError, RecursionError) as error:
            return None, {"trajectory_fault": f"{path}: {error}"}
        if not isinstance(data, dict) or not isinstance(data.get("steps"), list):
            return None, {"trajectory_fault": f"{path} is no ATIF document"}
        return data, {}

    async def _clean_up(self, sandbox: Sandbox, place: Place, *, as_root: bool) -> None:
        """Remove the run's own folder, keys included; a box that is gone has none."""
        try:
            await sandbox.exec(
                ["rm", "-rf", place.run_dir],
                cwd="/",
                user="root" if as_root else None,
                timeout_seconds=60,
            )
        except SandboxError:
            return


def _show(done: ExecResult, keys: Sequence[str]) -> str:
    """Return the tails of both outputs as one text, without keys."""
    parts = [_tail(_hide(done.text, keys), done.stdout_dropped)]
    if done.stderr:
        parts.append(f"[stderr]\n{_tail(_hide(done.error_text, keys), done.stderr_dropped)}")
    return "\n".join(part for part in parts if part)


def _tail(text: str, dropped: int) -> str:
    cut = len(text) > KEPT_CHARACTERS or dropped
    return f"[… the start is left out]\n{text[-KEPT_CHARACTERS:]}" if cut else text


def _hide(text: str, keys: Sequence[str]) -> str:
    for key in keys:
        if len(key) > 3:
            text = text.replace(key, "[key]")
    return text
