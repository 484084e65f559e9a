"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import DatasetSpec, EnvironmentSpec, RewardSpec, hookimpl

_CONFIG = "castform_env_math.config:MathConfig"
_KINDS = (
    ("arithmetic-words", "make_words", "Arithmetic in words: buying, giving away, packing", ("easy",)),
    ("equations", "make_equations", "Linear equations: solve for x", ("easy",)),
    ("fractions", "make_fractions", "Calculating with fractions, answered in lowest terms", ()),
    ("percent", "make_percent", "Percentages of numbers and prices, there and back", ()),
)


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="default",
            summary="All four kinds in turn, in three levels",
            factory="castform_env_math.environment:make_mixed",
            config=_CONFIG,
            tags=("single-turn", "graded"),
        ),
        *(
            EnvironmentSpec(
                name=name,
                summary=summary,
                factory=f"castform_env_math.environment:{factory}",
                config=_CONFIG,
                tags=("single-turn", "graded", *tags),
            )
            for name, factory, summary, tags in _KINDS
        ),
        EnvironmentSpec(
            name="jsonl",
            summary="Your own problems: JSONL rows as in GSM8K (#### 12) or MATH (boxed answers)",
            factory="castform_env_math.environment:make_jsonl",
            config="castform_env_math.config:JsonlConfig",
            tags=("single-turn", "own-data"),
        ),
    ]


@hookimpl
def register_datasets() -> list[DatasetSpec]:
    return [
        DatasetSpec(
            name=name, summary=summary, factory=f"castform_env_math.datasets:{factory}", config=_CONFIG
        )
        for name, factory, summary, _ in _KINDS
    ]


@hookimpl
def register_rewards() -> list[RewardSpec]:
    return [
        RewardSpec(
            name="correct",
            summary="1 when the final answer is the example's ground_truth, worked out; math-verify for LaTeX",
            factory="castform_env_math.rewards:correct",
        ),
        RewardSpec(
            name="tagged",
            summary="1 for exactly one answer between <answer> tags",
            factory="castform_env_math.rewards:tagged",
        ),
        RewardSpec(
            name="boxed",
            summary="1 for exactly one answer in a LaTeX box",
            factory="castform_env_math.rewards:boxed",
        ),
    ]
