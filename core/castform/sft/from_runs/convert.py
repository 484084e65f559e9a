"""Turn the rollouts of runs into rows of benchmax-sft-v1, with the token ids that were sampled."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmax.sft import SftDataset, SftDatasetError
from castform.calls import ModelCall
from castform.errors import UsageError
from castform.runs import RolloutRecord, RunRecord, RunStore
from castform.sft.from_runs.choice import Choice, choose_turns, is_cut
from castform.sft.from_runs.conversations import Conversation, find_conversations
from castform.sft.from_runs.messages import UnfitError
from castform.sft.from_runs.report import USED, Report, RolloutOutcome
from castform.sft.from_runs.tokens import TokenRow, join_turns, row_digest
from castform.stored_groups import StoredCalls
from castform.token_marks import TokenMarks, read_marks

KINDS = ("train", "eval", "rescore")
"""Runs whose rollouts a model made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Converted:
    """Rows in the order of runs as given, then of steps, groups and samples."""

    rows: tuple[bytes, ...]
    r"""Canonical, each with its `\n`."""
    tokens: tuple[TokenRow, ...]
    """Of the rows that have sampled ids, in the same order."""
    report: Report


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidate:
    place: int
    """In the order of all rollouts."""
    run: RunRecord
    calls: StoredCalls
    rollout: RolloutRecord
    value: float
    """What it is chosen by."""


@dataclass(kw_only=True, slots=True)
class _Taken:
    """What one rollout gave."""

    rows: list[bytes] = field(default_factory=list)
    tokens: list[TokenRow] = field(default_factory=list)
    turns: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)


class _RefusedError(Exception):
    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


def convert_runs(store: RunStore, run_ids: Sequence[str], choice: Choice) -> Converted:
    """Return rows of the chosen rollouts of these runs, given by id or unique prefix.

    The same store and choice give the same rows. Raises UsageError for a run that is still going
    on, is of a kind that asks no model, has no rollouts, or knows no such reward; RunFailedError
    for a damaged call log.
    """
    runs = list({run.run_id: run for run in map(store.find_run, run_ids)}.values())
    outcomes: list[RolloutOutcome | None] = []
    candidates: list[_Candidate] = []
    for run in runs:
        _check_run(run)
        rollouts = sorted(store.list_rollouts(run.run_id), key=_order)
        _check_rollouts(run, rollouts, choice)
        calls = StoredCalls(store, run)
        for rollout in rollouts:
            reason = _reason_against(rollout, choice)
            outcomes.append(None if reason is None else _outcome(run, rollout, reason, rollout.error or ""))
            if reason is None:
                candidates.append(
                    _Candidate(
                        place=len(outcomes) - 1,
                        run=run,
                        calls=calls,
                        rollout=rollout,
                        value=_value(rollout, choice) or 0.0,
                    )
                )
    report = Report()
    taken = _take(store, candidates, choice, outcomes)
    for found in taken.values():
        report.trained_turns += found.turns
        report.masked_turns += found.masked
        report.left_out_replies += found.left_out
        report.changes += found.changes
    report.rollouts = [outcome for outcome in outcomes if outcome is not None]
    return Converted(
        rows=tuple(row for place in sorted(taken) for row in taken[place].rows),
        tokens=tuple(row for place in sorted(taken) for row in taken[place].tokens),
        report=report,
    )


def default_split(store: RunStore, run_ids: Sequence[str]) -> str:
    """Return "train" when one of the runs has rollouts of training examples, else "eval"."""
    found = {r.split for run_id in run_ids for r in store.list_rollouts(store.find_run(run_id).run_id)}
    return "eval" if found == {"eval"} else "train"


def _check_run(run: RunRecord) -> None:
    if run.kind not in KINDS:
        raise UsageError(
            f"run {run.run_id} is a run of {run.kind}, whose rollouts are not a model's answers to learn from",
            hint="`castform runs list` shows the runs of train and eval",
        )
    if run.status in ("pending", "running"):
        raise UsageError(
            f"run {run.run_id} is still going on (pid {run.pid} on {run.host}), so what it has is not all",
            hint=f"wait for it, or stop it with `castform runs stop {run.run_id}`",
        )


def _check_rollouts(run: RunRecord, rollouts: Sequence[RolloutRecord], choice: Choice) -> None:
    if not rollouts:
        raise UsageError(f"run {run.run_id} has no rollouts")
    known = sorted({name for rollout in rollouts for name in rollout.rewards})
    if choice.reward is not None and choice.reward not in known:
        raise UsageError(
            f"no rollout of run {run.run_id} has a reward called {choice.reward!r}",
            hint=f"it has {', '.join(known)}" if known else "none of its rollouts was scored",
        )


def _order(rollout: RolloutRecord) -> tuple[object, ...]:
    """Return where a rollout comes: by step, group and sample, however fast each was stored."""
    parts = re.split(r"([0-9]+)", rollout.group_id)  # text and number in turn
    numbered = [int(part) if place % 2 else part for place, part in enumerate(parts)]
    return rollout.step, rollout.mode, *numbered, rollout.sample


def _value(rollout: RolloutRecord, choice: Choice) -> float | None:
    return rollout.score if choice.reward is None else rollout.rewards.get(choice.reward)


def _reason_against(rollout: RolloutRecord, choice: Choice) -> str | None:
    """Return why a rollout is left out, as far as its record tells; None when it is not."""
    if rollout.split != choice.split:
        return f"of the split {rollout.split}"
    if rollout.score is None:
        return f"not scored: {rollout.termination_reason}"
    value = _value(rollout, choice)
    if value is None:
        return f"no reward {choice.reward}"
    if not isinstance(value, (int, float)) or not math.isfinite(value) or not math.isfinite(rollout.score):
        return "its reward is no finite number"
    if choice.min_reward is not None and value < choice.min_reward:
        return f"below {choice.min_reward:g}"
    if rollout.termination_reason == "output_exceeded" and not choice.with_cut:
        return "a reply was cut"
    return None


def _take(
    store: RunStore,
    candidates: Sequence[_Candidate],
    choice: Choice,
    outcomes: list[RolloutOutcome | None],
) -> dict[int, _Taken]:
    """Go through each group from the best rollout down and fill in the outcomes."""
    taken: dict[int, _Taken] = {}
    seen: dict[str, str] = {}
    for group in _group(candidates, choice):
        used = 0
        transcripts = _read_transcripts(store, group)
        for candidate in _best_first(group, choice):
            run, rollout = candidate.run, candidate.rollout
            if choice.best_of is not None and used >= choice.best_of:
                outcomes[candidate.place] = _outcome(run, rollout, f"not among the best {choice.best_of}")
                continue
            try:
                found = _convert(candidate, transcripts[candidate.place], choice, seen)
            except _RefusedError as refusal:
                outcomes[candidate.place] = _outcome(run, rollout, refusal.reason, refusal.detail)
                continue
            used += 1
            taken[candidate.place] = found
            outcomes[candidate.place] = _outcome(
                run, rollout, USED, rows=len(found.rows), sampled_rows=len(found.tokens)
            )
    return taken


def _group(candidates: Iterable[_Candidate], choice: Choice) -> list[list[_Candidate]]:
    groups: dict[tuple[object, ...], list[_Candidate]] = {}
    for candidate in candidates:
        rollout = candidate.rollout
        whole = (candidate.run.run_id, rollout.mode, rollout.step, rollout.group_id)
        groups.setdefault((rollout.example_id,) if choice.per_example else whole, []).append(candidate)
    return list(groups.values())


def _best_first(group: Sequence[_Candidate], choice: Choice) -> list[_Candidate]:
    """Order by reward; equal ones stay in the order of their samples, and all do without `best_of`."""
    return list(group) if choice.best_of is None else sorted(group, key=lambda one: -one.value)


def _read_transcripts(store: RunStore, group: Sequence[_Candidate]) -> dict[int, Sequence[Mapping[str, Any]]]:
    """Return the transcripts of a group by place, one query a run."""
    by_run: dict[str, list[_Candidate]] = {}
    for candidate in group:
        by_run.setdefault(candidate.run.run_id, []).append(candidate)
    found: dict[int, Sequence[Mapping[str, Any]]] = {}
    for run_id, candidates in by_run.items():
        texts = store.read_transcripts(run_id, [each.rollout.rollout_id for each in candidates])
        found.update({each.place: texts.get(each.rollout.rollout_id, ()) for each in candidates})
    return found


def _convert(
    candidate: _Candidate,
    transcript: Sequence[Mapping[str, Any]],
    choice: Choice,
    seen: dict[str, str],
) -> _Taken:
    """Return the rows of one rollout, all or none. Raises _RefusedError."""
    run, rollout = candidate.run, candidate.rollout
    calls = candidate.calls.read(rollout)
    if not calls:
        raise _RefusedError("its calls were not kept" if calls is None else "no model was asked")
    try:
        conversations = find_conversations(calls, transcript)
    except UnfitError as error:
        raise _RefusedError("not sound", str(error)) from error
    taken = _Taken(left_out=conversations.left_out, changes=conversations.changes)
    if not choice.with_cut and any(is_cut(each.turns.values()) for each in conversations.found):
        raise _RefusedError("a reply was cut")
    marks = _read_marks(run, rollout)
    new: dict[str, str] = {}
    repeated = ""
    for each in conversations.found:
        turns = choose_turns(each, choice, taken.masked)
        if not turns:
            continue
        row = _make_row(each, turns)
        content = row_digest(_check(row))
        earlier = seen.get(content) or new.get(content)
        if earlier is not None and not choice.with_duplicates:
            repeated = earlier
            taken.left_out["in a conversation that was taken already"] += len(turns)
            continue
        new[content] = rollout.rollout_id
        row["metadata"] = _metadata(run, rollout, part=len(taken.rows) if conversations.found[1:] else None)
        line = _check(row)
        taken.rows.append(line)
        taken.turns += len(turns)
        samples = join_turns(turns)
        if samples is not None:
            taken.tokens.append(TokenRow(row_sha256=row_digest(line), marks=marks, samples=samples))
    if not taken.rows:
        raise _RefusedError("duplicate", f"of {repeated}") if repeated else _RefusedError("no turn chosen")
    seen.update({content: name for content, name in new.items() if content not in seen})
    return taken


def _make_row(conversation: Conversation, turns: dict[int, ModelCall]) -> dict[str, Any]:
    messages = [
        {**message, "weight": 0} if message["role"] == "assistant" and place not in turns else dict(message)
        for place, message in enumerate(conversation.messages)
    ]
    tools = [dict(tool) for tool in conversation.tools]
    return {"messages": messages, **({"tools": tools} if tools else {})}


def _check(row: dict[str, Any]) -> bytes:
    """Return the canonical line of a row. Raises _RefusedError with what is wrong with it."""
    try:
        return SftDataset.from_rows([row]).to_jsonl_bytes()
    except SftDatasetError as error:
        first = error.issues[0]
        codes = ", ".join(dict.fromkeys(issue.code for issue in error.issues))
        raise _RefusedError(f"not sound: {codes}", first.describe()) from error


def _metadata(run: RunRecord, rollout: RolloutRecord, *, part: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "run": run.run_id,
        "rollout": rollout.rollout_id,
        "example": rollout.example_id,
        "score": rollout.score,
        "step": rollout.step,
    }
    return found if part is None else {**found, "part": part}


def _read_marks(run: RunRecord, rollout: RolloutRecord) -> TokenMarks | None:
    if run.run_dir is None or rollout.calls_path is None:
        return None
    return read_marks(run.run_dir / rollout.calls_path)


def _outcome(
    run: RunRecord,
    rollout: RolloutRecord,
    outcome: str,
    detail: str = "",
    *,
    rows: int = 0,
    sampled_rows: int = 0,
) -> RolloutOutcome:
    return RolloutOutcome(
        run_id=run.run_id,
        rollout_id=rollout.rollout_id,
        example_id=rollout.example_id,
        score=rollout.score,
        outcome=outcome,
        detail=detail,
        rows=rows,
        sampled_rows=sampled_rows,
    )
