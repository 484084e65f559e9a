"""Environments composed in TOML from parts that plugins register: no code of the user's.

    settings     what may stand in [environment], short forms written out
    overrides    one thing changed within parts, by a key with dots
    parts        ids to what the plugins' factories make
    template     prompts with fields of the row in them
    rows         rows of a dataset, read and checked; which are held out
    terms        reward functions and rubrics, bound to the row's fields, and run
    environment  the one BaseEnv that runs it all
    composing    one section, its faults all gathered
    load         from a section or a file to a LoadedEnvironment

Names are imported when they are first used: a config needs the settings alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from castform.compose.environment import ComposedEnvironment as ComposedEnvironment
    from castform.compose.load import compose_section as compose_section
    from castform.compose.load import load_composed as load_composed

_HOMES = {
    "ComposedEnvironment": "environment",
    "compose_section": "load",
    "load_composed": "load",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:  # whatever the submodule holds under this name
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
