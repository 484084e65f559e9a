"""What `castform sandbox` asks of providers, one after the other, so that a broken one costs no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from castform.config import parse_value
from castform.errors import CastformError, MissingError, UsageError
from castform.sandbox.contract import Capabilities
from castform.sandbox.load import ListedProvider, list_providers, load_provider
from castform.sandbox.scratch import reap_scratch

PROBE_SECONDS = 30.0
SCRATCH = "scratch"


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """A provider and what it holds to here."""

    listed: ListedProvider
    capabilities: Capabilities | None = None
    """None where it cannot work on this machine."""
    problem: str = ""


def parse_options(words: Sequence[str]) -> dict[str, Any]:  # Any: TOML values
    """Read `NAME=VALUE` options. UsageError for one without a name or an equals sign."""
    options: dict[str, Any] = {}
    for text in words:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--option is written NAME=VALUE, not {text!r}")
        options[name] = parse_value(value)
    return options


def probe_providers() -> list[Probed]:
    """Ask every provider that is installed what it holds to."""
    return [_probe(listed) for listed in list_providers()]


def reap_providers(name: str | None) -> list[tuple[str, Sequence[str]]]:
    """Let one provider remove what dead owners left, or every one that works here; return what they removed.

    Of every one also the folders for a while, as SCRATCH. What goes wrong with one of several is raised once
    all have been asked.
    """
    if name is not None:
        return [(name, asyncio.run(_reap(name)))]
    removed: list[tuple[str, Sequence[str]]] = [(SCRATCH, reap_scratch())]
    faults: list[CastformError] = []
    for listed in list_providers():
        try:
            removed.append((listed.name, asyncio.run(_reap(listed.name))))
        except MissingError:
            continue  # where it cannot work it left nothing
        except CastformError as error:
            faults.append(error)
    if faults:
        raise faults[0]
    return removed


def _probe(listed: ListedProvider) -> Probed:
    try:
        return Probed(listed=listed, capabilities=asyncio.run(_check(listed.name)))
    except CastformError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Probed(listed=listed, problem=f"{error.args[0]}{hint}")
    except TimeoutError:
        return Probed(listed=listed, problem=f"gave no answer within {PROBE_SECONDS:g} s")
    except Exception as error:  # noqa: BLE001 - the provider's code; the others are listed all the same
        return Probed(listed=listed, problem=f"its check raised {type(error).__name__}: {error}")


async def _check(name: str) -> Capabilities:
    provider = load_provider(name)
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await provider.check()
    finally:
        await provider.aclose()


async def _reap(name: str) -> Sequence[str]:
    provider = load_provider(name)
    try:
        return await provider.reap()
    finally:
        await provider.aclose()
