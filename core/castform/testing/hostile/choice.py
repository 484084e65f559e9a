"""Choose attacks by name."""

from __future__ import annotations

from collections.abc import Iterable

from castform.errors import UsageError
from castform.plugins.names import suggest_names
from castform.testing.hostile.attack import Attack
from castform.testing.hostile.attacks import ATTACKS


def choose_attacks(chosen: Iterable[Attack | str] | None = None) -> list[Attack]:
    """Return the attacks of these names, and those that are given whole; all of the kit for None.

    UsageError for a name that does not exist.
    """
    known = {attack.name: attack for attack in ATTACKS}
    if chosen is None:
        return list(ATTACKS)
    found = []
    for item in chosen:
        if isinstance(item, Attack):
            found.append(item)
        elif item in known:
            found.append(known[item])
        else:
            close = suggest_names(item, known)
            raise UsageError(
                f"there is no attack called {item!r}",
                hint=f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}",
            )
    return found


def combine_attacks(attacks: Iterable[Attack], *, name: str) -> Attack:
    """Return one attack that makes several, one after the other, in one box: cheaper, and each may undo another."""
    every = list(attacks)
    parts = [f"(\n{attack.script.strip()}\n)" for attack in every]
    return Attack(
        name=name,
        tries="; ".join(attack.tries for attack in every),
        script="\n".join([*parts, "true"]),
        seconds=sum(attack.seconds for attack in every),
        asks=any(attack.asks for attack in every),
    )
