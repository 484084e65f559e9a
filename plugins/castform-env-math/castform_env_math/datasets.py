"""The problems as datasets for environments that are put together in a TOML."""

from __future__ import annotations

from castform_env_math.config import MathConfig
from castform_env_math.environment import MadeProblems
from castform_env_math.kinds import EQUATIONS, FRACTIONS, PERCENT, WORDS


def make_words(config: MathConfig) -> MadeProblems:
    return MadeProblems(config, [WORDS])


def make_equations(config: MathConfig) -> MadeProblems:
    return MadeProblems(config, [EQUATIONS])


def make_fractions(config: MathConfig) -> MadeProblems:
    return MadeProblems(config, [FRACTIONS])


def make_percent(config: MathConfig) -> MadeProblems:
    return MadeProblems(config, [PERCENT])
