"""An environment for the real harbor that needs the plain docker command and no Compose plugin.

It runs in Harbor's own Python, with this folder on its path, and imports nothing of castform:
`harbor run --env castform_docker:DockerCli`. Single-container tasks; networks on and off, also by phase.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult  # type: ignore[import-not-found]  # Harbor's venv
from harbor.environments.capabilities import (  # type: ignore[import-not-found]  # as above
    EnvironmentCapabilities,
    EnvironmentResourceCapabilities,
)

LABEL = "castform.real-harbor"
LABEL_VARIABLE = "CASTFORM_HARBOR_LABEL"
"""Its value is the label's: by it the caller removes what a killed harbor left."""
DOCKERS_OWN = frozenset(
    (
        *("PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "GODEBUG", "DOCKER_HOST", "DOCKER_CONTEXT"),
        *("DOCKER_CONFIG", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION"),
        *("DOCKER_DEFAULT_PLATFORM", "DOCKER_CONTENT_TRUST", "DOCKER_CONTENT_TRUST_SERVER"),
    )
)
"""Variables that the docker command itself reads: a task's own values are for its container alone."""
LOGS = ("/logs/agent", "/logs/verifier", "/logs/artifacts")
OUTPUT_BYTES = 8 << 20
"""Of one command's output that is kept: the tail."""
_SHELL = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$0"; else exec sh -c "$0"; fi'
_LOCKS: dict[str, asyncio.Lock] = {}  # one build at a time of one image in this process


class DockerCli(BaseEnvironment):  # type: ignore[misc]  # its base is Any where Harbor is not installed
    """One container, driven by `docker`."""

    @staticmethod
    def type() -> str:
        return "castform-docker"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True, dynamic_network_policy=True)

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True, fractional_cpus=True)

    @classmethod
    def preflight(cls, kwargs: dict[str, Any] | None = None) -> None:
        super().preflight(kwargs)
        if shutil.which("docker") is None:
            raise SystemExit("the docker command is not on PATH")

    def _validate_definition(self) -> None:
        if (self.environment_dir / "docker-compose.yaml").exists():
            raise ValueError("this environment runs single containers; the task is a Docker Compose project")
        if not self.task_env_config.docker_image and not (self.environment_dir / "Dockerfile").exists():
            raise FileNotFoundError(f"{self.environment_dir} has no Dockerfile and the task names no image")

    @property
    def _container(self) -> str:
        digest = hashlib.sha256(self.session_id.encode()).hexdigest()[:8]
        return f"{re.sub('[^A-Za-z0-9_.-]', '-', self.session_id)[:100].strip('-')}-{digest}"

    async def start(self, force_build: bool) -> None:
        image = self.task_env_config.docker_image
        if not image or (force_build and (self.environment_dir / "Dockerfile").exists()):
            image = await self._build(force=force_build)
        await _docker("rm", "--force", "--volumes", self._container)
        env = self._startup_env()
        await _checked(
            "run",
            "--detach",
            "--name",
            self._container,
            "--label",
            f"{LABEL}={os.environ.get(LABEL_VARIABLE, 'unlabelled')}",
            "--network",
            "bridge" if self._network_is_public else "none",
            *(() if self._effective_cpus is None else ("--cpus", str(self._effective_cpus))),
            *(() if self._effective_memory_mb is None else ("--memory", f"{self._effective_memory_mb}m")),
            *_env_words(env),
            image,
            "sh",
            "-c",
            "sleep infinity",
            env=env,
        )
        await self.ensure_dirs(LOGS)
        await self._upload_environment_dir_after_start()

    async def _build(self, *, force: bool) -> str:
        tag = f"castform-real-harbor:{_hash_folder(self.environment_dir)[:32]}"
        async with _LOCKS.setdefault(tag, asyncio.Lock()):
            known = await _docker("image", "inspect", "--format", "{{.Id}}", tag)
            if known.return_code or force:
                await _checked(
                    "build", "--quiet", "--label", f"{LABEL}=image", "--tag", tag, str(self.environment_dir)
                )
        return tag

    async def stop(self, delete: bool) -> None:
        await _docker(
            "rm" if delete else "stop", *(("--force", "--volumes") if delete else ()), self._container
        )

    async def _apply_network_policy(self, network_policy: Any) -> None:
        public = network_policy.network_mode.value == "public"
        leave, join = ("none", "bridge") if public else ("bridge", "none")
        await _docker("network", "disconnect", "--force", leave, self._container)
        await _checked("network", "connect", join, self._container)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        merged = self._merge_env(env) or {}
        place = cwd or self.task_env_config.workdir
        who = self._resolve_user(user)
        return await _docker(
            "exec",
            *(("--workdir", place) if place else ()),
            *(() if who is None else ("--user", str(who))),
            *_env_words(merged),
            self._container,
            "sh",
            "-c",
            _SHELL,
            command,
            env=merged,
            timeout_seconds=timeout_sec,
        )

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self._make_folder(str(Path(target_path).parent))
        await _checked("cp", str(source_path), f"{self._container}:{target_path}")

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._make_folder(target_dir)
        await _checked("cp", f"{source_dir}/.", f"{self._container}:{target_dir}")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await asyncio.to_thread(Path(target_path).parent.mkdir, parents=True, exist_ok=True)
        await _checked("cp", f"{self._container}:{source_path}", str(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await asyncio.to_thread(Path(target_dir).mkdir, parents=True, exist_ok=True)
        await _checked("cp", f"{self._container}:{source_dir}/.", str(target_dir))

    async def _make_folder(self, path: str) -> None:
        made = await _docker("exec", "--user", "root", self._container, "mkdir", "-p", path)
        if made.return_code:
            raise RuntimeError(f"cannot make {path} in the container: {made.stdout}")


async def _checked(*words: str, env: dict[str, str] | None = None) -> ExecResult:
    done = await _docker(*words, env=env)
    if done.return_code:
        raise RuntimeError(f"docker {words[0]} failed: {(done.stdout or '').strip()[-2000:]}")
    return done


def _env_words(env: dict[str, str]) -> list[str]:
    """Return options that set the variables in the container: by name, but by value those that docker reads too."""
    return [
        word
        for name, value in env.items()
        for word in ("--env", f"{name}={value}" if name in DOCKERS_OWN else name)
    ]


async def _docker(
    *words: str, env: dict[str, str] | None = None, timeout_seconds: float | None = None
) -> ExecResult:
    """Run docker. Values of `env` reach it by its environment, save what would change docker itself."""
    passed = {name: value for name, value in (env or {}).items() if name not in DOCKERS_OWN}
    process = await asyncio.create_subprocess_exec(
        "docker",
        *words,
        env={**os.environ, **passed},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            output = await _read_tail(process)
            await process.wait()
    except TimeoutError:
        raise RuntimeError(f"Command timed out after {timeout_seconds} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return ExecResult(stdout=output.decode("utf-8", "replace"), stderr=None, return_code=process.returncode)


async def _read_tail(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None  # PIPE was asked for
    kept = b""
    while chunk := await process.stdout.read(1 << 16):
        kept = (kept + chunk)[-OUTPUT_BYTES:] if len(kept) + len(chunk) > OUTPUT_BYTES else kept + chunk
    return kept


def _hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            digest.update(
                f"{name}\0{path.stat().st_mode & 0o777:o}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
            )
    return digest.hexdigest()
