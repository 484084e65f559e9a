"""One environment that hands every group to the environment its example comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmax.envs import (
    Dataset,
    DatasetSplit,
    Environment,
    Example,
    RewardMap,
    RolloutAttempt,
    RolloutOutcome,
    RolloutRequest,
    ValidationDiagnostic,
)
from castform.environments import check_ready, load_examples
from castform.errors import CastformError, MissingError, UsageError
from castform.mixture.interleave import interleave
from castform.plugins.environments import LoadedEnvironment

EXAMPLE_SEPARATOR = ":"
COMPONENT_SEPARATOR = "/"


@dataclass(frozen=True, kw_only=True)
class MixedPart:
    """An environment in a mixture."""

    name: str
    """Unique in the mixture, and without a colon."""
    loaded: LoadedEnvironment
    share: float | None
    """Of the examples; None for all parts when they take turns."""
    weights: Mapping[str, float]
    """Of its reward components, by its own names for them."""


class MixedEnvironment(Environment[Any, RolloutAttempt]):
    """Several environments as one.

    An example's id is `<name>:<its own id>`, a reward component `<name>/<its own name>`; payloads are
    handed on as they are, so an environment sees what it would see alone.
    """

    def __init__(
        self, parts: Sequence[MixedPart], base_dir: Path, weights: Mapping[str, float] | None = None
    ) -> None:
        """`weights` are of components by their names in the mixture, and win."""
        self.parts = {part.name: part for part in parts}
        self.base_dir = base_dir
        """What stands for each environment's own folder when it is asked for datasets."""
        environments = [part.loaded.environment for part in parts]
        self.scorable_termination_reasons = frozenset().union(
            *(environment.scorable_termination_reasons for environment in environments)
        )
        self.reward_weights = {
            f"{part.name}{COMPONENT_SEPARATOR}{component}": weight
            for part in parts
            for component, weight in {**part.loaded.environment.reward_weights, **part.weights}.items()
        } | dict(weights or {})

    @property
    def requires_public_model_endpoint(self) -> bool:
        return any(part.loaded.environment.requires_public_model_endpoint for part in self.parts.values())

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Any]:
        """Return the environments' examples in turns or by their shares (see `interleave`).

        Raises what `load_examples` raises, with the environment's name before it.
        """
        parts = list(self.parts.values())
        examples = []
        for part in parts:
            folder = part.loaded.base_dir if base_dir == self.base_dir else base_dir
            try:
                examples.append(
                    await load_examples(part.loaded.environment, split, folder, limit=max_examples)
                )
            except CastformError as error:
                raise type(error)(f"{part.name}: {error.args[0]}", hint=error.hint) from error
        shares = [part.share for part in parts if part.share is not None]
        order = interleave([len(found) for found in examples], shares or None, limit=max_examples)
        return Dataset(
            Example(
                f"{parts[place].name}{EXAMPLE_SEPARATOR}{examples[place][number].id}",
                examples[place][number].payload,
            )
            for place, number in order
        )

    async def run_group(self, requests: Sequence[RolloutRequest[Any]]) -> dict[str, RolloutOutcome]:
        """Let the example's environment run and score the group; its components get its name."""
        part = self._part_of(requests[0].example)
        outcomes = await part.loaded.environment.run_group([_own_request(request) for request in requests])
        return {
            rollout_id: replace(outcome, rewards=_name_components(part, outcome.rewards))
            for rollout_id, outcome in outcomes.items()
        }

    async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
        """Let the example's environment make one attempt."""
        part = self._part_of(request.example)
        attempt: RolloutAttempt = await part.loaded.environment.run_rollout(_own_request(request))
        if attempt.rewards is None:
            return attempt
        return replace(attempt, rewards=_name_components(part, attempt.rewards))

    def gold(self, example: Example[Any]) -> Any:  # whatever form the author's answers have
        return self._part_of(example).loaded.environment.gold(_own_example(example))

    def validation_diagnostics(self) -> Sequence[ValidationDiagnostic]:
        return [
            replace(found, message=f"{part.name}: {found.message}")
            for part in self.parts.values()
            for found in part.loaded.environment.validation_diagnostics()
        ]

    async def check_ready(self) -> None:
        """Ask each in turn. Raises what `castform.environments.check_ready` raises, with the environment's name."""
        for part in self.parts.values():
            try:
                await check_ready(part.loaded.environment)
            except CastformError as error:
                kind = next((k for k in (MissingError, UsageError) if isinstance(error, k)), CastformError)
                raise kind(f"{part.name}: {error.args[0]}", hint=error.hint) from error

    async def aclose(self) -> None:
        """Close all of them, whatever one of them raises; the first fault is raised at the end."""
        ends = await asyncio.gather(
            *(part.loaded.environment.aclose() for part in self.parts.values()), return_exceptions=True
        )
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    def _part_of(self, example: Example[Any]) -> MixedPart:
        name = example.id.partition(EXAMPLE_SEPARATOR)[0]
        if name not in self.parts:
            raise ValueError(f"example {example.id!r} is of none of {', '.join(self.parts)}")
        return self.parts[name]


def _own_example(example: Example[Any]) -> Example[Any]:
    return Example(example.id.partition(EXAMPLE_SEPARATOR)[2], example.payload)


def _own_request(request: RolloutRequest[Any]) -> RolloutRequest[Any]:
    return replace(request, example=_own_example(request.example))


def _name_components(part: MixedPart, rewards: RewardMap) -> dict[str, float]:
    return {f"{part.name}{COMPONENT_SEPARATOR}{name}": value for name, value in rewards.items()}
