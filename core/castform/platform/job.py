"""The process of a launched run: started once, cut loose from who launched it, and its end written down."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from castform.errors import CastformError, RunFailedError, UsageError
from castform.runs import RunStore, hold_run_folder

JOB_FOLDER = "job"
LOG_FILE = "log.txt"
CONFIG_FILE = "config.toml"
LOCK_FILE = "lock"
POLL_SECONDS = 1.0
HEARTBEAT_POLLS = 15
EXIT_STOPPED = 1


def start_job(run_id: str, run_dir: Path, *, home: Path) -> subprocess.Popen[bytes]:
    """Start the process that trains a run, in a session of its own: it outlives this one.

    Its settings are in the run folder already, and all it says goes to the log there. OSError when
    it cannot be started.
    """
    folder = run_dir / JOB_FOLDER
    command = [sys.executable, "-P", "-m", "castform", "sft", "train"]
    with (folder / LOG_FILE).open("ab") as log:
        return subprocess.Popen(
            [*command, "--config", str(folder / CONFIG_FILE), "--launched", run_id],
            env={**os.environ, "CASTFORM_HOME": str(home)},
            cwd=None if _has_working_directory() else folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _has_working_directory() -> bool:
    """Return whether this process is in a folder that is still there."""
    try:
        os.getcwd()  # noqa: PTH109 - only whether there is one
    except OSError:
        return False
    return True


def watch_job(process: subprocess.Popen[bytes], run_id: str, run_dir: Path, *, home: Path) -> None:
    """Wait for a job's end, and write it down for one that ended before it could say anything."""
    code = process.wait()
    if code == 0:
        return
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    log = run_dir / JOB_FOLDER / LOG_FILE
    line = _last_line(log)
    text = f"its process ended with {how} before the run began" + (f": {line}" if line else "")
    with (
        suppress(CastformError),
        RunStore.open(home) as store,
    ):  # at worst the run is seen as lost, which it is
        store.end_pending(run_id, "failed", error=f"{text} (log: {log})", pid=process.pid)


@contextmanager
def hold_launched_run(store: RunStore, run_id: str) -> Iterator[None]:
    """Own a launched run while data and model are opened for it, and say why when they cannot be.

    A stop request that comes before training has begun ends the process. Raises UsageError when
    the run was started already, now or earlier: a run is started once.
    """
    run_dir = store.get_run(run_id).run_dir
    if run_dir is None:
        raise UsageError(f"run {run_id} has no folder, so it was not launched")
    with hold_run_folder(run_dir / JOB_FOLDER):
        if not store.claim_pending(run_id, pid=os.getpid()):
            status = store.get_run(run_id).status
            raise UsageError(
                f"run {run_id} was started already; it is {status}",
                hint=f"`castform sft train --resume {run_id}` goes on with it",
            )
        left = threading.Event()
        watcher = threading.Thread(target=_leave_when_asked, args=(store, run_id, left), daemon=True)
        watcher.start()
        try:
            yield
        except BaseException as error:
            is_stop = not isinstance(error, Exception)
            reason = None if is_stop else str(error) or type(error).__name__
            store.end_pending(run_id, "stopped" if is_stop else "failed", error=reason)
            raise
        finally:
            left.set()
            watcher.join()


def _leave_when_asked(store: RunStore, run_id: str, left: threading.Event) -> None:
    """End the process for a stop request, as long as the run has not begun: nothing else can be cut short.

    Until then it gives the signs of life, too.
    """
    is_pending = True
    for second in itertools.count(1):
        if not is_pending or left.wait(POLL_SECONDS):
            return
        try:
            is_pending = store.get_run(run_id).status == "pending"
            if is_pending and store.stop_requested(run_id) and store.end_pending(run_id, "stopped"):
                os._exit(EXIT_STOPPED)
            if is_pending and second % HEARTBEAT_POLLS == 0:
                store.heartbeat(run_id)
        except RunFailedError:
            continue  # the run's own next write meets the same fault and reports it


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
