"""Make a bundle file from an environment's source file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.bundle import (
    Bundle,
    BundleSecretError,
    BundlingError,
    bundle_digest,
    dump_bundle,
    read_key,
    sign_bundle,
    write_bundle,
)
from castform.bundles.project_file import import_project_file
from castform.errors import UsageError
from castform.plugins.environment_files import load_environment_class


@dataclass(frozen=True, kw_only=True)
class MadeBundle:
    """A bundle that was written to a file."""

    path: Path
    bundle: Bundle
    digest: str
    notes: tuple[str, ...]
    """What deserves a look."""


def make_bundle(
    source: str,
    out: Path,
    *,
    args: Mapping[str, Any] | None = None,  # Any: the constructor's arguments are the author's
    dependencies: Sequence[str] = (),
    data: Sequence[Path] = (),
    key_file: Path | None = None,
    allow_secrets: bool = False,
) -> MadeBundle:
    """Bundle the environment class of `FILE.py` or `FILE.py:CLASS` and write it to `out`.

    Data paths are files or folders of the project, relative to the working directory.
    UsageError says what cannot go along; nothing is written then.
    """
    env_class, _ = load_environment_class(source, import_file=import_project_file)
    try:
        key = None if key_file is None else read_key(key_file)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bundle = dump_bundle(
                env_class,
                constructor_args=args,
                pip_dependencies=dependencies,
                data_files=[path.absolute() for path in data],
                secrets="warn" if allow_secrets else "refuse",
            )
        bundle = bundle if key is None else sign_bundle(bundle, key)
        write_bundle(bundle, out)
    except BundleSecretError as error:
        raise UsageError(
            str(error).partition("; secrets=")[0],
            hint="--allow-secrets makes the bundle all the same; whoever has it can read them",
        ) from error
    except BundlingError as error:
        raise UsageError(str(error), hint=_advise(str(error))) from error
    return MadeBundle(
        path=out,
        bundle=bundle,
        digest=bundle_digest(bundle),
        notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
    )


def _advise(message: str) -> str | None:
    if "local_modules" in message:
        return "--dep names a distribution that brings a module"
    return "--data takes files of the project's folder only" if message.startswith("data file") else None
