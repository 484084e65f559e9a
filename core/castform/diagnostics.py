"""What an environment itself knows to be wrong with it."""

from __future__ import annotations

from typing import Any

from benchmax.envs import Environment
from benchmax.envs.termination import describe_error
from castform.validation import Finding, Level


def read_diagnostics(environment: Environment[Any, Any]) -> list[Finding]:
    """Return the environment's own diagnostics as findings, or a fault when it raises instead."""
    try:
        diagnostics = tuple(environment.validation_diagnostics())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
        message = f"validation_diagnostics raised {describe_error(error)}"
        return [Finding(level="fault", code="diagnostics_raise", message=message)]
    findings = []
    for item in diagnostics:
        place = f" at {item.location}" if item.location else ""
        level: Level = "fault" if item.severity == "error" else "warning"
        findings.append(Finding(level=level, code=item.code, message=f"{item.message}{place}"))
    return findings
