"""Rules of the package: it can be sent to another process, imports quickly, and reaches for no network."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from benchmax.envs import Environment
from benchmax.envs.termination import describe_error
from castform.certify.checks.comparison import find_observation_difference
from castform.playback import Playback
from castform.plugins.fingerprints import hash_example
from castform.rollouts import Rollout
from castform.testing.conformance.examined import Examined
from castform.testing.conformance.rule import Breach, NotCheckedError
from castform.testing.conformance.subject import copy_by_pickle, dump_by_value

PICKLING = (
    "make clients, locks and open files when they are first used, and leave them out of __getstate__; "
    "no lambdas that hold them"
)


def check_pickling(examined: Examined) -> list[Breach]:
    """The environment and its examples survive cloudpickle, fresh and after rollouts."""
    import cloudpickle

    examples = examined.need_examples()
    for example in examples:
        try:
            copied = cloudpickle.loads(dump_by_value(example))
            same = hash_example(copied) == hash_example(example)
        except Exception as error:  # noqa: BLE001 - the payload's own classes
            return [
                Breach(
                    message=f"an example cannot be pickled: {describe_error(error)}",
                    way_out="keep payloads JSON: text, numbers, lists, mappings",
                    example_id=example.id,
                )
            ]
        if not same:
            return [
                Breach(
                    message="an example comes back from pickling with another payload",
                    way_out="keep payloads JSON: text, numbers, lists, mappings",
                    example_id=example.id,
                )
            ]
    try:
        copy = copy_by_pickle(examined.environment)
    except Exception as error:  # noqa: BLE001 - the author's objects
        return [
            Breach(message=f"the environment cannot be pickled: {describe_error(error)}", way_out=PICKLING)
        ]
    examined.need_context()
    mine, theirs = examined.run(_play_both(examined, copy))
    difference = next(
        (d for a, b in zip(mine, theirs, strict=True) if (d := find_observation_difference(a, b))), None
    )
    if difference is not None:
        return [
            Breach(
                message=f"a pickled copy plays otherwise: {difference.describe()}",
                way_out=PICKLING,
                example_id=examples[0].id,
            )
        ]
    return []


def check_imports(examined: Examined) -> list[Breach]:
    """Loading the environment imports no package that takes seconds."""
    other = examined.other_process
    if other.error:
        raise NotCheckedError("a fresh process cannot load the environment (rule stable_identity)")
    if not other.heavy:
        return []
    place = f" ({other.where})" if other.where else ""
    return [
        Breach(
            message=f"loading the environment imports {', '.join(other.heavy)}{place}",
            way_out="import it inside the function that needs it; environments reach models over HTTP",
        )
    ]


def check_network(examined: Examined) -> list[Breach]:
    """Neither loading nor rollouts reach beyond this machine."""
    refused = list(examined.network.refused)
    if not refused:
        with suppress(NotCheckedError):  # it cannot be sent to another process, which may load it otherwise
            refused += examined.other_process.refused
    if not refused:
        return []
    return [
        Breach(
            message=f"the environment reaches for {', '.join(refused[:4])}"
            + (f" and {len(refused) - 4} more" if len(refused) > 4 else ""),
            way_out="ship data with the package; take the address of a service as an argument, so that tests can "
            "give a local one",
        )
    ]


async def _play_both(
    examined: Examined, copy: Environment[Any, Any]
) -> tuple[tuple[Rollout, ...], tuple[Rollout, ...]]:
    example = examined.examples[0]
    async with Playback() as playback:
        mine = await examined.play(playback, example, examined.scripts(example))
        try:
            theirs = await examined.play(playback, example, examined.scripts(example), environment=copy)
        finally:
            await copy.aclose()
    return mine.rollouts, theirs.rollouts
