"""What a new plugin may be called."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from castform.errors import UsageError
from castform.plugins.names import normalize_name, quote_names

PREFIX = "castform-env-"
MOST_CHARACTERS = 50
RESERVED = ("castform", "benchmax", "con", "nul", "prn", "aux", "test", "tests")
"""Names with a meaning of their own: the core's, Windows' devices, the folder of the tests."""
_NORMAL = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginNames:
    """The names that follow from a plugin's name."""

    plugin: str
    """`my-task`: the id that users write."""
    distribution: str
    """`castform-env-my-task`: what they install, and the folder."""
    package: str
    """`castform_env_my_task`: what Python imports."""


def make_plugin_names(name: str, *, installed: Iterable[str] = ()) -> PluginNames:
    """Return the names of a new plugin.

    UsageError, with a name that would do where there is one: it is not in normal form,
    has a meaning of its own, or is the name of a plugin in `installed`.
    """
    if not _NORMAL.fullmatch(name) or len(name) > MOST_CHARACTERS or name.startswith(PREFIX):
        better = _suggest(name)
        raise UsageError(
            f"a plugin cannot be called {name!r}: names are lower-case letters, digits and single '-', "
            f"begin with a letter, have at most {MOST_CHARACTERS} characters and come without {PREFIX!r}",
            hint=f"did you mean {better!r}?" if better else None,
        )
    if name in RESERVED or keyword.iskeyword(name) or name in sys.stdlib_module_names:
        raise UsageError(
            f"a plugin cannot be called {name!r}: the word has a meaning of its own",
            hint=f"did you mean {f'{name}-task'!r}?",
        )
    taken = sorted(normalize_name(other) for other in installed)
    if name in taken:
        raise UsageError(
            f"a plugin called {name!r} is installed, and with two of one name neither can be used",
            hint=f"installed are {quote_names(taken)}; `castform env show {name}` looks at this one",
        )
    return derive_names(name)


def derive_names(plugin: str) -> PluginNames:
    """Return the names that follow from a plugin's name in normal form, whatever it is."""
    distribution = f"{PREFIX}{plugin}"
    return PluginNames(plugin=plugin, distribution=distribution, package=distribution.replace("-", "_"))


def _suggest(name: str) -> str | None:
    """Return the nearest name in normal form, if it is one."""
    words = normalize_name(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)).removeprefix(PREFIX)
    better = re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:MOST_CHARACTERS].strip("-")
    return better if _NORMAL.fullmatch(better) else None
