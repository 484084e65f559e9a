"""From a name to an environment: the library's own loading, with its mistakes told apart from ours."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from castform.plugins import ConfigError, MissingError
from castform_env_verifiers.config import SumsConfig, VerifiersConfig
from castform_env_verifiers.environment import VerifiersEnvironment


def make_environment(config: VerifiersConfig) -> VerifiersEnvironment:
    """Return an installed verifiers environment.

    Raises MissingError when no such package is installed here, ConfigError for arguments that it does
    not take; what its load_environment raises itself comes out as it is.
    """
    return _make(config.name, config.args, config.held_out)


def make_sums(config: SumsConfig) -> VerifiersEnvironment:
    """Return the small environment of this plugin, loaded as any other."""
    return _make("castform_env_verifiers.sums", {"largest": config.largest}, held_out=0.2)


def _make(name: str, args: Mapping[str, Any], held_out: float) -> VerifiersEnvironment:
    module = name.replace("-", "_").split("/")[-1]
    if not _is_installed(module):
        raise MissingError(
            f"no verifiers environment called {name!r} is installed here: there is no module {module}",
            hint="castform env install castform-env-verifiers --isolated --with PACKAGE puts it there",
        )
    with _keep_signals():
        load = getattr(importlib.import_module(module), "load_environment", None)
        if not callable(load):
            raise ConfigError(
                f"{module} has no load_environment, so it is no verifiers environment",
                hint="another package may have the same name",
            )
        _check_args(load, args, name)
        import verifiers

        try:
            inner = verifiers.load_environment(name, **args)
        except RuntimeError as error:  # the library wraps whatever it was
            raise error.__cause__ or error from None
    if not hasattr(inner, "rollout"):
        raise ConfigError(
            f"{name} made {type(inner).__module__}.{type(inner).__qualname__}, which has no rollouts",
            hint="environments of verifiers 0.1 are meant: SingleTurnEnv, MultiTurnEnv, ToolEnv and the like",
        )
    return VerifiersEnvironment(inner, held_out=held_out)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _check_args(load: Any, args: Mapping[str, Any], name: str) -> None:
    signature = inspect.signature(load)
    try:
        signature.bind(**args)
    except TypeError as error:
        known = ", ".join(signature.parameters) or "none"
        raise ConfigError(f"{name}: {error}", hint=f"args of its load_environment are {known}") from error


@contextmanager
def _keep_signals() -> Iterator[None]:
    """Put the handlers of SIGINT and SIGTERM back: the library replaces them for the whole process."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
