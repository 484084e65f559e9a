"""Tables of the run store. A change here raises SCHEMA_VERSION and comes with a step in migrate.py.

JSON is kept as ASCII text that we write ourselves: any string a model can produce
(NUL, lone surrogates) survives in SQLite and in PostgreSQL.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = 2

metadata = MetaData()

schema = Table("castform_schema", metadata, Column("version", Integer, primary_key=True))

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("name", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("created", Float, nullable=False),
    Column("updated", Float, nullable=False),
    Column("heartbeat", Float),
    Column("host", String(255)),
    Column("pid", Integer),
    Column("pid_started", String(64)),
    Column("stop_requested", Float),
    Column("error", Text),
    Column("run_dir", Text),
    Column("config", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("pin", String(64)),  # of the environment in force; its rollouts take it from here
    Column("parent_id", String(64)),  # the run that this one was made from
    Index("runs_by_created", "created"),
)

pins = Table(
    "pins",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("pin", Text, nullable=False),
    Column("details", Text, nullable=False),
)
"""Every environment that ever scored a rollout here, once."""


def _run_id() -> Column[str]:
    return Column("run_id", String(64), ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False)


events = Table(
    "events",
    metadata,
    Column("event_id", Integer, primary_key=True, autoincrement=True),
    _run_id(),
    Column("at", Float, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("step", Integer),
    Column("data", Text, nullable=False),
    Index("events_by_run", "run_id", "event_id"),
)

scalars = Table(
    "scalars",
    metadata,
    Column("run_id", String(64), ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("mode", String(64), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("value", Float),
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("row_id", Integer, primary_key=True, autoincrement=True),
    _run_id(),
    Column("rollout_id", String(255), nullable=False),
    Column("mode", String(64), nullable=False),
    Column("step", Integer, nullable=False),
    Column("group_id", String(255), nullable=False),
    Column("example_id", Text, nullable=False),
    Column("sample", Integer, nullable=False),
    Column("split", String(16), nullable=False),
    Column("score", Float),
    Column("rewards", Text, nullable=False),
    Column("termination_reason", Text, nullable=False),
    Column("error", Text),
    Column("disposition", Text),
    Column("transcript", Text, nullable=False),
    Column("seed", String(20), nullable=False),
    Column("seconds", Float, nullable=False),
    Column("turns", Integer, nullable=False),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("calls_path", Text),
    Column("call_ids", Text, nullable=False),
    Column("pin", String(64)),
    Index("rollouts_by_step", "run_id", "mode", "step", "row_id"),
    UniqueConstraint("run_id", "rollout_id"),
)

evals = Table(
    "evals",
    metadata,
    Column("eval_id", Integer, primary_key=True, autoincrement=True),
    _run_id(),
    Column("label", String(255), nullable=False),
    Column("step", Integer, nullable=False),
    Column("at", Float, nullable=False),
    Column("result", Text, nullable=False),
    Index("evals_by_run", "run_id", "eval_id"),
)

STEPPED = (events, scalars, rollouts, evals)
"""Tables whose rows belong to a step, and go when a resume starts before it."""
