"""Certify an environment where its plugin is installed, and put the certificate into the plugin's source."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from castform.authoring.fresh_venv import FreshVenv
from castform.authoring.project import Project
from castform.authoring.report import CheckRow, fails, passes
from castform.certify.certificates import FOLDER, read_certificate

TIMEOUT_SECONDS = 900.0
MOST_FINDINGS = 10


def certify_installed(id: str, project: Project, fresh: FreshVenv, work: Path) -> CheckRow:
    """Run `castform env certify` in the fresh environment; a certificate that passed is written into the source."""
    check = f"certified {id}"
    made = work / "certificate.json"
    made.unlink(missing_ok=True)
    done = fresh.run(
        ["-m", "castform", "env", "certify", id, "--output", str(made)],
        cwd=work / "elsewhere",
        timeout_seconds=TIMEOUT_SECONDS,
    )
    certificate = read_certificate(made)
    lines = [line for line in done.output.splitlines() if line.strip()]
    if certificate is None:
        return fails(check, f"certifying it {done.describe()}", details=lines[-MOST_FINDINGS:])
    if certificate.get("passed") is not True:
        return fails(
            check,
            "; ".join(_list_faults(certificate)) or str(certificate.get("verdict")),
            hint=f"`castform env certify {id}` shows it, once the plugin is installed",
        )
    place = _find_place(project, id)
    if place is None:
        return fails(check, "it passed, but the package's source is not where a certificate could be put")
    place.parent.mkdir(exist_ok=True)
    shutil.copyfile(made, place)
    return passes(check, f"{place.relative_to(project.folder)}, in the next wheel")


def _list_faults(certificate: dict[str, Any]) -> list[str]:
    found = certificate.get("findings")
    faults = (
        [f for f in found if isinstance(f, dict) and f.get("level") == "fault"]
        if isinstance(found, list)
        else []
    )
    return [str(fault.get("message")) for fault in faults[:MOST_FINDINGS]]


def _find_place(project: Project, id: str) -> Path | None:
    source = next((place for place in project.packages.values() if place is not None), None)
    return None if source is None else source / FOLDER / f"{id.partition('/')[2]}.json"
