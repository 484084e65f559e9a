"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import DatasetSpec, EnvironmentSpec, RewardSpec, ToolSpec, hookimpl

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


@hookimpl
def register_datasets() -> list[DatasetSpec]:
    return [
        DatasetSpec(
            name="add",
            summary="Sums of one-digit numbers: question, first, symbol, second, ground_truth",
            factory="castform_env_arith.parts:make_add_questions",
            config=_CONFIG,
        ),
        DatasetSpec(
            name="add24",
            summary="Sums up to 24, with the same fields",
            factory="castform_env_arith.parts:make_add24_questions",
            config=_CONFIG,
        ),
        DatasetSpec(
            name="mixed",
            summary="Sums, differences and products in five levels, with the same fields",
            factory="castform_env_arith.parts:make_mixed_questions",
            config="castform_env_arith.config:MixedConfig",
        ),
    ]


@hookimpl
def register_tools() -> list[ToolSpec]:
    return [
        ToolSpec(
            name="calculator",
            summary="calculate(first, operation, second): whole numbers, + - *",
            factory="castform_env_arith.parts:make_calculator",
        )
    ]


@hookimpl
def register_rewards() -> list[RewardSpec]:
    return [
        RewardSpec(
            name="format",
            summary="Whether one pair of <answer> tags holds a whole number",
            factory="castform_env_arith.rewards:format_reward",
        ),
        RewardSpec(
            name="correct",
            summary="Whether exactly the right whole number, ground_truth, stands in the tags",
            factory="castform_env_arith.rewards:correct_reward",
        ),
    ]
