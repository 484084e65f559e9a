"""The one environment behind every composed `[environment]`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap
from benchmax.envs.base.rollout import PROMPT_FIELD
from benchmax.envs.dataset import validate_max_examples
from benchmax.rewards.deterministic.completion import message_text
from benchmax.rewards.judge import Judge
from castform.compose.parts import UsedPart
from castform.compose.rows import (
    Row,
    RowFaults,
    answer_field,
    describe_missing,
    hold_out,
    make_examples,
)
from castform.compose.template import PromptTemplate
from castform.compose.terms import RewardTerm, Scored, Term, score_terms
from castform.errors import ConfigError, UsageError

_PROMPT: ContextVar[Sequence[Mapping[str, Any]]] = ContextVar("castform_prompt", default=())
"""Messages that the rollout of the running task began with."""

Payload = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the rows of a split come from."""

    name: str
    """Of the dataset, for messages."""
    rows: tuple[Row, ...] = ()
    """Read already: of a file, or inline."""
    maker: Any = None
    """What a registered dataset's factory made: it has `create(split, base_dir, *, max_examples)`."""
    folder: Path = Path()
    """Where the maker's relative paths start."""

    async def load(self, split: DatasetSplit, limit: int | None) -> list[Row]:
        """Return the rows; of a registered dataset those of a split, at most `limit` of them."""
        if self.maker is None:
            return list(self.rows)
        made = self.maker.create(split, self.folder, max_examples=limit)
        if inspect.isawaitable(made):
            made = await made
        return [self._row_of(item, place) for place, item in enumerate(made, start=1)]

    def _row_of(self, item: object, place: int) -> Row:
        if isinstance(item, Example) and isinstance(item.payload, Mapping):
            return Row(place=f"example {item.id!r}", fields=item.payload, id=item.id)
        if isinstance(item, Mapping):
            return Row(place=f"row {place}", fields=item)
        what = type(item).__name__
        if isinstance(item, Example):
            what = f"an Example of {type(item.payload).__name__}"
        raise UsageError(
            f"{self.name} holds {what}, not mappings or Examples of mappings",
            hint="ask the author of the dataset",
        )


@dataclass(frozen=True, kw_only=True)
class Composition:
    """Everything a composed environment is made of."""

    summary: str
    source: Source
    eval_source: Source | None
    """None: the source's own eval split, or its rows that are held out."""
    held_out: float | None
    """Share of the source's rows that only evaluation sees. None: the source has two splits."""
    prompt: PromptTemplate | None
    """None: every row brings its own prompt_messages."""
    gold: str
    """Field with the right answer; empty: ground_truth or answer."""
    terms: tuple[Term, ...]
    tools: tuple[Any, ...]
    """Functions, FunctionTools, classes and ToolSources: what BaseEnv.tools may hold."""
    judge: Judge | None
    parts: tuple[UsedPart, ...]
    max_turns: int
    max_tool_calls: int | None
    parallel_tool_calls: bool
    rollout_timeout_seconds: float | None
    tool_timeout_seconds: float | None
    reward_timeout_seconds: float | None
    where: str
    """What the environment is called in messages."""


class ComposedEnvironment(BaseEnv):
    """Parts of plugins, put together in TOML."""

    def __init__(self, composition: Composition) -> None:
        super().__init__(max_turns=composition.max_turns, max_tool_calls=composition.max_tool_calls)
        self.composition = composition
        self.tools = composition.tools
        self.parallel_tool_calls = composition.parallel_tool_calls
        self.rollout_timeout_seconds = composition.rollout_timeout_seconds
        self.tool_timeout_seconds = composition.tool_timeout_seconds
        self.reward_weights = {term.name: term.weight for term in composition.terms}
        self.part_modules = tuple(dict.fromkeys(part.module for part in composition.parts if part.module))

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Payload]:
        """Return the examples of a split. ConfigError says all that is wrong with the rows."""
        validate_max_examples(max_examples)
        made = self._composed(await self._load(split, max_examples), split)
        return Dataset(made[:max_examples])

    async def _load(self, split: DatasetSplit, limit: int | None) -> tuple[Source, list[Row]]:
        composition = self.composition
        if split == "eval" and composition.eval_source is not None:
            source = composition.eval_source
            return source, await source.load("eval", limit)
        source = composition.source
        if composition.held_out is not None:
            return source, await source.load("train", None)
        return source, await source.load(split, limit)

    def _composed(self, loaded: tuple[Source, list[Row]], split: DatasetSplit) -> list[Example[Payload]]:
        composition = self.composition
        source, rows = loaded
        examples, faults = make_checked_examples(composition, rows)
        if faults:
            raise ConfigError(
                "\n".join(
                    [
                        f"the rows of {source.name} do not fit {composition.where}:",
                        *(f"  {f}" for f in faults),
                    ]
                ),
                hint="docs/composing.md says how prompts and rewards read a row",
            )
        if composition.held_out is None or (split == "eval" and composition.eval_source is not None):
            return examples
        sides = hold_out(examples, composition.held_out)
        return list(sides[split == "eval"])

    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[Payload]) -> AsyncIterator[None]:
        """Remember the prompt: what comes after it is the completion."""
        _PROMPT.set(example.payload[PROMPT_FIELD])  # in the rollout's own task, and gone with it
        yield

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        """Return one component for each reward and rubric."""
        prompt = _PROMPT.get()
        fields = {**rollout.example_args, PROMPT_FIELD: list(prompt)}
        answer = answer_field(rollout.example_args, self.composition.gold)
        if answer is not None:
            fields["ground_truth"] = rollout.example_args[answer]
        scored = Scored(
            rollout_id=rollout.rollout_id,
            completion=rollout.messages[len(prompt) :],
            question=message_text(prompt[-1]) if prompt else "",
            fields=fields,
        )
        return await score_terms(
            self.composition.terms, scored, timeout_seconds=self.composition.reward_timeout_seconds
        )

    def gold(self, example: Example[Payload]) -> Any:  # whatever the row holds
        """Return the row's right answer."""
        answer = answer_field(example.payload, self.composition.gold)
        return None if answer is None else example.payload[answer]

    async def aclose(self) -> None:
        """Close the connections to the model and to the judge."""
        try:
            if self.composition.judge is not None:
                await self.composition.judge.aclose()
        finally:
            await super().aclose()


def make_checked_examples(
    composition: Composition, rows: Iterable[Row]
) -> tuple[list[Example[Payload]], list[str]]:
    """Return the examples of rows, and one line for each kind of fault that some row has."""
    rows = list(rows)
    found = RowFaults()
    for row in rows:
        for fault in _find_row_faults(composition, row.fields):
            found.add(row.place, fault)
    fill = None if composition.prompt is None else composition.prompt.fill
    examples = make_examples(rows, fill, found)
    return list(examples), found.lines()


def _find_row_faults(composition: Composition, row: Mapping[str, Any]) -> Iterable[str]:
    prompt = composition.prompt
    for name in prompt.fields if prompt else ():
        if name not in row:
            yield f"{describe_missing(name, row)}; the prompt shows {{{name}}}"
        elif row[name] is None:
            yield f"has nothing (null) in {name!r}, which the prompt shows"
    if prompt is None and PROMPT_FIELD not in row:
        yield f'has no {PROMPT_FIELD}; give the environment a prompt, as in prompt = "{{{next(iter(row), "question")}}}"'
    if composition.gold and composition.gold not in row:
        yield f"{describe_missing(composition.gold, row)}; gold names it"
    known = {*row, PROMPT_FIELD}
    if composition.gold or answer_field(row, "") is not None:
        known.add("ground_truth")  # one that gold names and the row lacks was told above
    for term in composition.terms:
        if not isinstance(term, RewardTerm):
            continue
        for parameter, name in term.required.items():
            if name not in known:
                told = "" if parameter == name else f" as {parameter!r}"
                yield f"{describe_missing(name, row)}; {term.name} needs it{told}"
