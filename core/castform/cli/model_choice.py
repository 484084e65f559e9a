"""The options that name a model, shared by `eval`, `validate` and `env certify`, and what they mean."""

from __future__ import annotations

import argparse
import math
import os
import pkgutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.errors import MissingError, UsageError

if TYPE_CHECKING:
    from castform.config import RunConfig
    from castform.endpoint import Endpoint

_OPEN_LOCAL = "castform_trainer.serving:open_endpoint"


def add_model_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Declare -m, --base-url and what goes with them, and the settings of a run."""
    add_endpoint_arguments(parser, required=required)
    parser.add_argument("--concurrency", type=int, metavar="N", help="rollouts at the same time")
    parser.add_argument("--seed", type=int, help="seed of everything random (run.seed)")
    add_environment_arguments(parser)
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        dest="assignments",
        help="one setting, rl.group_size=4 for one; `castform train --settings` lists them; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def add_endpoint_arguments(
    parser: argparse.ArgumentParser,
    *,
    required: bool,
    what: str = "pulled name, folder or hub id; or the server's",
) -> None:
    """Declare which model answers, and how: -m, --base-url, --adapter, --temperature and their like."""
    parser.add_argument("-m", "--model", required=required, help=what)
    parser.add_argument(
        "--base-url", metavar="URL", help="an OpenAI-compatible server instead of a local model"
    )
    parser.add_argument(
        "--api-key-env", metavar="NAME", help="environment variable that holds the server's key"
    )
    parser.add_argument(
        "--adapter", type=Path, metavar="DIR", help="PEFT LoRA folder on top of a local model"
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="0 is greedy")
    parser.add_argument("--max-new-tokens", type=int, metavar="N", help="most tokens of one reply")


def add_environment_arguments(
    parser: argparse.ArgumentParser,
    *,
    dest: str = "arg",
    what: str = "one argument of the environment, seed=2 for one; may be repeated",
) -> None:
    """Declare -a, which a settings' file and --set may say too (`environment.args`)."""
    parser.add_argument(
        "-a", "--arg", action="append", default=[], dest=dest, metavar="NAME=VALUE", help=what
    )


def add_workers_argument(parser: argparse.ArgumentParser) -> None:
    """Declare --workers, which a settings' file and --set may say too (`environment.workers`)."""
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes for the environment; 0: none (environment.workers)",
    )


def apply_arguments(config: RunConfig, words: Sequence[str]) -> RunConfig:
    """Return the settings with the NAME=VALUE words of -a; they win. UsageError for another word."""
    if not words:
        return config
    from castform.cli.env_show import parse_arguments
    from castform.config import replace_keys

    environment = replace_keys(config.environment, parse_arguments(words))
    return config.model_copy(update={"environment": environment})


def check_model_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together, before anything is loaded."""
    if args.base_url and not args.model:
        raise UsageError("--base-url needs -m, the model's name at that server")
    if args.api_key_env and not args.base_url:
        raise UsageError("--api-key-env is only for a server, which --base-url names")
    if args.adapter and args.base_url:
        raise UsageError(
            "--adapter is only for a local model", hint="load it into the server, and name it with -m"
        )
    if args.adapter and not (args.adapter / "adapter_config.json").is_file():
        raise UsageError(
            f"{args.adapter} is not a PEFT adapter folder: it has no adapter_config.json",
            hint="a run's adapter is in runs/<id>/adapter below CASTFORM_HOME",
        )
    temperature = getattr(args, "temperature", None)
    if temperature is not None and not 0 <= temperature < math.inf:
        raise UsageError(f"--temperature is {temperature}, not a number from 0 on")
    if args.api_key_env and not os.environ.get(args.api_key_env):
        raise UsageError(f"the environment variable {args.api_key_env} is not set")


def read_config(args: argparse.Namespace, **flags: Any) -> RunConfig:  # flags: values of settings
    """Read the settings that the options of `add_model_arguments` and further `flags` mean."""
    from castform.config import load_config

    config = load_config(
        args.config,
        args.assignments,
        environment__id=args.environment,
        model__id=args.model,
        run__seed=args.seed,
        sampling__max_new_tokens=args.max_new_tokens,
        rl__max_concurrent_rollouts=args.concurrency,
        **flags,
    )
    return apply_arguments(config, args.arg)


@asynccontextmanager
async def open_model(
    args: argparse.Namespace, config: RunConfig, *, log_path: Path
) -> AsyncIterator[tuple[Endpoint, int | None]]:
    """Give the endpoint that the options mean, and the adapter version to sample from.

    Raises MissingError when a local model needs an extra that is not installed.
    """
    if args.base_url:
        from castform.remote_endpoint import RemoteEndpoint

        key = os.environ.get(args.api_key_env, "") if args.api_key_env else ""
        remote = RemoteEndpoint(
            args.base_url, key, args.model, temperature=args.temperature, max_tokens=args.max_new_tokens
        )
        try:
            yield remote, None
        finally:
            await remote.aclose()
        return
    open_local = _reach(_OPEN_LOCAL)
    adapter = args.adapter or config.model.adapter
    extra = {"adapter": adapter} if adapter else {}
    async with open_local(config, log_path=log_path, **extra) as endpoint:
        yield endpoint, 1 if adapter else None


def _reach(reference: str) -> Any:  # a function of the trainer, which core may not import
    try:
        return pkgutil.resolve_name(reference)
    except ModuleNotFoundError as error:
        raise MissingError(
            f"a local model needs {error.name}, which is not installed",
            hint="pip install 'castform[train]', or use a server with --base-url",
        ) from error
