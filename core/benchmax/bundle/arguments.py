"""Check what is to be bundled before anything is pickled."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from benchmax.bundle.errors import BundlingError
from benchmax.envs import Environment

# Any: an environment's payload and attempt types, and arguments of its constructor.
EnvironmentClass = type[Environment[Any, Any]]


def check_environment_class(value: object) -> EnvironmentClass:
    """Return a class that can be made an instance of. BundlingError names what it still lacks."""
    if not isinstance(value, type):
        raise BundlingError(f"{value!r} is not a class; give the environment class, not an instance")
    if not issubclass(value, Environment):
        raise BundlingError(f"{value.__name__} does not derive from benchmax.envs.Environment")
    if inspect.isabstract(value):
        missing = ", ".join(sorted(value.__abstractmethods__))
        raise BundlingError(f"{value.__name__} is not complete: it still lacks {missing}")
    return value


def check_constructor_args(env_class: EnvironmentClass, args: object) -> dict[str, Any]:
    """Return keyword arguments that the class's constructor takes. BundlingError otherwise."""
    if args is None:
        args = {}
    if not isinstance(args, Mapping):
        raise BundlingError(f"constructor_args must be a mapping of names, not {type(args).__name__}")
    wrong = [key for key in args if not isinstance(key, str)]
    if wrong:
        raise BundlingError(f"constructor_args must have text for keys, not {wrong[0]!r}")
    try:
        signature = inspect.signature(env_class)
    except (TypeError, ValueError):  # a constructor in C does not say
        return dict(args)
    try:
        signature.bind(**args)
    except TypeError as error:
        known = ", ".join(signature.parameters) or "none"
        raise BundlingError(
            f"{env_class.__name__} cannot be made with these constructor_args: {error} (it takes: {known})"
        ) from error
    return dict(args)


def runtime_version() -> str:
    """Return benchmax's version as major.minor.patch. BundlingError when this benchmax has none."""
    import benchmax

    version = getattr(benchmax, "__version__", "unknown")
    if not isinstance(version, str) or not re.match(r"\d+\.\d+", version):
        raise BundlingError(
            f"the version of this benchmax is {version!r}; a bundle needs one to be checked by"
        )
    return version
