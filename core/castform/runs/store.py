"""RunStore: what runs were started, how they go, and every rollout they made.

One file, many processes: a trainer writes while `castform runs` and the dashboard read.
Every write is one transaction; a call that returns has been stored.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.engine import URL, make_url

from castform.errors import RunFailedError, UsageError
from castform.home import castform_home
from castform.runs import queries, schema
from castform.runs.database import open_engine, store_errors, store_url
from castform.runs.folder import run_folder
from castform.runs.pins import Environment, plain_pin, read_pins, store_pin
from castform.runs.process import process_start
from castform.runs.records import (
    ENDED,
    EvalRecord,
    EventRecord,
    PinRecord,
    RolloutRecord,
    RunRecord,
    RunStatus,
    ScalarPoint,
    clean_text,
    to_json,
)
from castform.runs.rows import rollout_rows, scalar_rows

if TYPE_CHECKING:
    from castform.rollouts import RolloutGroup  # imports the environment runtime, which reading does not need

HEARTBEAT_SECONDS = 15.0


class RunStore:
    """Open with `RunStore.open()`; use as a context manager or call `close()`.

    Safe to use from several threads. Raises UsageError when it cannot be opened, RunFailedError
    when a write fails later (a full disk, say).
    """

    def __init__(self, url: URL, home: Path, clock: Callable[[], float] = time.time) -> None:
        self.home = home
        self._url = url
        self._clock = clock
        self._engine = open_engine(url)
        self._writer = self._engine.execution_options(castform_write=True)

    @classmethod
    def open(
        cls, home: Path | None = None, *, url: str | None = None, clock: Callable[[], float] = time.time
    ) -> RunStore:
        """Open the store of `home` (default CASTFORM_HOME); `url` or CASTFORM_STORE_URL name another database."""
        home = home or castform_home()
        return cls(make_url(url) if url else store_url(home), home, clock)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with store_errors(self._url), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with store_errors(self._url), self._engine.connect() as connection:
            yield connection

    # -- runs ---------------------------------------------------------------------------------

    def create_run(
        self,
        *,
        kind: str,
        name: str,
        config: Mapping[str, Any],
        environment: Environment | None = None,
        run_id: str | None = None,
        run_dir: Path | None = None,
        parent_id: str | None = None,
    ) -> RunRecord:
        """Store a new run as pending, owned by this process, and return it with its id.

        `environment` is the pin that its rollouts will carry. `run_dir` defaults to
        home/runs/<id>; the folder is not made here. `parent_id` is the run that this one was made
        from. Raises UsageError when the id is taken.
        """
        run_id = run_id or secrets.token_hex(5)
        now = self._clock()
        with self._write() as connection:
            if connection.execute(select(schema.runs.c.run_id).filter_by(run_id=run_id)).first():
                raise UsageError(f"a run {run_id} exists already", hint="`castform runs list` shows it")
            connection.execute(
                insert(schema.runs).values(
                    run_id=run_id,
                    kind=kind,
                    name=clean_text(name),
                    status="pending",
                    created=now,
                    updated=now,
                    run_dir=str(run_dir or run_folder(self.home, run_id)),
                    config=to_json(config),
                    environment=to_json(plain_pin(environment)),
                    pin=store_pin(connection, environment),
                    parent_id=parent_id,
                    **self._owner(now),
                )
            )
        return self.get_run(run_id)

    def _owner(self, now: float, pid: int | None = None) -> dict[str, Any]:
        pid = pid or os.getpid()
        return {
            "host": socket.gethostname(),
            "pid": pid,
            "pid_started": process_start(pid),
            "heartbeat": now,
        }

    def set_status(
        self, run_id: str, status: RunStatus, *, error: str | None = None, keep_stop_request: bool = False
    ) -> None:
        """Move a run to `status`. "running" makes this process its owner, and clears a stop request unless told to keep it."""
        if status == "lost":
            raise ValueError("lost is seen, never stored")
        now = self._clock()
        values: dict[str, Any] = {"status": status, "updated": now, "error": clean_text(error)}
        if status == "running":
            values |= {} if keep_stop_request else {"stop_requested": None}
            values |= self._owner(now)
        self._update_run(run_id, values)

    def set_config(self, run_id: str, config: Mapping[str, Any]) -> None:
        """Store the config that a resumed run goes on with."""
        self._update_run(run_id, {"config": to_json(config)})

    def set_environment(self, run_id: str, environment: Environment) -> None:
        """Store the pin that the run's rollouts carry from now on."""
        with self._write() as connection:
            digest = store_pin(connection, environment)
        self._update_run(run_id, {"environment": to_json(plain_pin(environment)), "pin": digest})

    def heartbeat(self, run_id: str) -> None:
        """Say that the run's process is alive. Runs of other machines need it every few minutes."""
        self._update_run(run_id, {"heartbeat": self._clock()})

    @contextmanager
    def running(self, run_id: str, *, keep_stop_request: bool = False) -> Iterator[None]:
        """Own the run while the block runs: running with a heartbeat, then finished, stopped or failed.

        KeyboardInterrupt and cancellation mean stopped, any other exception failed with its text;
        each is raised again. A status that the block set itself stays.
        """
        self.set_status(run_id, "running", keep_stop_request=keep_stop_request)
        ended = threading.Event()
        pulse = threading.Thread(
            target=self._beat, args=(run_id, ended), name=f"heartbeat-{run_id}", daemon=True
        )
        pulse.start()
        try:
            yield
        except BaseException as error:
            stopped = not isinstance(error, Exception)  # KeyboardInterrupt, CancelledError, SystemExit
            text = str(error) or type(error).__name__
            self._end(run_id, "stopped" if stopped else "failed", error=None if stopped else text)
            raise
        else:
            self._end(run_id, "finished")
        finally:
            ended.set()
            pulse.join()

    def _beat(self, run_id: str, ended: threading.Event) -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            try:
                self.heartbeat(run_id)
            except RunFailedError:
                continue  # the run's own next write meets the same fault and reports it

    def _end(self, run_id: str, status: RunStatus, *, error: str | None = None) -> None:
        now = self._clock()
        with self._write() as connection:
            connection.execute(
                update(schema.runs)
                .where(schema.runs.c.run_id == run_id, schema.runs.c.status.not_in(ENDED))
                .values(status=status, updated=now, heartbeat=now, error=clean_text(error))
            )

    def claim_pending(self, run_id: str, *, pid: int) -> bool:
        """Make a process of this machine the owner of a run that has not begun; False when it has."""
        return self._update_pending(run_id, self._owner(self._clock(), pid))

    def end_pending(
        self, run_id: str, status: RunStatus, *, error: str | None = None, pid: int | None = None
    ) -> bool:
        """End a run that has not begun, and that `pid` owns where it is given; False for another."""
        values = {"status": status, "updated": self._clock(), "error": clean_text(error)}
        return self._update_pending(run_id, values, {} if pid is None else {"pid": pid})

    def _update_pending(self, run_id: str, values: Mapping[str, Any], more: Mapping[str, Any] = {}) -> bool:
        query = update(schema.runs).filter_by(run_id=run_id, status="pending", **more).values(**values)
        with self._write() as connection:
            return connection.execute(query).rowcount > 0

    def _update_run(self, run_id: str, values: Mapping[str, Any]) -> None:
        with self._write() as connection:
            done = connection.execute(
                update(schema.runs).where(schema.runs.c.run_id == run_id).values(**values)
            )
            if not done.rowcount:
                raise UsageError(f"no run {run_id}", hint="`castform runs list` shows the runs")

    def get_run(self, run_id: str) -> RunRecord:
        """Return one run. Raises UsageError for an unknown id."""
        with self._read() as connection:
            return queries.get_run(connection, run_id, now=self._clock())

    def find_run(self, prefix: str) -> RunRecord:
        """Return the run whose id is `prefix` or alone begins with it. Raises UsageError otherwise."""
        with self._read() as connection:
            return queries.find_run(connection, prefix, now=self._clock())

    def list_runs(self, *, kind: str | None = None, limit: int | None = None) -> list[RunRecord]:
        """Return runs, newest first."""
        with self._read() as connection:
            return queries.list_runs(connection, kind=kind, limit=limit, now=self._clock())

    def request_stop(self, run_id: str) -> None:
        """Ask the run's process to stop at the next good moment."""
        self._update_run(run_id, {"stop_requested": self._clock()})

    def stop_requested(self, run_id: str) -> bool:
        with self._read() as connection:
            query = select(schema.runs.c.stop_requested).filter_by(run_id=run_id)
            return connection.execute(query).scalar() is not None

    # -- what a run did -----------------------------------------------------------------------

    def add_event(
        self, run_id: str, kind: str, *, step: int | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Store something that happened: a checkpoint, a resume, the conservation count of a step."""
        with self._write() as connection:
            connection.execute(
                insert(schema.events).values(
                    run_id=run_id, at=self._clock(), kind=kind, step=step, data=to_json(data or {})
                )
            )

    def add_scalars(
        self, run_id: str, step: int, values: Mapping[str, float | None], *, mode: str = "train"
    ) -> None:
        """Store a step's named values; storing the same name and step again replaces the value.

        A value that is not finite is kept as missing (None).
        """
        rows = scalar_rows(run_id, step, mode, values)
        if not rows:
            return
        table = schema.scalars.c
        with self._write() as connection:
            connection.execute(
                delete(schema.scalars).where(
                    table.run_id == run_id, table.mode == mode, table.step == step, table.name.in_(values)
                )
            )
            connection.execute(insert(schema.scalars), rows)

    def add_rollouts(
        self,
        run_id: str,
        groups: Sequence[RolloutGroup],
        *,
        mode: str,
        step: int,
        calls_path: str | None = None,
        dispositions: Mapping[str, str] | None = None,
    ) -> None:
        """Store groups with their rollouts, in one transaction. Each carries the run's pin.

        `calls_path` names the JSONL file, relative to the run folder, that holds the token arrays
        of the rollouts' calls. `dispositions` maps rollout ids to what training did with them.
        A rollout id that the run has already is an error (resume truncates first).
        """
        if not any(group.rollouts for group in groups):
            return
        with self._write() as connection:
            pin = connection.execute(select(schema.runs.c.pin).filter_by(run_id=run_id)).scalar()
            rows = rollout_rows(run_id, groups, mode, step, calls_path, dispositions or {}, pin)
            connection.execute(insert(schema.rollouts), rows)

    def add_eval(self, run_id: str, label: str, *, step: int, result: Mapping[str, Any]) -> None:
        """Store an evaluation's summary or a verdict under a label: before, after, verdict, step."""
        with self._write() as connection:
            connection.execute(
                insert(schema.evals).values(
                    run_id=run_id, label=label, step=step, at=self._clock(), result=to_json(result)
                )
            )

    def truncate_after_step(self, run_id: str, step: int) -> dict[str, int]:
        """Forget what the run stored for later steps, in one transaction, before it resumes from `step`.

        Returns how many rows went, by table. Events without a step stay.
        """
        gone: dict[str, int] = {}
        with self._write() as connection:
            for table in schema.STEPPED:
                done = connection.execute(delete(table).where(table.c.run_id == run_id, table.c.step > step))
                gone[table.name] = done.rowcount
        return gone

    # -- reading ------------------------------------------------------------------------------

    def list_events(
        self, run_id: str, *, kind: str | None = None, limit: int | None = None
    ) -> list[EventRecord]:
        """Return events, oldest first; with `limit` the newest so many."""
        with self._read() as connection:
            return queries.list_events(connection, run_id, kind=kind, limit=limit)

    def read_scalars(
        self, run_id: str, *, mode: str | None = None
    ) -> dict[str, dict[str, list[ScalarPoint]]]:
        """Return {mode: {name: points in step order}}."""
        with self._read() as connection:
            return queries.read_scalars(connection, run_id, mode=mode)

    def list_rollouts(
        self,
        run_id: str,
        *,
        mode: str | None = None,
        step: int | None = None,
        example_id: str | None = None,
        limit: int | None = None,
    ) -> list[RolloutRecord]:
        """Return rollouts in the order in which they were stored, without transcripts."""
        with self._read() as connection:
            return queries.list_rollouts(
                connection, run_id, mode=mode, step=step, example_id=example_id, limit=limit
            )

    def count_rollouts(self, run_id: str) -> dict[str, dict[str, int]]:
        """Return {mode: {scored, unscored}}."""
        with self._read() as connection:
            return queries.count_rollouts(connection, run_id)

    def get_rollout(self, run_id: str, prefix: str) -> RolloutRecord:
        """Return one rollout with its transcript, by id or unique prefix. Raises UsageError."""
        with self._read() as connection:
            return queries.find_rollout(connection, run_id, prefix)

    def read_transcripts(self, run_id: str, rollout_ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return {rollout id: messages} of these rollouts of a run."""
        with self._read() as connection:
            return queries.read_transcripts(connection, run_id, rollout_ids)

    def list_pins(self, run_id: str) -> list[PinRecord]:
        """Return the environments that scored a run's rollouts, in the order in which they did."""
        with self._read() as connection:
            digests = queries.list_pin_digests(connection, run_id)
            found = read_pins(connection, digests)
        return [found[digest] for digest in digests if digest in found]

    def get_pin(self, digest: str) -> PinRecord | None:
        """Return what was stored under a pin's digest."""
        with self._read() as connection:
            return read_pins(connection, [digest]).get(digest)

    def list_evals(self, run_id: str, *, label: str | None = None) -> list[EvalRecord]:
        """Return stored evaluations and verdicts, oldest first."""
        with self._read() as connection:
            return queries.list_evals(connection, run_id, label=label)
