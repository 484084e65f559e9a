"""Rules by their names, for everything that checks by rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

from castform.errors import UsageError
from castform.plugins.names import suggest_names


class Named(Protocol):
    """A rule, as far as it is chosen by name."""

    @property
    def name(self) -> str: ...


RuleT = TypeVar("RuleT", bound=Named)


def choose_rules(rules: Sequence[RuleT], names: Collection[str] | None) -> list[RuleT]:
    """Return the rules of these names, all for None. UsageError for a name that does not exist."""
    known = [rule.name for rule in rules]
    for name in names or ():
        if name not in known:
            close = suggest_names(name, known)
            raise UsageError(
                f"there is no rule called {name!r}",
                hint=f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}",
            )
    return [rule for rule in rules if names is None or rule.name in names]
