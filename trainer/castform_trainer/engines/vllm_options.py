"""What `[engine.options]` may say for vllm, and the command line that comes of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from castform.errors import ConfigError

LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values that `--max-lora-rank` takes."""


class VllmOptions(BaseModel):
    """`[engine.options]` of a run with `engine.name = "vllm"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    python: Path | None = None
    """Interpreter that has vllm. Unset: CASTFORM_VLLM_PYTHON, else the one castform runs in."""
    port: int | None = Field(None, ge=1, le=65535)
    """Loopback port of a started server. Unset: one that is free."""
    start_timeout_seconds: float = Field(600.0, gt=0)
    """A server that is not ready by then is stopped and the run fails."""
    request_timeout_seconds: float = Field(600.0, gt=0)
    """A reply that takes longer fails."""
    log: Path | None = None
    """File for the server's output. Unset: in a temporary folder, kept when the server fails."""
    max_model_len: int | None = Field(None, ge=2)
    """Prompt plus reply, in tokens. Unset: sampling.max_context_tokens, else what fits the cache."""
    lora: bool = True
    """Serve adapters. Off saves time where only the base model is evaluated."""
    max_loras: int = Field(4, ge=1)
    """Adapter versions that one batch may hold; versions still in use at the same time."""
    enforce_eager: bool | None = None
    """Do not compile. Unset: on for the CPU, off on a GPU."""
    block_size: int | None = Field(None, ge=1)
    """Tokens of a cache block; a prompt is shared in whole blocks. Unset: 32 on the CPU, else vLLM's."""
    gpu_memory_utilization: float = Field(0.45, gt=0, le=1)
    """Share of the GPU that the server takes; the learner needs the rest. Not used on the CPU."""
    kv_cache_gib: int = Field(2, ge=1)
    """CPU only (VLLM_CPU_KVCACHE_SPACE): memory of the key-value cache."""
    cpu_threads: int | None = Field(None, ge=1)
    """CPU only (OMP_NUM_THREADS). Unset: run.threads, else every CPU that castform may use."""
    cpu_bind: str = "nobind"
    """CPU only (VLLM_CPU_OMP_THREADS_BIND): CPUs that threads are pinned to, as `0-3`, or `nobind`."""
    arguments: list[str] = Field(default_factory=list)
    """More arguments for the server, after castform's own."""
    environment: dict[str, str] = Field(default_factory=dict)
    """More environment variables for the server."""
    adapter_dir: Path | None = None
    """Folder for adapter copies; a joined server must see it under the same path. Unset: temporary."""
    model: str | None = None
    """Joined server: name of the base model there. Unset: the first that it lists."""
    api_key_env: str | None = None
    """Joined server: environment variable that holds its key."""


def parse_options(options: Mapping[str, Any]) -> VllmOptions:
    """Check `[engine.options]`; raises ConfigError with every fault at once."""
    try:
        return VllmOptions.model_validate(dict(options))
    except ValidationError as error:
        faults = [
            f"  engine.options.{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
            for item in error.errors()
        ]
        raise ConfigError(
            "\n".join([f"{len(faults)} wrong engine option(s) for vllm:", *faults]),
            hint=f"vllm knows {', '.join(sorted(VllmOptions.model_fields))}",
        ) from error


def find_python(options: VllmOptions) -> Path:
    """Return the interpreter that the server runs in; raises ConfigError when it is no file."""
    named = options.python or os.environ.get("CASTFORM_VLLM_PYTHON") or sys.executable
    python = Path(named).expanduser()
    if not python.is_file():
        raise ConfigError(
            f"no Python interpreter at {python}",
            hint="set engine.options.python or CASTFORM_VLLM_PYTHON to the python of an environment with vllm",
        )
    return python.absolute()


def make_command(
    options: VllmOptions,
    *,
    python: Path,
    folder: Path,
    served_name: str,
    port: int,
    dtype: str,
    device: str,
    max_batch: int,
    max_context_tokens: int | None,
    lora_rank: int,
    deterministic: bool,
) -> list[str]:
    """Return the server's command line.

    `--generation-config vllm` keeps the model folder's own sampling defaults out;
    `--logprobs-mode processed_logprobs` reports what the sampler drew from.
    """
    length = options.max_model_len or max_context_tokens
    command = [
        *(str(python), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(folder), "--served-model-name", served_name),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", dtype, "--max-model-len", str(length or "auto")),
        *("--generation-config", "vllm", "--logprobs-mode", "processed_logprobs"),
        *("--max-num-seqs", str(1 if deterministic else max_batch)),
        "--disable-uvicorn-access-log",
    ]
    if deterministic:
        command.append("--no-enable-prefix-caching")
    if options.lora:
        rank = next((r for r in LORA_RANKS if r >= lora_rank), None)
        if rank is None:
            raise ConfigError(f"lora.rank is {lora_rank}, but vLLM serves at most {LORA_RANKS[-1]}")
        command += ["--enable-lora", "--max-lora-rank", str(rank), "--max-loras", str(options.max_loras)]
    on_cpu = device == "cpu"
    if options.enforce_eager or (options.enforce_eager is None and on_cpu):
        command.append("--enforce-eager")
    block_size = options.block_size or (32 if on_cpu else None)
    if block_size:
        command += ["--block-size", str(block_size)]
    if not on_cpu:
        command += ["--gpu-memory-utilization", str(options.gpu_memory_utilization)]
    return command + options.arguments


def make_environment(
    options: VllmOptions, *, api_key: str, device: str, threads: int | None
) -> dict[str, str]:
    """Return the server's environment: ours, without what belongs to our interpreter."""
    dropped = {"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {
        "VLLM_API_KEY": api_key,
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",  # the model is a folder on disk
    }
    if device.startswith("cuda:"):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        index = int(device.removeprefix("cuda:"))
        environment["CUDA_VISIBLE_DEVICES"] = (
            visible[index] if index < len(visible) and visible[0] else str(index)
        )
    if device == "cpu":
        count = options.cpu_threads or threads or len(os.sched_getaffinity(0))
        environment |= {
            "VLLM_CPU_KVCACHE_SPACE": str(options.kv_cache_gib),
            "VLLM_CPU_OMP_THREADS_BIND": options.cpu_bind,
            "OMP_NUM_THREADS": str(count),
        }
        if options.enforce_eager is not False:
            # Even then the sampler would compile one small kernel, half a minute on a slow CPU.
            environment["TORCHDYNAMO_DISABLE"] = "1"
    return environment | options.environment
