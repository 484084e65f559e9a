"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import DatasetSpec, EnvironmentSpec, RewardSpec, hookimpl


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="default",
            summary="Write one small Python function; hidden tests run it",
            factory="castform_env_code.environment:make_code",
            config="castform_env_code.config:CodeConfig",
            tags=("single-turn", "code", "graded"),
        ),
        EnvironmentSpec(
            name="easy",
            summary="Functions of one line: what a small model can begin with",
            factory="castform_env_code.environment:make_easy",
            config="castform_env_code.config:CodeConfig",
            tags=("single-turn", "code", "easy"),
        ),
    ]


@hookimpl
def register_datasets() -> list[DatasetSpec]:
    return [
        DatasetSpec(
            name="tasks",
            summary="66 small functions to write, with hidden tests",
            factory="castform_env_code.environment:make_tasks",
            config="castform_env_code.config:TasksConfig",
        )
    ]


@hookimpl
def register_rewards() -> list[RewardSpec]:
    return [
        RewardSpec(
            name="passed",
            summary="1 when the code passes all hidden tests of the example's task",
            factory="castform_env_code.rewards:passed",
        ),
        RewardSpec(
            name="passed-share",
            summary="The share of hidden tests that pass, above what needs no work",
            factory="castform_env_code.rewards:passed_share",
        ),
        RewardSpec(
            name="runs",
            summary="1 when the code runs and defines the function",
            factory="castform_env_code.rewards:runs",
        ),
    ]
