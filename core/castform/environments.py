"""Get examples out of an environment, with the author's mistakes told apart from ours."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

from benchmax.envs import Dataset, Environment, Example
from benchmax.envs.termination import describe_error
from castform.environment_section import EnvironmentSection
from castform.errors import CastformError, MissingError, UsageError
from castform.home import expand_home
from castform.plugins.environments import LoadedEnvironment, load_environment
from castform.rollouts import Split
from castform.workers.limits import WorkerLimits

logger = logging.getLogger(__name__)


def check_named(section: EnvironmentSection) -> None:
    """Raise UsageError where the section names no environment and has no parts of one."""
    if not section.id and not section.is_composed:
        raise UsageError("no environment given", hint="`castform env list` shows what is installed")


def load_configured(section: EnvironmentSection) -> LoadedEnvironment:
    """Load the environment of a run's config: the one with its id, or the one that its parts compose.

    With `workers` it runs in processes of its own. Raises what `load_environment` raises;
    UsageError where the section names nothing.
    """
    limits = WorkerLimits(hang_seconds=section.worker_hang_seconds, memory_mb=section.worker_memory_mb)
    from castform.mixture.section import find_mixture

    mixture = find_mixture(section)
    if mixture is not None:  # its environments have workers of their own
        from castform.mixture.load import load_mixture

        return load_mixture(mixture, id=section.id, workers=section.workers, limits=limits)
    if section.workers and (section.is_composed or section.id.endswith(".toml")):
        from castform.workers.start import start_section

        return start_section(section, limits=limits)
    if section.is_composed:
        from castform.compose.load import compose_section

        return compose_section(section)
    check_named(section)
    if section.id.endswith(".toml"):  # the run's weights decide which of its components are metrics
        from castform.compose.load import load_composed

        return load_composed(expand_home(section.id), section.args, weights=section.weights)
    return load_environment(section.id, section.args, workers=section.workers, limits=limits)


async def close_environment(environment: Environment[Any, Any]) -> None:
    """Close an environment after its work. What goes wrong there is told and costs no result."""
    try:
        await environment.aclose()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
        logger.warning("the environment's aclose failed: %s: %s", type(error).__name__, error)


async def check_ready(environment: Environment[Any, Any]) -> None:
    """Ask an environment once, before its first rollout, whether what it needs is here.

    CastformErrors of its `check_ready` are raised as they are; anything else as a MissingError with the
    cause kept, whose hint is the notes of the exception.
    """
    try:
        await environment.check_ready()
    except CastformError:
        raise
    except (Exception, SystemExit) as error:  # the author's code
        notes = "; ".join(getattr(error, "__notes__", []))
        raise MissingError(
            f"the environment cannot run here: {describe_error(error)}",
            hint=notes or "this comes from the environment's check_ready; -v shows the traceback",
        ) from error


async def load_examples(
    environment: Environment[Any, Any], split: Split, base_dir: Path, *, limit: int | None = None
) -> list[Example[Any]]:
    """Return the first `limit` examples of a split, or all of them.

    Raises UsageError for a data file that is missing or has a broken line (file and line are
    named), for a split without examples and for ids that repeat; CastformError for anything
    else that `create_dataset` raises, with the cause kept.
    """
    try:
        dataset: object = await environment.create_dataset(split, base_dir, max_examples=limit)
    except CastformError:
        raise
    except FileNotFoundError as error:
        raise UsageError(
            f"the {split} dataset needs the file {error.filename or error}, which does not exist",
            hint=f"relative paths start at {base_dir}",
        ) from error
    except (Exception, SystemExit) as error:  # the author's code
        place = "; ".join(getattr(error, "__notes__", []))
        told = isinstance(error, (ValueError, TypeError)) and (place or _names_a_line(str(error)))
        text = describe_error(error)
        if told:
            text = text.removeprefix(f"{type(error).__name__}: ")
        raise (UsageError if told else CastformError)(
            f"the {split} dataset cannot be read: {text}" + (f" ({place})" if place else ""),
            hint="fix what is named"
            if told
            else "this comes from the environment's create_dataset; -v shows the traceback",
        ) from error
    if not isinstance(dataset, Dataset):
        raise CastformError(
            f"create_dataset returned {type(dataset).__name__}, not a benchmax.envs.Dataset",
            hint="return Dataset([...]) or JsonlDataset(...)",
        )
    examples = list(dataset)[:limit]
    if not examples:
        raise UsageError(f"the {split} dataset has no examples", hint="try --split train or --split eval")
    repeated = [example_id for example_id, n in Counter(e.id for e in examples).items() if n > 1]
    if repeated:
        raise UsageError(
            f"{len(repeated)} example ids of the {split} dataset repeat, {repeated[0]!r} for one",
            hint="ids name examples across runs and must be unique; canonical_example_id(row) makes them",
        )
    return examples


def _names_a_line(text: str) -> bool:
    """Say whether a message has the form `path:line …`, as JsonlDataset writes it."""
    path, colon, line = text.partition(" ")[0].rpartition(":")
    return bool(path and colon) and line.isdigit()
