"""Bring a store of an older version to this one, in place and in one transaction."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, select, update

from castform.errors import RunFailedError
from castform.runs import schema
from castform.runs.pins import store_pin
from castform.runs.stored_json import read_stored

OLDEST_VERSION = 1


def migrate(connection: Connection) -> None:
    """Take every step from the store's version to SCHEMA_VERSION. Nothing to do is fine."""
    version = connection.execute(select(schema.schema.c.version)).scalar_one()
    for number in range(version, schema.SCHEMA_VERSION):
        _STEPS[number](connection)
    connection.execute(update(schema.schema).values(version=schema.SCHEMA_VERSION))


def _give_rollouts_their_pin(connection: Connection) -> None:
    """1 to 2: a table of pins; rollouts name theirs, which is that of their run."""
    schema.pins.create(connection, checkfirst=True)
    for column in ("runs ADD COLUMN pin", "runs ADD COLUMN parent_id", "rollouts ADD COLUMN pin"):
        connection.exec_driver_sql(f"ALTER TABLE {column} VARCHAR(64)")
    runs, rollouts = schema.runs, schema.rollouts
    for run_id, environment in connection.execute(select(runs.c.run_id, runs.c.environment)).all():
        try:
            digest = store_pin(connection, read_stored(environment, dict, f"environment of run {run_id}"))
        except RunFailedError:
            continue  # this run stays without a pin; the others need not suffer for it
        if digest is not None:
            for table in (runs, rollouts):
                connection.execute(update(table).where(table.c.run_id == run_id).values(pin=digest))


_STEPS: dict[int, Callable[[Connection], None]] = {1: _give_rollouts_their_pin}
