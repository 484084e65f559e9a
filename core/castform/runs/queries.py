"""Read the run store. Every function takes an open connection and returns records."""

from __future__ import annotations

import difflib
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, Row, Select, func, select

from castform.errors import UsageError
from castform.runs import schema
from castform.runs.process import STALE_SECONDS, is_alive
from castform.runs.records import (
    EvalRecord,
    EventRecord,
    RolloutRecord,
    RunRecord,
    RunStatus,
    ScalarPoint,
)
from castform.runs.stored_json import damaged, read_stored

Rows = Row[Any]  # columns are described in schema.py; SQLAlchemy Core rows carry no static types


def get_run(connection: Connection, run_id: str, *, now: float) -> RunRecord:
    row = connection.execute(select(schema.runs).filter_by(run_id=run_id)).first()
    if row is None:
        raise _unknown(run_id, _run_ids(connection), "run", "`castform runs list` shows the runs")
    return _run(row, now)


def find_run(connection: Connection, prefix: str, *, now: float) -> RunRecord:
    return get_run(connection, _complete(prefix, _run_ids(connection), "run"), now=now)


def list_runs(connection: Connection, *, kind: str | None, limit: int | None, now: float) -> list[RunRecord]:
    query = select(schema.runs).order_by(schema.runs.c.created.desc(), schema.runs.c.run_id).limit(limit)
    if kind is not None:
        query = query.where(schema.runs.c.kind == kind)
    return [_run(row, now) for row in connection.execute(query)]


def list_events(
    connection: Connection, run_id: str, *, kind: str | None, limit: int | None
) -> list[EventRecord]:
    table = schema.events.c
    query = select(schema.events).where(table.run_id == run_id).order_by(table.event_id.desc()).limit(limit)
    if kind is not None:
        query = query.where(table.kind == kind)
    records = [
        EventRecord(
            event_id=row.event_id,
            at=row.at,
            kind=row.kind,
            step=row.step,
            data=read_stored(row.data, dict, f"event {row.event_id}"),
        )
        for row in connection.execute(query)
    ]
    return records[::-1]


def read_scalars(
    connection: Connection, run_id: str, *, mode: str | None
) -> dict[str, dict[str, list[ScalarPoint]]]:
    table = schema.scalars.c
    query = select(schema.scalars).where(table.run_id == run_id).order_by(table.mode, table.name, table.step)
    if mode is not None:
        query = query.where(table.mode == mode)
    found: dict[str, dict[str, list[ScalarPoint]]] = {}
    for row in connection.execute(query):
        points = found.setdefault(row.mode, {}).setdefault(row.name, [])
        points.append(ScalarPoint(step=row.step, value=row.value))
    return found


def list_rollouts(
    connection: Connection,
    run_id: str,
    *,
    mode: str | None,
    step: int | None,
    example_id: str | None,
    limit: int | None,
) -> list[RolloutRecord]:
    table = schema.rollouts.c
    columns = [column for column in table if column.name != "transcript"]
    query = select(*columns).where(table.run_id == run_id).order_by(table.row_id).limit(limit)
    if mode is not None:
        query = query.where(table.mode == mode)
    if step is not None:
        query = query.where(table.step == step)
    if example_id is not None:
        query = query.where(table.example_id == example_id)
    return [_rollout(row, ()) for row in connection.execute(query)]


def count_rollouts(connection: Connection, run_id: str) -> dict[str, dict[str, int]]:
    table = schema.rollouts.c
    query: Select[Any] = (
        select(table.mode, func.count().label("total"), func.count(table.score).label("scored"))
        .where(table.run_id == run_id)
        .group_by(table.mode)
        .order_by(table.mode)
    )
    return {
        row.mode: {"scored": row.scored, "unscored": row.total - row.scored}
        for row in connection.execute(query)
    }


def find_rollout(connection: Connection, run_id: str, prefix: str) -> RolloutRecord:
    table = schema.rollouts.c
    ids = connection.execute(select(table.rollout_id).where(table.run_id == run_id)).scalars().all()
    rollout_id = _complete(prefix, ids, "rollout")
    query = select(schema.rollouts).where(table.run_id == run_id, table.rollout_id == rollout_id)
    row = connection.execute(query).one()
    return _rollout(row, read_stored(row.transcript, list, f"transcript of {row.rollout_id}", of=dict))


def read_transcripts(
    connection: Connection, run_id: str, rollout_ids: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    table = schema.rollouts.c
    query = select(table.rollout_id, table.transcript).where(
        table.run_id == run_id, table.rollout_id.in_(rollout_ids)
    )
    return {
        row.rollout_id: read_stored(row.transcript, list, f"transcript of {row.rollout_id}", of=dict)
        for row in connection.execute(query)
    }


def list_pin_digests(connection: Connection, run_id: str) -> list[str]:
    """Return the digests of a run's rollouts, in the order in which they came."""
    table = schema.rollouts.c
    query = (
        select(table.pin)
        .where(table.run_id == run_id, table.pin.is_not(None))
        .group_by(table.pin)
        .order_by(func.min(table.row_id))
    )
    return list(connection.execute(query).scalars())


def list_evals(connection: Connection, run_id: str, *, label: str | None) -> list[EvalRecord]:
    table = schema.evals.c
    query = select(schema.evals).where(table.run_id == run_id).order_by(table.eval_id)
    if label is not None:
        query = query.where(table.label == label)
    return [
        EvalRecord(
            label=row.label,
            step=row.step,
            at=row.at,
            result=read_stored(row.result, dict, f"evaluation {row.label}"),
        )
        for row in connection.execute(query)
    ]


def _run_ids(connection: Connection) -> list[str]:
    return list(connection.execute(select(schema.runs.c.run_id).order_by(schema.runs.c.created)).scalars())


def _complete(prefix: str, ids: Any, what: str) -> str:
    if prefix in ids:
        return prefix
    matches = [known for known in ids if prefix and known.startswith(prefix)]
    if len(matches) == 1:
        return str(matches[0])
    listing = f"`castform runs {'list' if what == 'run' else 'rollouts ID'}` shows the {what}s"
    if matches:
        shown = ", ".join(matches[:5]) + (", …" if len(matches) > 5 else "")
        raise UsageError(f"{len(matches)} {what}s begin with {prefix!r}: {shown}", hint="give more of the id")
    raise _unknown(prefix, ids, what, listing)


def _unknown(given: str, ids: Any, what: str, listing: str) -> UsageError:
    close = difflib.get_close_matches(given, list(ids), n=1)
    advice = f"did you mean {close[0]!r}? {listing}" if close else listing
    return UsageError(f"no {what} {given!r}", hint=advice)


def _run(row: Rows, now: float) -> RunRecord:
    return RunRecord(
        run_id=row.run_id,
        kind=row.kind,
        name=row.name,
        status=_status(row, now),
        created=row.created,
        updated=row.updated,
        heartbeat=row.heartbeat,
        host=row.host,
        pid=row.pid,
        stop_requested=row.stop_requested is not None,
        error=row.error,
        run_dir=Path(row.run_dir) if row.run_dir else None,
        config=read_stored(row.config, dict, f"settings of run {row.run_id}"),
        environment=read_stored(row.environment, dict, f"environment of run {row.run_id}"),
        pin=row.pin,
        parent_id=row.parent_id,
    )


def _status(row: Rows, now: float) -> RunStatus:
    if row.status in ("pending", "running"):
        if row.host == socket.gethostname():
            if row.pid is not None and not is_alive(row.pid, row.pid_started):
                return "lost"
        elif row.heartbeat is not None and now - row.heartbeat > STALE_SECONDS:
            return "lost"
    return cast(RunStatus, row.status)  # only set_status writes it, with this type


def _seed(row: Rows) -> int:
    try:
        return int(row.seed)
    except ValueError:
        raise damaged(f"seed of {row.rollout_id}", row.seed) from None


def _rollout(row: Rows, messages: Sequence[Mapping[str, Any]]) -> RolloutRecord:
    return RolloutRecord(
        rollout_id=row.rollout_id,
        mode=row.mode,
        step=row.step,
        group_id=row.group_id,
        example_id=row.example_id,
        sample=row.sample,
        split=row.split,
        score=row.score,
        rewards=read_stored(row.rewards, dict, f"rewards of {row.rollout_id}", of=(int, float)),
        termination_reason=row.termination_reason,
        error=row.error,
        disposition=row.disposition,
        seed=_seed(row),
        seconds=row.seconds,
        turns=row.turns,
        prompt_tokens=row.prompt_tokens,
        completion_tokens=row.completion_tokens,
        calls_path=row.calls_path,
        call_ids=read_stored(row.call_ids, list, f"call ids of {row.rollout_id}", of=str),
        pin=row.pin,
        messages=messages,
    )
