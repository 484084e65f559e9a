"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import DatasetSpec, EnvironmentSpec, RewardSpec, ToolSpec, hookimpl


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="default",
            summary="Search articles of an invented world, or your own, and answer in a word with its source",
            factory="castform_env_search.environment:SearchEnv",
            config="castform_env_search.config:SearchConfig",
            tags=("multi-turn", "tools", "retrieval"),
        ),
        EnvironmentSpec(
            name="judged",
            summary="The same questions, answered freely: a judge says whether the answer is right",
            factory="castform_env_search.judged:JudgedSearchEnv",
            config="castform_env_search.config:JudgedConfig",
            tags=("multi-turn", "tools", "retrieval", "judge"),
        ),
    ]


@hookimpl
def register_datasets() -> list[DatasetSpec]:
    return [
        DatasetSpec(
            name="questions",
            summary="question, ground_truth and reference_chunks (whose metadata has source_id)",
            factory="castform_env_search.parts:Questions",
            config="castform_env_search.config:SearchConfig",
        )
    ]


@hookimpl
def register_tools() -> list[ToolSpec]:
    return [
        ToolSpec(
            name="search",
            summary="search(query, limit): BM25 over the articles or a folder of yours",
            factory="castform_env_search.parts:make_search",
            config="castform_env_search.config:CorpusConfig",
        )
    ]


@hookimpl
def register_rewards() -> list[RewardSpec]:
    return [
        RewardSpec(
            name="correct",
            summary="Whether the one pair of <answer> tags holds the right answer, ground_truth",
            factory="castform_env_search.rewards:correct_reward",
        ),
        RewardSpec(
            name="grounded",
            summary="Whether the answer in the tags stands word for word in a document that was found",
            factory="castform_env_search.rewards:grounded_reward",
        ),
        RewardSpec(
            name="found",
            summary="Share of the reference_chunks' documents that the searches brought up",
            factory="castform_env_search.rewards:found_reward",
        ),
        RewardSpec(
            name="cited",
            summary="F1 of the [Source: id] citations, counting only documents that were found",
            factory="castform_env_search.rewards:cited_reward",
        ),
    ]
