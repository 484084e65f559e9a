"""Load a bundle: check it first, unpickle it last."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, overload

from packaging.version import InvalidVersion, Version

from benchmax.bundle.arguments import EnvironmentClass
from benchmax.bundle.bundle import Bundle
from benchmax.bundle.data_files import lay_out_data
from benchmax.bundle.errors import BundlingError, IncompatibleBenchmaxError, IncompatiblePythonError
from benchmax.bundle.metadata import BundleMetadata
from benchmax.bundle.places import bundle_folder
from benchmax.bundle.signing import check_integrity
from benchmax.envs import Environment


def validate_bundle_compatibility(metadata: BundleMetadata) -> None:
    """Raise when a bundle was made for another runtime. Nothing is unpickled.

    IncompatiblePythonError unless major and minor version of Python are the same;
    IncompatibleBenchmaxError unless those of benchmax are.
    """
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if _minor(metadata.python_version) != (sys.version_info.major, sys.version_info.minor):
        raise IncompatiblePythonError(
            f"the bundle was made by Python {metadata.python_version}, and this is Python {running}; "
            "load it with that Python, or make it again with this one"
        )
    import benchmax

    made, here = _minor(metadata.benchmax_version), _minor(benchmax.__version__)
    if made is None or made != here:
        raise IncompatibleBenchmaxError(
            f"the bundle was made with benchmax {metadata.benchmax_version}, and this is benchmax "
            f"{benchmax.__version__}; major and minor version must be the same"
        )


def _minor(version: str) -> tuple[int, int] | None:
    try:
        parsed = Version(version)
    except InvalidVersion:
        return None
    return (parsed.major, parsed.minor)


# Any: payload and attempt types, and constructor arguments, are the environment's own.
@overload
def load_bundle(
    bundle: Bundle,
    *,
    instantiate: Literal[True] = True,
    digest: str | None = None,
    key: bytes | None = None,
    data_folder: Path | None = None,
) -> Environment[Any, Any]: ...
@overload
def load_bundle(
    bundle: Bundle,
    *,
    instantiate: bool,
    digest: str | None = None,
    key: bytes | None = None,
    data_folder: Path | None = None,
) -> Environment[Any, Any] | tuple[EnvironmentClass, dict[str, Any]]: ...
def load_bundle(
    bundle: Bundle,
    *,
    instantiate: bool = True,
    digest: str | None = None,
    key: bytes | None = None,
    data_folder: Path | None = None,
) -> Environment[Any, Any] | tuple[EnvironmentClass, dict[str, Any]]:
    """Return the environment of a bundle, or with `instantiate=False` its class and arguments.

    Unpickling runs whatever the bundle's maker wrote: in this process load only what you
    trust as you trust your own code, and say with `digest` or `key` which bundle that is.
    `castform bundle check` loads in a process and an environment of its own. Dependencies
    are never installed here. `data_folder`, empty or new, is where data files are laid out.

    In this order: BundleIntegrityError for another digest or signature, IncompatibleRuntimeError
    for another runtime, BundlingError for what cannot be unpickled or is no environment.
    """
    check_integrity(bundle, digest=digest, key=key)
    validate_bundle_compatibility(bundle.metadata)
    if data_folder is not None:
        lay_out_data(bundle.data, data_folder)
    with bundle_folder(None if data_folder is None else data_folder.resolve()):
        env_class, args = _unpickle(bundle.pickled)
        return env_class(**args) if instantiate else (env_class, args)


def _unpickle(pickled: bytes) -> tuple[EnvironmentClass, dict[str, Any]]:
    import pickle

    try:
        payload = pickle.loads(pickled)
    except BundlingError:
        raise
    except ModuleNotFoundError as error:
        raise BundlingError(
            f"the bundle needs the module {error.name!r}, which is not installed here and which it "
            "may not declare"
        ) from error
    except Exception as error:  # a pickle runs the code of its maker
        raise BundlingError(f"the bundle cannot be unpickled: {type(error).__name__}: {error}") from error
    if not isinstance(payload, tuple) or len(payload) != 2:
        raise BundlingError(
            f"the bundle holds {type(payload).__name__}, not a pair of class and constructor arguments"
        )
    env_class, args = payload
    if not isinstance(env_class, type) or not issubclass(env_class, Environment):
        raise BundlingError(f"the bundle holds {env_class!r}, which is not an Environment class")
    if not isinstance(args, Mapping) or not all(isinstance(key, str) for key in args):
        raise BundlingError("the bundle's constructor arguments are not a mapping of names")
    return env_class, dict(args)
