"""Open a vLLM engine as a run's config says: start a server, or join one."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.config import RunConfig
from castform.errors import ConfigError, MissingError, RunFailedError
from castform_trainer.engines.vllm import VllmEngine
from castform_trainer.engines.vllm_client import ServerGoneError, ServerRefusedError, VllmClient
from castform_trainer.engines.vllm_folder import read_end_ids
from castform_trainer.engines.vllm_options import (
    VllmOptions,
    find_python,
    make_command,
    make_environment,
    parse_options,
)
from castform_trainer.engines.vllm_server import (
    ServerProcess,
    make_secret,
    make_start_failure,
    reserve_port,
    start_process,
)

if TYPE_CHECKING:
    from castform_trainer.models import ModelFolder

POLL_SECONDS = 0.2


def make_vllm_engine(config: RunConfig, folder: ModelFolder) -> VllmEngine:
    """Start or join the server that `config.engine` names and return the engine on it, ready.

    Blocks until the server answers. Raises ConfigError for wrong options, UsageError for a port
    in use, MissingError when there is no server to join, RunFailedError when the server does not
    come up or reports logprobs that training cannot use.
    """
    options = parse_options(config.engine.options)
    if config.engine.url is not None:
        return join_server(config, folder, options, config.engine.url)
    return start_server(config, folder, options)


def start_server(config: RunConfig, folder: ModelFolder, options: VllmOptions) -> VllmEngine:
    """Start a server for `folder` and return the engine that owns it; it dies with the engine."""
    python = find_python(options)
    served_name = f"castform-{secrets.token_hex(4)}"
    api_key = make_secret()
    holder, port = reserve_port(options.port)
    work_dir = Path(tempfile.mkdtemp(prefix="castform-vllm-"))
    log_path = options.log.expanduser().absolute() if options.log else work_dir.with_suffix(".log")
    client = VllmClient(f"http://127.0.0.1:{port}", api_key=api_key)
    server: ServerProcess | None = None
    try:
        command = make_command(
            options,
            python=python,
            folder=folder.path,
            served_name=served_name,
            port=port,
            dtype=folder.dtype,
            device=folder.device,
            max_batch=config.engine.max_batch,
            max_context_tokens=config.sampling.max_context_tokens,
            lora_rank=config.lora.rank,
            deterministic=config.run.deterministic,
        )
        environment = make_environment(
            options, api_key=api_key, device=folder.device, threads=config.run.threads
        )
        server = start_process(command, environment, folder=work_dir, log_path=log_path)
        wait_until_ready(client, server, options.start_timeout_seconds)
        engine = VllmEngine(
            client=client,
            base_name=served_name,
            max_context_tokens=_read_context(client, served_name)[1],
            eos_token_ids=read_end_ids(folder.path),
            request_timeout_seconds=options.request_timeout_seconds,
            work_dir=work_dir,
            adapter_dir=options.adapter_dir,
            server=server,
            keep_log=options.log is not None,
        )
        client.run_blocking(engine.check_sampling())
    except BaseException:
        client.close()
        if server is not None:
            server.stop()
        _remove_if_empty(work_dir)
        raise
    finally:
        holder.close()
    return engine


def join_server(config: RunConfig, folder: ModelFolder, options: VllmOptions, url: str) -> VllmEngine:
    """Return an engine on a server that runs already and stays when the engine closes."""
    if config.run.deterministic:
        raise ConfigError(
            "run.deterministic needs a vLLM server that castform starts, engine.url joins one",
            hint="leave engine.url out, or run.deterministic off",
        )
    client = VllmClient(url.removesuffix("/").removesuffix("/v1"), api_key=_read_key(options))
    work_dir = Path(tempfile.mkdtemp(prefix="castform-vllm-"))
    try:
        base_name, served_context = _read_context(client, options.model)
        engine = VllmEngine(
            client=client,
            base_name=base_name,
            max_context_tokens=min(served_context, options.max_model_len or served_context),
            eos_token_ids=read_end_ids(folder.path),
            request_timeout_seconds=options.request_timeout_seconds,
            work_dir=work_dir,
            adapter_dir=options.adapter_dir.absolute() if options.adapter_dir else None,
        )
        client.run_blocking(engine.check_sampling())
    except BaseException:
        client.close()
        _remove_if_empty(work_dir)
        raise
    return engine


def wait_until_ready(
    client: VllmClient,
    server: ServerProcess,
    timeout_seconds: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when the server answers; raises RunFailedError when it ends first or takes too long."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            client.run_blocking(client.call("GET", "/health", timeout_seconds=5.0))
        except (ServerGoneError, ServerRefusedError):
            if not server.is_running():
                raise make_start_failure(server.log_path, "ended before it was ready") from None
            if time.monotonic() > deadline:
                reason = f"was not ready after {timeout_seconds:g} s"
                raise make_start_failure(server.log_path, reason) from None
            sleep(POLL_SECONDS)
        else:
            return


def _read_context(client: VllmClient, name: str | None) -> tuple[str, int]:
    """Return a served model's name (None: the first) and its longest context in tokens."""
    try:
        reply = client.run_blocking(client.call("GET", "/v1/models", timeout_seconds=30.0))
    except ServerGoneError as error:
        raise MissingError(
            f"no vLLM server at {client.url}: {error}", hint="is it running, and is engine.url right?"
        ) from error
    except ServerRefusedError as error:
        raise MissingError(
            f"the server at {client.url} refused to list its models: {error}",
            hint="name the environment variable that holds its key in engine.options.api_key_env",
        ) from error
    models: list[dict[str, Any]] = reply.get("data", []) if isinstance(reply, dict) else []
    for model in models:
        if (name is None and not model.get("parent")) or model.get("id") == name:
            length = model.get("max_model_len")
            if not isinstance(length, int):
                raise RunFailedError(f"the server at {client.url} is not vLLM: it tells no max_model_len")
            return str(model["id"]), length
    names = ", ".join(str(model.get("id")) for model in models) or "none"
    raise MissingError(f"the server at {client.url} has no model {name!r}; it has {names}")


def _read_key(options: VllmOptions) -> str | None:
    if options.api_key_env is None:
        return None
    key = os.environ.get(options.api_key_env)
    if not key:
        raise ConfigError(f"engine.options.api_key_env names {options.api_key_env}, which is not set")
    return key


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # something is in it that may say what went wrong
