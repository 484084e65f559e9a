"""A job's config.json: what its trials are run with, so that one that is gone on with stays the same job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from castform.errors import UsageError
from castform.harness.contract import Harness
from castform.harness.digest import digest_harness
from castform_harbor.job_types import Job
from castform_harbor.output import CONFIG_FILE, read_json
from castform_harbor.trial_types import TrialOptions

OPTIONS = "castform_options"
"""Where config.json has how trials are run."""
SETTINGS = "castform_settings"
"""Where it has the agent's digest and the job's own `settings`."""
AGENT_DIGEST = "agent_digest"


def make_job_config(job: Job, harness: Harness) -> dict[str, Any]:
    """Return config.json, as Harbor's viewer reads it."""
    return {
        "job_name": job.folder.name,
        "jobs_dir": str(job.folder.parent),
        "n_attempts": job.attempts,
        "n_concurrent_trials": job.concurrency,
        "agents": [{"name": job.agent, "model_name": job.model}],
        "environment": {"type": "docker"}
        if job.sandbox == "docker"
        else {"import_path": f"castform.sandbox:{job.sandbox}"},
        "tasks": [{"path": str(task.folder)} for task in job.tasks],
        "datasets": [],
        OPTIONS: describe_options(job.options),
        SETTINGS: {AGENT_DIGEST: digest_harness(harness), **job.settings},
    }


def check_same_job(job: Job, config: Mapping[str, Any]) -> None:
    """Raise UsageError where the job's folder holds trials of another agent, model or sandbox, or run otherwise."""
    known = read_json(job.folder / CONFIG_FILE) or {}
    wanted = json.loads(json.dumps(config))
    differences = []
    if known.get("agents", wanted["agents"]) != wanted["agents"]:
        differences.append(f"another agent or model: {_name_all(known['agents'])}")
    if known.get("environment", wanted["environment"]) != wanted["environment"]:
        differences.append(f"another sandbox: {_name_all(known['environment'])}")
    for part in (OPTIONS, SETTINGS):
        before, after = known.get(part), wanted[part]
        if not isinstance(before, dict):  # the job was begun by what did not write them
            continue
        differences += [
            _describe_difference(name, before.get(name), after.get(name))
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)
        ]
    if differences:
        raise UsageError(
            f"{job.folder} holds the trials of {'; '.join(differences)}",
            hint="give this one another --job-name",
        )


def describe_options(options: TrialOptions) -> dict[str, Any]:
    """Return what a trial's outcome depends on, as plain data; of variables the names, as values may be secret."""
    found: dict[str, Any] = {}
    for item in fields(options):
        value = getattr(options, item.name)
        if item.name in ("agent_env", "verifier_env"):
            found[item.name] = sorted(value)
        elif item.name == "artifacts":
            found[item.name] = [asdict(artifact) for artifact in value]
        elif item.name == "limits":
            found[item.name] = asdict(options.limits)
        elif item.name != "host_env":
            found[item.name] = value
    return found


def _name_all(entry: object) -> str:
    """Return the names in a part of a config.json, whatever wrote it: `nop`, `terminus-lite, smollm2-135m`."""
    if isinstance(entry, dict):
        return ", ".join(str(value) for value in entry.values() if value is not None)
    if isinstance(entry, list):
        return " and ".join(_name_all(item) for item in entry)
    return str(entry)


def _describe_difference(name: str, before: object, after: object) -> str:
    if name == AGENT_DIGEST:
        return "the agent as it was: its settings, or the files that it uploads, have changed since"
    return f"{name} = {before!r}, not {after!r}"
