"""A hostile agent for authors: attacks on rewards, tests and boxes, to play on your tasks or environment.

In a test file one line is enough::

    def test_attacks_earn_nothing():
        assert_attacks_earn_nothing("tasks/", sandbox="docker")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from castform.testing.hostile.asserting import assert_attacks_earn_nothing as assert_attacks_earn_nothing
    from castform.testing.hostile.attack import Attack as Attack
    from castform.testing.hostile.attacks import ATTACKS as ATTACKS
    from castform.testing.hostile.choice import choose_attacks as choose_attacks
    from castform.testing.hostile.choice import combine_attacks as combine_attacks
    from castform.testing.hostile.environments import attack_environment as attack_environment
    from castform.testing.hostile.environments import write_block as write_block
    from castform.testing.hostile.harness import HostileHarness as HostileHarness
    from castform.testing.hostile.report import AttackResult as AttackResult
    from castform.testing.hostile.report import HostileReport as HostileReport
    from castform.testing.hostile.tasks import attack_tasks as attack_tasks

_HOMES = {
    "asserting": ("assert_attacks_earn_nothing",),
    "attack": ("Attack",),
    "attacks": ("ATTACKS",),
    "choice": ("choose_attacks", "combine_attacks"),
    "environments": ("attack_environment", "write_block"),
    "harness": ("HostileHarness",),
    "report": ("AttackResult", "HostileReport"),
    "tasks": ("attack_tasks",),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:  # whatever the submodule holds under this name
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
