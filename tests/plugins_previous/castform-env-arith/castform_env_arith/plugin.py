"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl

_CONFIG = "castform_env_arith.config:ArithConfig"


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="default",
            summary="The easiest grade: what `arith` alone means, the same as arith/add",
            factory="castform_env_arith.environment:make_add",
            config=_CONFIG,
            tags=("single-turn", "easy"),
        ),
        EnvironmentSpec(
            name="add",
            summary="Sums of one-digit numbers",
            factory="castform_env_arith.environment:make_add",
            config=_CONFIG,
            tags=("single-turn", "easy"),
        ),
        EnvironmentSpec(
            name="add24",
            summary="Sums up to 24",
            factory="castform_env_arith.environment:make_add24",
            config=_CONFIG,
            tags=("single-turn",),
        ),
        EnvironmentSpec(
            name="add2",
            summary="Sums of two-digit numbers",
            factory="castform_env_arith.environment:make_add2",
            config=_CONFIG,
            tags=("single-turn",),
        ),
        EnvironmentSpec(
            name="subtract",
            summary="Differences of numbers up to 24, never below zero",
            factory="castform_env_arith.environment:make_subtract",
            config=_CONFIG,
            tags=("single-turn", "easy"),
        ),
        EnvironmentSpec(
            name="mixed",
            summary="Sums, differences and products in five levels",
            factory="castform_env_arith.environment:make_mixed",
            config="castform_env_arith.config:MixedConfig",
            tags=("single-turn", "graded"),
        ),
    ]
