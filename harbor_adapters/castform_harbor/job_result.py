"""A job's result.json, as Harbor's viewer reads it."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from castform_harbor.job_types import Job, JobTrial
from castform_harbor.output import now, stamp


def make_job_result(
    job: Job, trials: Collection[JobTrial], *, running: int, started: datetime, finished: datetime | None
) -> dict[str, Any]:
    """Return result.json of a job of which `trials` have ended. `finished`: None while some are to come."""
    total = len(job.tasks) * job.attempts
    statuses = [trial.status for trial in trials]
    cancelled = statuses.count("cancelled")
    key = "__".join(part for part in (job.agent, job.model, Path(job.source).name or "adhoc") if part)
    rewards: dict[str, dict[str, list[str]]] = {}
    for trial in trials:
        for name, value in (trial.rewards or {}).items():
            rewards.setdefault(name, {}).setdefault(str(value), []).append(trial.name)
    unscored = [trial.name for trial in trials if trial.rewards is None]
    return {
        "schema_version": 1,
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, job.folder.resolve().as_uri())),
        "started_at": stamp(started),
        "updated_at": stamp(now()),
        "finished_at": stamp(finished),
        "n_total_trials": total,
        "stats": {
            "n_completed_trials": len(trials) - cancelled,
            "n_errored_trials": len(unscored),
            "n_running_trials": running,
            "n_pending_trials": total - len(trials) - running,
            "n_cancelled_trials": cancelled,
            "n_retries": 0,
            "evals": {
                key: {
                    "n_trials": len(trials) - len(unscored),
                    "n_errors": len(unscored),
                    "reward_stats": rewards,
                    "exception_stats": {
                        status: [trial.name for trial in trials if trial.status == status]
                        for status in dict.fromkeys(statuses)
                        if status != "ok"
                    },
                }
            },
        },
    }
