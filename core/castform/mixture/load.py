"""From the `mix` of a section to an environment that can run."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.compose.faults import Faults
from castform.compose.parts import UsedPart
from castform.config import read_environment_file
from castform.errors import CastformError
from castform.home import expand_home
from castform.mixture.environment import COMPONENT_SEPARATOR, MixedEnvironment, MixedPart
from castform.mixture.settings import MixPart
from castform.plugins.arguments import summarize_environment
from castform.plugins.environment_files import is_path, split_class
from castform.plugins.environments import LoadedEnvironment, load_environment
from castform.plugins.names import is_name, normalize_name
from castform.plugins.pins import EnvironmentPin, PinDetails, combine_hashes

if TYPE_CHECKING:
    from castform.environment_section import EnvironmentSection
    from castform.workers.limits import WorkerLimits


def load_mixture(
    section: EnvironmentSection,
    *,
    id: str = "",
    where: str = "this run",
    workers: int = 0,
    limits: WorkerLimits | None = None,
) -> LoadedEnvironment:
    """Load every environment of a mixture; `id` is the TOML that it stands in, `workers` for those that name none.

    Its pin is over theirs: a run goes on only when each of them is what it was. ConfigError with every
    fault at once, MissingError when all that is wrong is what is not installed.
    """
    faults = Faults()
    names = _choose_names(section.mix, faults)
    _check_shares(section.mix, faults)
    _check_weights(section.weights, names, faults)
    if _check_circles(section.mix, faults):
        faults.raise_if_any(where)  # before anything is loaded, which would have no end
    parts = []
    for own, part in zip(names, section.mix, strict=True):
        try:
            loaded = load_environment(part.id, part.args, workers=part.workers or workers, limits=limits)
        except CastformError as error:
            faults.add_error(part.at or "mix", error)
        else:
            parts.append(MixedPart(name=own, loaded=loaded, share=part.weight, weights=part.weights))
    faults.raise_if_any(where)
    name = Path(id).name or " + ".join(names)
    return LoadedEnvironment(
        id=id or name,
        environment=MixedEnvironment(parts, Path(section.base_dir), section.weights),
        pin=_make_pin(name, parts, section.weights),
        base_dir=Path(section.base_dir),
        summary=section.summary,
        parts=tuple(_describe(part) for part in parts),
    )


def _choose_names(parts: Sequence[MixPart], faults: Faults) -> list[str]:
    """Return a name for each environment: its own, or of plugin and environment where plugins repeat."""
    short = [_short_name(part.id) for part in parts]
    counts = Counter(short)
    names = [
        part.name or (first if counts[first] == 1 else _long_name(part.id))
        for part, first in zip(parts, short, strict=True)
    ]
    for part, name in zip(parts, names, strict=True):
        if not is_name(name):
            faults.add(
                part.at, f"{name!r} is no usable name; give it one of letters, digits, '-', '_' and '.'"
            )
        elif names.count(name) > 1:
            faults.add(part.at, f"another environment is called {name!r} too; give this one a name")
    return names


def _short_name(id: str) -> str:
    if is_path(id) or id.endswith(".toml"):
        return Path(split_class(id)[0]).stem
    return normalize_name(id.partition("@")[0].partition("/")[0])


def _long_name(id: str) -> str:
    if is_path(id) or id.endswith(".toml"):
        file, cls = split_class(id)
        return f"{Path(file).stem}-{cls}" if cls else Path(file).stem
    return normalize_name(id.partition("@")[0].replace("/", "-"))


def _check_shares(parts: Sequence[MixPart], faults: Faults) -> None:
    without = [part for part in parts if part.weight is None]
    if without and len(without) < len(parts):
        faults.add(
            without[0].at, f"{without[0].id} has no weight, and others have; give all of them one, or none"
        )


def _check_weights(weights: Mapping[str, float], names: Sequence[str], faults: Faults) -> None:
    for component in weights:
        if component.partition(COMPONENT_SEPARATOR)[0] not in names:
            faults.add(
                f'weights."{component}"',
                "is of none of the environments; their components are called "
                + ", ".join(f"{name}{COMPONENT_SEPARATOR}…" for name in names),
            )


def _check_circles(parts: Sequence[MixPart], faults: Faults) -> bool:
    """Note every environment that is a mixture with itself in it, or leads to one; say whether there are any."""
    circles = [(part, circle) for part in parts if (circle := _find_circle(part.id, ())) is not None]
    for part, circle in circles:
        faults.add(part.at or "mix", f"{part.id} mixes itself: {' > '.join(circle)}")
    return bool(circles)


def _find_circle(id: str, above: tuple[Path, ...]) -> list[str] | None:
    if not id.endswith(".toml"):
        return None
    file = expand_home(id)
    try:
        path = file.resolve()
        if path in above:
            return [each.name for each in (*above[above.index(path) :], path)]
        inside = read_environment_file(file, {}).mix
    except (CastformError, OSError, RuntimeError, ValueError):
        return None  # loading it says what is wrong
    found = (_find_circle(part.id, (*above, path)) for part in inside)
    return next((circle for circle in found if circle is not None), None)


def _make_pin(id: str, parts: Sequence[MixedPart], weights: Mapping[str, float]) -> EnvironmentPin:
    """Return a pin over the pins of all environments, their names, shares and weights."""
    pins = {part.name: part.loaded.pin for part in parts}
    told = [
        {
            "name": part.name,
            "weight": part.share,
            "weights": dict(part.weights),
            **{key: value for key, value in part.loaded.pin.as_dict().items() if key != "datasets"},
        }
        for part in parts
    ]
    return EnvironmentPin(
        id=id,
        distribution="",
        version="",
        content_sha256=combine_hashes({name: _digest(pin) for name, pin in pins.items()}),
        args={"mix": told, **({"weights": dict(weights)} if weights else {})},
        details=PinDetails(
            files={
                f"{name}: {file}": mark
                for name, pin in pins.items()
                for file, mark in pin.details.files.items()
            }
        ),
    )


def _digest(pin: EnvironmentPin) -> str:
    content: Mapping[str, Any] = {**pin.as_dict(), "datasets": {}}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _describe(part: MixedPart) -> UsedPart:
    pin = part.loaded.pin
    return UsedPart(
        kind="environment",
        id=part.loaded.id,
        summary=summarize_environment(part.loaded),
        distribution=pin.distribution,
        version=pin.version,
        content_sha256=pin.content_sha256,
        weight=part.share,
        name=part.name,
    )
