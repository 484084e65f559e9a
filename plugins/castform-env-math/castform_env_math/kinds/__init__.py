"""The kinds of problems that are made here."""

from __future__ import annotations

from castform_env_math.kinds.equations import EQUATIONS
from castform_env_math.kinds.fractions import FRACTIONS
from castform_env_math.kinds.percent import PERCENT
from castform_env_math.kinds.words import WORDS

ALL_KINDS = (WORDS, EQUATIONS, FRACTIONS, PERCENT)

__all__ = ["ALL_KINDS", "EQUATIONS", "FRACTIONS", "PERCENT", "WORDS"]
