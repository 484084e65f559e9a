"""One section on its way to a composition: every part found, made and checked, every fault noted."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.compose.environment import (
    Composition,
    Source,
    make_checked_examples,
)
from castform.compose.faults import Faults
from castform.compose.judging import make_judge
from castform.compose.parts import PartFinder, UsedPart, list_tool_names
from castform.compose.rows import DEFAULT_HELD_OUT, Row, hold_out, number_rows, read_jsonl
from castform.compose.settings import DatasetPart, Part, RewardPart, RubricPart, ToolPart
from castform.compose.template import PromptTemplate, parse_prompt
from castform.compose.terms import RewardTerm, RubricTerm, Term, read_signature
from castform.home import expand_home
from castform.plugins.names import normalize_name, quote_names, suggest_names
from castform.plugins.plugin import Plugin
from castform.plugins.registry import Registry
from castform.plugins.specs import DatasetSpec, RubricSpec, ToolSpec

if TYPE_CHECKING:
    from benchmax.rewards.judge import Judge
    from castform.environment_section import EnvironmentSection

DEFAULT_TURNS = 1
"""Most model calls of a rollout without tools."""
DEFAULT_TOOL_TURNS = 8
"""With tools."""


@dataclass(kw_only=True)
class _Found:
    """Parts that were made."""

    tools: list[Any] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    parts: list[UsedPart] = field(default_factory=list)


class Composing:
    """One section on its way to a composition."""

    def __init__(
        self,
        section: EnvironmentSection,
        where: str,
        registry: Registry[Plugin],
        faults: Faults,
        *,
        weights: Mapping[str, float],
        dropped: Collection[str] = (),
    ) -> None:
        self.section = section
        self.weights = weights
        """By component; those of the run included."""
        self.where = where
        self.faults = faults
        self.dropped = dropped
        """Keys of the section that were dropped, whole or in part, as faulty: what they lack says nothing."""
        self.finder = PartFinder(registry=registry, faults=faults)
        self.found = _Found()
        self.data_files: dict[str, str] = {}
        self.prompt_faults: list[str] = []
        self.all_read = True
        """Every line of the files could be read."""
        self.base_dir = Path(os.path.abspath(section.base_dir))  # noqa: PTH100 - symbolic links stay as they are

    def compose(self) -> Composition | None:
        """Return the composition, or None where something is wrong; every fault is noted."""
        section = self.section
        source = self._load_source(section.dataset)
        eval_source = self._load_source(section.eval_dataset) if section.eval_dataset else None
        prompt = self._parse_prompt()
        self._make_tools(section.tools)
        for reward in section.rewards:
            self._add_reward(reward)
        judge = self._make_judge()
        for rubric in section.rubrics:
            self._add_rubric(rubric, judge)
        self._check_terms()
        if section.dataset is None and "dataset" not in self.dropped:
            self.faults.add("dataset", "is not there; give an id, a JSONL file or rows")
        if section.eval_dataset is not None and section.held_out is not None:
            self.faults.add("held_out", "is for a dataset that is split; eval_dataset is there already")
        if source is None:
            return None
        held_out = section.held_out
        if held_out is None and eval_source is None and source.maker is None:
            held_out = DEFAULT_HELD_OUT
        composition = Composition(
            summary=section.summary,
            source=source,
            eval_source=eval_source,
            held_out=held_out,
            prompt=prompt,
            gold=section.gold,
            terms=tuple(self._weighed()),
            tools=tuple(self.found.tools),
            judge=judge,
            parts=tuple(self.found.parts),
            max_turns=section.max_turns or (DEFAULT_TOOL_TURNS if section.tools else DEFAULT_TURNS),
            max_tool_calls=section.max_tool_calls,
            parallel_tool_calls=section.parallel_tool_calls,
            rollout_timeout_seconds=section.rollout_timeout_seconds,
            tool_timeout_seconds=section.tool_timeout_seconds,
            reward_timeout_seconds=section.reward_timeout_seconds,
            where=self.where,
        )
        self._check_rows(composition)
        return composition

    def _load_source(self, part: DatasetPart | None) -> Source | None:
        if part is None:
            return None
        if part.rows:
            self._add_data(f"{len(part.rows)} rows", "in the TOML")
            return Source(name=part.at, rows=tuple(number_rows(part.rows)))
        if part.path:
            return self._read_file(part)
        made = self.finder.make(DatasetSpec, part, part.at)
        if made is None:
            return None
        maker, used = made
        self.found.parts.append(used)
        if not callable(getattr(maker, "create", None)):
            self.faults.add(part.at, f"{used.id} made {type(maker).__name__}, which has no create()")
            return None
        return Source(name=used.id, maker=maker, folder=self.finder.source_folder(DatasetSpec, part))

    def _read_file(self, part: DatasetPart) -> Source | None:
        path = self.base_dir / expand_home(part.path)
        if path.suffix.lower() not in (".jsonl", ".ndjson"):
            self.faults.add(part.at, f"{part.path} is not a JSONL file (.jsonl), one JSON object a line")
            return None
        rows, faults = read_jsonl(path, part.path)
        for fault in faults:
            self.faults.add(part.at, fault)
        self.all_read = self.all_read and not faults
        if not rows:
            return None
        self.data_files[part.path] = hashlib.sha256(path.read_bytes()).hexdigest()
        self._add_data(part.path, f"{len(rows)} rows")
        return Source(name=part.path, rows=tuple(rows))

    def _add_data(self, id: str, summary: str) -> None:
        """List data of the user's own among the parts."""
        self.found.parts.append(UsedPart(kind=DatasetSpec.kind, id=id, summary=summary))

    def _parse_prompt(self) -> PromptTemplate | None:
        if not self.section.prompt:
            return None
        prompt, self.prompt_faults = parse_prompt(self.section.prompt)
        for fault in self.prompt_faults:
            self.faults.add("prompt", fault)
        return prompt

    def _make_tools(self, parts: Sequence[ToolPart]) -> None:
        owners: dict[str, str] = {}
        for part in parts:
            made = self.finder.make(ToolSpec, part, part.at)
            if made is None:
                continue
            tool, used = made
            if part.name:
                tool = self._rename(tool, part)
            try:
                names = list_tool_names(tool)
            except (TypeError, ValueError) as error:
                self.faults.add(part.at, f"{used.id}: {error}")
                continue
            for name in names:
                if name in owners:
                    self.faults.add(
                        part.at,
                        f"{used.id} and {owners[name]} are both called {name!r}; give one of them a name of its own",
                    )
                owners.setdefault(name, used.id)
            self.found.tools.append(tool)
            self.found.parts.append(dataclasses.replace(used, name=part.name))

    def _rename(self, tool: Any, part: ToolPart) -> Any:  # what a factory made
        from benchmax.envs.tools import FunctionTool

        try:
            if isinstance(tool, FunctionTool):
                return dataclasses.replace(tool, name=part.name)
            if callable(tool) and not isinstance(tool, type):
                return FunctionTool(function=tool, name=part.name)
        except (TypeError, ValueError) as error:
            self.faults.add(f"{part.at}.name", str(error))
            return tool
        self.faults.add(f"{part.at}.name", f"{part.id} is not a single function, so it cannot be renamed")
        return tool

    def _add_reward(self, part: RewardPart) -> None:
        found = self.finder.find_function(part, part.at)
        if found is None:
            return
        function, constants, used = found
        try:
            filled = read_signature(function, constants, part.fields)
        except (TypeError, ValueError) as error:
            self.faults.add(part.at, f"{used.id}: {error}")
            return
        self._add_term(
            RewardTerm(
                name=part.name or used.id,
                weight=part.weight,
                function=function,
                constants=constants,
                **filled,
            ),
            used,
            part,
        )

    def _make_judge(self) -> Judge | None:
        if self.section.judge is None:
            if self.section.rubrics and "judge" not in self.dropped:
                self.faults.add("judge", "is not there, and rubrics need one: model, base_url, api_key_env")
            return None
        try:
            return make_judge(self.section.judge)
        except (TypeError, ValueError) as error:
            self.faults.add("judge", str(error))
            return None

    def _add_rubric(self, part: RubricPart, judge: Judge | None) -> None:
        from benchmax.rewards.rubric.rubric import Rubric, rubric_name

        used: UsedPart | None = None
        if part.id:
            made = self.finder.make(RubricSpec, part, part.at)
            if made is None:
                return
            rubric, used = made
            if not isinstance(rubric, Rubric):
                self.faults.add(
                    part.at, f"{used.id} made {type(rubric).__name__}, not a benchmax.rewards.Rubric"
                )
                return
        else:
            rubric = Rubric(part.title or _shorten(part.text), part.text, part.polarity)
        name = part.name or (used.id if used else rubric_name(rubric))
        if judge is not None:
            self._add_term(RubricTerm(name=name, weight=part.weight, rubric=rubric, judge=judge), used, part)

    def _add_term(self, term: Term, used: UsedPart | None, part: Part) -> None:
        if any(other.name == term.name for other in self.found.terms):
            self.faults.add(part.at, f"another component is called {term.name!r} too; give this one a name")
            return
        self.found.terms.append(term)
        if used is not None:
            name = term.name if term.name != used.id else ""
            self.found.parts.append(dataclasses.replace(used, weight=term.weight, name=name))

    def _check_terms(self) -> None:
        section, names = self.section, [term.name for term in self.found.terms]
        if self.dropped and not {"rewards", "rubrics"}.isdisjoint(self.dropped):
            return
        complete = len(names) == len(section.rewards) + len(section.rubrics)
        for name in self.weights if complete else ():
            if name not in names:
                close = suggest_names(name, {normalize_name(n): n for n in names})
                meant = next((n for n in names if close and normalize_name(n) == close[0]), None)
                self.faults.add(
                    f'weights."{name}"',
                    "no component is called that; "
                    + (f"did you mean {meant!r}?" if meant else f"there are {quote_names(names)}"),
                )
        if not (section.rewards or section.rubrics):
            self.faults.add("rewards", "are not there, and no rubrics either, so nothing would ever be paid")
        elif complete and not any(term.weight for term in self._weighed()):
            self.faults.add("rewards", "all have the weight 0: metrics alone make no score")

    def _weighed(self) -> list[Term]:
        """Return the terms with the weights that the section gives by component."""
        weights = self.weights
        return [
            dataclasses.replace(term, weight=weights[term.name]) if term.name in weights else term  # type: ignore[type-var]  # both kinds are dataclasses
            for term in self.found.terms
        ]

    def _check_rows(self, composition: Composition) -> None:
        """Look at the rows that are there already; those of plugins are looked at when they are loaded."""
        if "prompt" in self.dropped or self.prompt_faults:
            return
        sides = []
        for at, source in (("dataset", composition.source), ("eval_dataset", composition.eval_source)):
            if source is None or source.maker is not None:
                continue
            examples, faults = make_checked_examples(composition, source.rows)
            for fault in faults:
                self.faults.add(at, fault)
            sides.append((at, source, examples))
            if at == "dataset" and composition.held_out is not None and self.all_read and not faults:
                train, held = hold_out(examples, composition.held_out)
                if not train or not held:
                    self.faults.add(
                        at,
                        f"{source.name} has only one prompt, so none can be held out; give more rows or an eval_dataset",
                    )
        if len(sides) == 2:
            self._check_overlap(sides[0][1].rows, sides[1][1].rows)

    def _check_overlap(self, train: Sequence[Row], held: Sequence[Row]) -> None:
        known = {_key(row): row.place for row in train}
        both = [(row.place, known[_key(row)]) for row in held if _key(row) in known]
        if both:
            more = f" (and {len(both) - 1} more rows)" if len(both) > 1 else ""
            self.faults.add(
                "eval_dataset", f"{both[0][0]} is {both[0][1]} too{more}, so it would not be held out"
            )


def _key(row: Row) -> str:
    return json.dumps(dict(row.fields), sort_keys=True, default=str)


def _shorten(text: str, *, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
