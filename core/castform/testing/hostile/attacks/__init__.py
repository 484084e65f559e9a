"""The attacks that the kit has, by what they aim at."""

from __future__ import annotations

from castform.testing.hostile.attack import Attack
from castform.testing.hostile.attacks import burdens, looking, programs, rewards

ATTACKS: tuple[Attack, ...] = (*rewards.ATTACKS, *programs.ATTACKS, *looking.ATTACKS, *burdens.ATTACKS)
