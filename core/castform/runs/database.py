"""Open the store's database, and say in one sentence what is wrong when it cannot be used.

SQLite runs in WAL mode: one process writes while others read. Writers queue on the
file lock (`BUSY_SECONDS`); they take it at the start of the transaction, because an
upgrade from reading to writing cannot wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from castform.errors import CastformError, MissingError, RunFailedError, UsageError
from castform.runs.migrate import OLDEST_VERSION, migrate
from castform.runs.schema import SCHEMA_VERSION, metadata, schema

BUSY_SECONDS = 30.0
POSTGRES_LOCK = 0x63617374
"""Any number that other programs on the server are unlikely to lock."""
STORE_URL_VARIABLE = "CASTFORM_STORE_URL"


def store_url(home: Path) -> URL:
    """Return where the store lives: CASTFORM_STORE_URL, or `home`/runs.db."""
    text = os.environ.get(STORE_URL_VARIABLE)
    if not text:
        return URL.create("sqlite", database=str(home / "runs.db"))
    try:
        url = make_url(text)
    except ArgumentError:
        raise UsageError(
            f"{STORE_URL_VARIABLE} is not a database URL",
            hint="for example postgresql://user:password@host/castform, or unset it for a local file",
        ) from None
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgres", "postgresql") else url


def open_engine(url: URL) -> Engine:
    """Return an engine on a store of this version; creates the file and the tables when new.

    Raises UsageError for a store that cannot be opened, MissingError for a driver or server.
    """
    sqlite = url.get_backend_name() == "sqlite"
    if sqlite and url.database:
        _make_folder(Path(url.database).parent)
    try:
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS} if sqlite else {})
    except NoSuchModuleError as error:
        raise UsageError(
            f"no support for {url.get_backend_name()} databases", hint="SQLite and PostgreSQL work"
        ) from error
    except ImportError as error:
        raise MissingError(
            f"the driver for {url.get_backend_name()} is not installed ({error})",
            hint="pip install 'castform[postgres]'",
        ) from error
    if sqlite:
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    try:
        with store_errors(url, opening=True):
            _check_schema(engine, url)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def store_errors(url: URL, *, opening: bool = False) -> Iterator[None]:
    """Turn database faults into one clear CastformError; a broken constraint stays a bug."""
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        raise _explain(error, url, opening) from error


def _explain(error: DBAPIError, url: URL, opening: bool) -> CastformError:
    where = url.database if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    cause = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
    text = cause.lower()
    started = UsageError if opening else RunFailedError
    if "full" in text or "no space" in text:
        return RunFailedError(
            f"the disk is full: cannot write the run store {where}",
            hint="free some space, then resume the run",
        )
    if "malformed" in text or "not a database" in text:
        return started(
            f"the run store {where} is damaged ({cause})",
            hint="move the file away (a new one is made) or restore it from a copy",
        )
    if "readonly" in text or "read-only" in text or "unable to open" in text or "permission" in text:
        return started(
            f"cannot write the run store {where} ({cause})",
            hint="check the folder's permissions, or set CASTFORM_HOME to one of your own",
        )
    if "locked" in text:
        return RunFailedError(
            f"the run store {where} was locked by another process for {BUSY_SECONDS:.0f} s",
            hint="is a backup or a database browser holding it open?",
        )
    if url.get_backend_name() != "sqlite" and opening:
        return MissingError(
            f"no database server answers at {where} ({cause})", hint=f"check {STORE_URL_VARIABLE}"
        )
    return RunFailedError(f"the run store {where} failed: {cause}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder {folder} ({error.strerror})",
            hint="set CASTFORM_HOME to a folder that you can write",
        ) from error


def _prepare_sqlite(connection: Any, _record: object) -> None:  # the raw DBAPI connection has no common type
    connection.isolation_level = None  # transactions are begun below, not by the driver
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("castform_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_schema(engine: Engine, url: URL) -> None:
    where = url.database if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    with engine.connect() as connection:
        names = set(inspect(connection).get_table_names())
    if schema.name not in names:
        if names & set(metadata.tables):
            raise UsageError(
                f"{where} is a database of something else: it has a table `runs`, but no castform version",
                hint=f"point {STORE_URL_VARIABLE} or CASTFORM_HOME somewhere else",
            )
        _create_tables(engine)
    with engine.connect() as connection:
        version = connection.execute(select(schema.c.version)).scalar()
    if version is not None and OLDEST_VERSION <= version < SCHEMA_VERSION:
        with _writing(engine) as connection:
            migrate(connection)
        return
    if version != SCHEMA_VERSION:
        newer = version is not None and version > SCHEMA_VERSION
        raise UsageError(
            f"the run store {where} has version {version}, this castform reads version {SCHEMA_VERSION}",
            hint="upgrade castform" if newer else "move the old store away; a new one is made",
        )


def _create_tables(engine: Engine) -> None:
    with _writing(engine) as connection:
        metadata.create_all(connection, checkfirst=True)
        if connection.execute(select(schema.c.version)).scalar() is None:
            connection.execute(insert(schema).values(version=SCHEMA_VERSION))


@contextmanager
def _writing(engine: Engine) -> Iterator[Connection]:
    """A transaction alone: of two processes that open a store at once, the second waits and finds it done."""
    with engine.execution_options(castform_write=True).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({POSTGRES_LOCK})")
        yield connection
