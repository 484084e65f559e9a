"""config.json, lock.json and result.json of a trial, as Harbor's own reader takes them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.harness.contract import HarnessResult
from castform_harbor.output import stamp
from castform_harbor.task import HarborTask
from castform_harbor.task_config import resolve_verifier_mode
from castform_harbor.trial_record import Record, Span
from castform_harbor.trial_types import TrialOptions, TrialStatus

_FINAL_METRICS = {
    "n_input_tokens": "total_prompt_tokens",
    "n_cache_tokens": "total_cached_tokens",
    "n_output_tokens": "total_completion_tokens",
    "cost_usd": "total_cost_usd",
}
"""Harbor's names for an agent's totals, and those of ATIF."""
_LARGEST_TOTAL = 1e18


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialIdentity:
    """What a trial is of."""

    task: HarborTask
    trial_name: str
    trials_dir: Path
    agent: str
    agent_version: str | None
    model: str | None
    provider: str
    options: TrialOptions


def make_config(trial: TrialIdentity) -> dict[str, Any]:
    """Return config.json."""
    options = trial.options
    return {
        "schema_version": 1,
        "task": {"path": str(trial.task.folder)},
        "trial_name": trial.trial_name,
        "trials_dir": str(trial.trials_dir),
        **_multipliers(options),
        "agent": _agent(trial),
        "environment": _environment(trial),
        "verifier": {
            "override_timeout_sec": options.verifier_timeout_seconds,
            "disable": not options.verify,
        },
        "artifacts": [item.source for item in options.artifacts],
        "extra_instructions": list(options.extra_instructions),
    }


def make_lock(trial: TrialIdentity) -> dict[str, Any]:
    """Return lock.json: the task's content digest beside what it was run with."""
    mode = "separate" if trial.options.verifier == "fresh" else resolve_verifier_mode(trial.task.config)
    return {
        "schema_version": 2,
        "task": {
            "name": trial.task.name,
            "version": trial.task.config.version,
            "type": "local",
            "digest": trial.task.digest,
            "path": str(trial.task.folder),
        },
        **_multipliers(trial.options),
        "agent": _agent(trial),
        "environment": _environment(trial),
        "verifier": {"disable": not trial.options.verify, "environment_mode": mode},
        "artifacts": [item.source for item in trial.options.artifacts],
    }


def make_result(
    trial: TrialIdentity,
    *,
    records: Sequence[Record],
    before: Record,
    rewards: Mapping[str, float] | None,
    status: TrialStatus,
    error: str | None,
    warnings: Sequence[str],
    whole: Span,
    environment_setup: Span,
    agent_setup: Span,
    folder: Path,
) -> dict[str, Any]:
    """Return result.json. Under `castform` is what Harbor has no field for: the status, the warnings."""
    single = records[0] if records and not trial.task.steps else None
    exception = before.exception or (single.exception if single else None)
    used = single.verifier if single else None
    return {
        "schema_version": 1,
        "id": str(uuid.uuid4()),
        "task_name": trial.task.name,
        "trial_name": trial.trial_name,
        "trial_uri": folder.resolve().as_uri(),
        "task_id": {"path": str(trial.task.folder)},
        "source": trial.task.config.source,
        "task_checksum": trial.task.digest.removeprefix("sha256:"),
        "config": make_config(trial),
        "agent_info": {
            "name": trial.agent,
            "version": trial.agent_version or "unknown",
            "model_info": {"name": trial.model} if trial.model else None,
        },
        "agent_result": _agent_result(single.agent_result) if single else None,
        "verifier_result": None if rewards is None else {"rewards": dict(rewards)},
        "verifier_environment_mode": "separate" if used == "fresh" else used,
        "exception_info": exception,
        "started_at": stamp(whole.started),
        "finished_at": stamp(whole.finished),
        "environment_setup": environment_setup.as_dict(),
        "agent_setup": agent_setup.as_dict(),
        "agent_execution": single.agent_span.as_dict() if single else None,
        "verifier": single.verifier_span.as_dict() if single else None,
        "step_results": [_step(record) for record in records] if trial.task.steps else None,
        "reward_valid": bool(rewards),
        "castform": {
            "status": status,
            "error": error,
            "warnings": list(warnings),
            "verifier": [record.verifier for record in records],
            "steps": [{"name": record.name, "status": record.status} for record in records],
            "test_exit_codes": [record.test_exit_code for record in records],
            "task_digest": trial.task.digest,
            "sandbox": trial.provider,
        },
    }


def _step(record: Record) -> dict[str, Any]:
    return {
        "step_name": record.name or "",
        "agent_result": _agent_result(record.agent_result),
        "verifier_result": None if record.rewards is None else {"rewards": dict(record.rewards)},
        "exception_info": record.exception,
        "agent_execution": record.agent_span.as_dict(),
        "verifier": record.verifier_span.as_dict(),
    }


def _agent_result(result: HarnessResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    totals = (result.trajectory or {}).get("final_metrics")
    totals = totals if isinstance(totals, Mapping) else {}
    return {
        **{name: _keep_number(totals.get(key)) for name, key in _FINAL_METRICS.items()},
        "rollout_details": None,
        "metadata": {
            "status": result.status,
            "exit_code": result.exit_code,
            **_keep_writable(result.metadata),
        },
    }


def _keep_number(value: object) -> int | float | None:
    """Return a total of the agent's own account, or None for what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -_LARGEST_TOTAL < value < _LARGEST_TOTAL else None


def _keep_writable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a harness tells, without what no JSON can hold."""
    found = {}
    for name, value in metadata.items():
        try:
            found[str(name)] = json.loads(json.dumps(value, default=str, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            found[str(name)] = f"a {type(value).__name__} that no JSON can hold"
    return found


def _agent(trial: TrialIdentity) -> dict[str, Any]:
    return {
        "name": trial.agent,
        "model_name": trial.model,
        "override_timeout_sec": trial.options.agent_timeout_seconds,
        "max_timeout_sec": trial.options.max_agent_timeout_seconds,
    }


def _environment(trial: TrialIdentity) -> dict[str, Any]:
    if trial.provider == "docker":
        return {"type": "docker"}
    return {"import_path": f"castform.sandbox:{trial.provider}"}


def _multipliers(options: TrialOptions) -> dict[str, float | None]:
    return {
        "timeout_multiplier": options.timeout_multiplier,
        "agent_timeout_multiplier": options.agent_timeout_multiplier,
        "verifier_timeout_multiplier": options.verifier_timeout_multiplier,
        "agent_setup_timeout_multiplier": options.agent_setup_timeout_multiplier,
        "environment_build_timeout_multiplier": options.build_timeout_multiplier,
    }
