"""Keep each environment's pin once, under its digest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from castform.plugins.pins import EnvironmentPin, digest_pin
from castform.runs import schema
from castform.runs.records import PinRecord, to_json
from castform.runs.stored_json import read_stored

Environment = EnvironmentPin | Mapping[str, Any]
"""A pin, or one as plain data."""


def plain_pin(environment: Environment | None) -> Mapping[str, Any]:
    if isinstance(environment, EnvironmentPin):
        return environment.as_dict()
    return environment or {}


def store_pin(connection: Connection, environment: Environment | None) -> str | None:
    """Store a pin unless it is there, and return its digest; None for an empty one.

    The first details that come with a pin stay.
    """
    pin = plain_pin(environment)
    if not pin:
        return None
    details = environment.details.as_dict() if isinstance(environment, EnvironmentPin) else {}
    digest = digest_pin(pin)
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    row = {"digest": digest, "pin": to_json(pin), "details": to_json(details)}
    connection.execute(insert(schema.pins).values(row).on_conflict_do_nothing())
    return digest


def read_pins(connection: Connection, digests: Iterable[str]) -> dict[str, PinRecord]:
    """Return the pins that the store has of these, by digest."""
    query = select(schema.pins).where(schema.pins.c.digest.in_(set(digests)))
    return {
        row.digest: PinRecord(
            digest=row.digest,
            pin=read_stored(row.pin, dict, f"pin {row.digest[:12]}"),
            details=read_stored(row.details, dict, f"details of pin {row.digest[:12]}"),
        )
        for row in connection.execute(query)
    }
