"""The platform on this machine: data in a folder, runs in the run store, a process for each run."""

from __future__ import annotations

import fcntl
import importlib.util
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from castform.errors import CastformError, UsageError
from castform.home import castform_home
from castform.platform.assets import EVAL_FILE
from castform.platform.errors import JobLaunchError, TrainerError
from castform.platform.job import CONFIG_FILE, JOB_FOLDER, start_job, watch_job
from castform.platform.launch_checks import check_data
from castform.platform.model_default import find_model
from castform.platform.request import Answer, Scalars, SftLaunch, check_sft_launch
from castform.platform.run_answers import describe_details, describe_events, describe_run, describe_scalars
from castform.platform.sft_settings import Sections, make_settings, write_toml
from castform.platform.storage import FOLDER, LocalStorage
from castform.runs import RunRecord, RunStore, run_folder

if TYPE_CHECKING:
    from castform.sft.config import SftConfig

KIND = "sft"
LAUNCHED = "launched"
"""Event that keeps the request which a run was launched with."""
NEEDED = ("torch", "transformers", "peft", "castform_trainer")
BAD_REQUEST, NOT_FOUND, CONFLICT = 400, 404, 409
ACTIVE = ("pending", "running")
LAUNCH_LOCK = "launch.lock"


class LocalTransport:
    """Answers a TrainerClient from the run store of `home`, by default CASTFORM_HOME."""

    def __init__(self, home: Path | None = None) -> None:
        self._home = (home or castform_home()).absolute()
        self._store: RunStore | None = None

    def close(self) -> None:
        """Close the store. Runs go on."""
        if self._store is not None:
            self._store.close()

    def launch_sft_run(self, launch: SftLaunch) -> Answer:
        """Check what can be checked at once, store the run, start its process. JobLaunchError."""
        try:
            check_sft_launch(launch)
        except ValueError as error:
            raise JobLaunchError(str(error), BAD_REQUEST) from error
        model = find_model(launch.get("model"), models=self._home / "models")
        train = self._find_data(launch["dataset"]["path"])
        held_out = train.with_name(EVAL_FILE) if "eval" in launch else None
        check_data(launch, train=train, held_out=held_out)
        settings = make_settings(launch, model=model, train=train, held_out=held_out)
        with _errors(JobLaunchError), _one_at_a_time(self._home):
            config = _check_settings(settings)
            self._check_twin(launch, config)
            _check_extra()
            run_id = self._start(launch, config, settings)
        return {"runId": run_id, "warnings": [] if model.warning is None else [model.warning]}

    def list_runs(self, *, include_config: bool) -> list[Answer]:
        """Return all runs of the store, newest first, of whatever kind."""
        with _errors():
            store = self._open()
            return [
                describe_run(store, record, include_config=include_config) for record in store.list_runs()
            ]

    def get_run(self, run_id: str, *, include_config: bool) -> Answer:
        with _errors():
            return describe_run(self._open(), self._find(run_id), include_config=include_config)

    def get_run_details(self, run_id: str) -> Answer:
        with _errors():
            return describe_details(self._open(), self._find(run_id))

    def get_run_events(self, run_id: str) -> list[Answer]:
        with _errors():
            return describe_events(self._open().list_events(self._find(run_id).run_id))

    def get_run_scalars(self, run_id: str, mode: str | None) -> Scalars:
        with _errors():
            return describe_scalars(self._open(), self._find(run_id), mode)

    def cancel_run(self, run_id: str) -> Answer:
        """Ask the run's process to stop; it does so at its next good moment, or at once before it trains."""
        with _errors():
            record = self._find(run_id)
            if record.status not in ACTIVE:
                message = f"run {record.run_id} is not running: {record.status}"
            else:
                self._open().request_stop(record.run_id)
                message = f"run {record.run_id} was asked to stop"
            return {"id": record.run_id, "status": record.status, "message": message}

    def _open(self) -> RunStore:
        if self._store is None:
            self._store = RunStore.open(self._home)
        return self._store

    def _find(self, run_id: object) -> RunRecord:
        if not isinstance(run_id, str):
            raise TypeError(f"run_id must be text, not {type(run_id).__name__}")
        try:
            return self._open().find_run(run_id)
        except UsageError as error:
            raise TrainerError(str(error), NOT_FOUND, hint=error.hint) from error

    def _find_data(self, path: str) -> Path:
        try:
            return LocalStorage(self._home / FOLDER).find(path)
        except ValueError as error:
            raise JobLaunchError(str(error), BAD_REQUEST) from error

    def _check_twin(self, launch: SftLaunch, config: SftConfig) -> None:
        """Raise JobLaunchError while the same run is going on: a second one would only repeat it."""
        store = self._open()
        settings = config.model_dump(mode="json")
        for record in store.list_runs(kind=KIND):
            if record.status not in ACTIVE or record.config != settings:
                continue
            if [event.data for event in store.list_events(record.run_id, kind=LAUNCHED)] == [launch]:
                raise JobLaunchError(
                    f"this run was launched already and is {record.status}: {record.run_id}",
                    CONFLICT,
                    hint="cancel it first, or give this one another name or seed",
                )

    def _start(self, launch: SftLaunch, config: SftConfig, settings: Sections) -> str:
        """Store the run, give it its process, and return its id."""
        store, run_id = self._open(), secrets.token_hex(5)
        run_dir = run_folder(self._home, run_id)
        try:
            (run_dir / JOB_FOLDER).mkdir(parents=True)
            write_toml(run_dir / JOB_FOLDER / CONFIG_FILE, settings)
            store.create_run(
                kind=KIND,
                name=launch["name"],
                config=config.model_dump(mode="json"),
                run_id=run_id,
                run_dir=run_dir,
            )
            store.add_event(run_id, LAUNCHED, data=launch)
            process = start_job(run_id, run_dir, home=self._home)
        except OSError as error:
            store.end_pending(run_id, "failed", error=f"cannot start its process: {error.strerror or error}")
            raise JobLaunchError(f"cannot start the run in {run_dir}: {error.strerror or error}") from error
        store.claim_pending(run_id, pid=process.pid)
        threading.Thread(
            target=watch_job,
            args=(process, run_id, run_dir),
            kwargs={"home": self._home},
            name=f"job-{run_id}",
            daemon=True,
        ).start()
        return run_id


def _check_extra() -> None:
    """Raise JobLaunchError when what trains is not installed."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise JobLaunchError(
            f"training needs {missing[0]}, which is not installed", hint="pip install 'castform[train]'"
        )


def _check_settings(settings: Sections) -> SftConfig:
    from castform.sft.config import SftConfig

    return SftConfig.model_validate(settings)


@contextmanager
def _errors(kind: type[TrainerError] = TrainerError) -> Iterator[None]:
    """Make what the store says an error of the platform."""
    try:
        yield
    except TrainerError:
        raise
    except CastformError as error:
        raise kind(str(error), hint=error.hint) from error
    except OSError as error:
        raise kind(
            f"cannot write {error.filename}: {error.strerror or error}",
            hint="set CASTFORM_HOME to a folder that you can write",
        ) from error


@contextmanager
def _one_at_a_time(home: Path) -> Iterator[None]:
    """Hold off other launches of this home: of two that are the same, the second sees the first."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / LAUNCH_LOCK).open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
