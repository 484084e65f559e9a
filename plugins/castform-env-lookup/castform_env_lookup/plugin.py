"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import (
    DatasetSpec,
    EnvironmentSpec,
    RewardSpec,
    RubricSpec,
    ToolSpec,
    hookimpl,
)


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="places",
            summary="Facts about 200 invented places, one or two lookups a question",
            factory="castform_env_lookup.environment:Lookup",
            config="castform_env_lookup.config:LookupConfig",
            tags=("multi-turn", "tools"),
        )
    ]


@hookimpl
def register_datasets() -> list[DatasetSpec]:
    return [
        DatasetSpec(
            name="places",
            summary="Facts about 200 invented places: question, cells, ground_truth",
            factory="castform_env_lookup.parts:Questions",
            config="castform_env_lookup.config:LookupConfig",
        )
    ]


@hookimpl
def register_tools() -> list[ToolSpec]:
    return [
        ToolSpec(
            name="search",
            summary="search(name): places whose name contains a text",
            factory="castform_env_lookup.parts:make_search",
        ),
        ToolSpec(
            name="get",
            summary="get(place, column): one fact about a place",
            factory="castform_env_lookup.parts:make_get",
        ),
    ]


@hookimpl
def register_rewards() -> list[RewardSpec]:
    return [
        RewardSpec(
            name="correct",
            summary="Whether exactly the right whole number, ground_truth, stands in the tags",
            factory="castform_env_lookup.rewards:correct_reward",
        ),
        RewardSpec(
            name="format",
            summary="Whether one pair of <answer> tags holds a whole number",
            factory="castform_env_lookup.rewards:format_reward",
        ),
        RewardSpec(
            name="used-tool",
            summary="Share of the cells that were looked up with get",
            factory="castform_env_lookup.rewards:used_tool_reward",
        ),
    ]


@hookimpl
def register_rubrics() -> list[RubricSpec]:
    return [
        RubricSpec(
            name="brevity",
            summary="Says only what was asked",
            factory="castform_env_lookup.parts:make_brevity",
        )
    ]
