"""Try a bundle in a process and a Python environment of its own."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmax.bundle import Bundle, bundle_digest, write_bundle
from castform.bundles import child
from castform.bundles.bounded_process import Finished, run_bounded
from castform.bundles.own_venv import prepare_venv
from castform.bundles.report import TrialOptions, TrialReport
from castform.errors import RunFailedError, UsageError

MAX_REPORT_BYTES = 8 << 20
_PASSED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
"""Environment variables that the process gets. No key of the host's is among them."""
_DOING = {
    "load": "while it was loaded",
    "make": "in its constructor",
    "diagnostics": "in validation_diagnostics",
    "dataset": "in create_dataset",
    "rollout": "in a rollout",
}


def try_bundle(
    bundle: Bundle,
    *,
    home: Path,
    options: TrialOptions | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> TrialReport:
    """Load a bundle where only its declared dependencies are, and return what it is.

    Integrity, signature and compatibility are for `open_bundle` to check first. The process
    gets no secrets of the environment and ends with the trial; it is no sandbox: it may
    read and write what this user may.

    RunFailedError, with the stage, when the process crashes, exits, hangs or floods;
    MissingError when a dependency cannot be installed.
    """
    options = options or TrialOptions()
    variables = _variables(options)
    own = prepare_venv(bundle.metadata.pip_dependencies, home=home, on_stage=on_stage)
    on_stage("loading the bundle in a process of its own")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="castform-bundle-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        write_bundle(bundle, work / child.BUNDLE)
        request = {"digest": bundle_digest(bundle), **asdict(options)}
        (work / child.REQUEST).write_text(json.dumps(request), encoding="utf-8")
        done = run_bounded(
            [str(own.python), "-I", "-B", "-m", child.__name__, str(work)],
            cwd=work,
            env=variables,
            timeout_seconds=options.timeout_seconds,
        )
        return _read_report(work, done, seconds=time.monotonic() - started)


def _variables(options: TrialOptions) -> dict[str, str]:
    missing = [name for name in options.environment_variables if name not in os.environ]
    if missing:
        raise UsageError(f"the environment variable {missing[0]} is not set, and the bundle was to get it")
    names = {*_PASSED, *options.environment_variables}
    return {name: v for name, v in os.environ.items() if name in names or name.startswith("LC_")}


def _read_report(work: Path, done: Finished, *, seconds: float) -> TrialReport:
    path = work / child.REPORT
    if done.ending != "exit" or done.code != 0 or not path.is_file():
        raise _make_failure(work, done)
    try:
        if path.stat().st_size > MAX_REPORT_BYTES:
            raise ValueError(f"it has more than {MAX_REPORT_BYTES >> 20} MiB")
        value: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))  # checked by from_dict
        return TrialReport.from_dict({**value, "seconds": seconds, "output": done.output})
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunFailedError(f"the bundle's process wrote no report that can be read: {error}") from error


def _make_failure(work: Path, done: Finished) -> RunFailedError:
    try:
        stage = _DOING.get((work / child.STAGE).read_text(encoding="utf-8"), "")
    except (OSError, ValueError):
        stage = "before it was loaded"
    last = next((line.strip() for line in reversed(done.output.splitlines()) if line.strip()), "")
    said = f"its last words: {last[:300]}" if last else "it printed nothing"
    how = "ended without a report" if done.ending == "exit" and done.code == 0 else done.describe()
    return RunFailedError(f"the bundle's process {how} {stage}".rstrip(), hint=said)
