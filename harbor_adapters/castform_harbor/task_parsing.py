"""task.toml text becomes a TaskConfig: every fault at once, unknown and older keys as warnings."""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from typing import Any, cast

from castform.errors import UsageError
from castform_harbor.environment_parsing import read_environment, read_healthcheck
from castform_harbor.network_rules import read_network
from castform_harbor.task_config import (
    MAIN_SERVICE,
    AgentConfig,
    Artifact,
    CollectHook,
    RewardStrategy,
    StepConfig,
    TaskConfig,
    VerifierConfig,
    VerifierMode,
)
from castform_harbor.toml_table import Findings, Table, as_number

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*/[A-Za-z0-9_-][A-Za-z0-9._-]*")
_UNUSABLE_STEP = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)
_LONGEST_NAME_BYTES = 255


def parse_task(text: str, *, where: str) -> tuple[TaskConfig | None, tuple[str, ...], UsageError | None]:
    """Return the configuration, what is odd about it, and an error that lists every fault, if there is one.

    Where there are faults the configuration has defaults in their place; it is None for text that is no TOML.
    """
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of too many digits is a plain ValueError
        return None, (), UsageError(f"{where} is no TOML: {error}")
    findings = Findings()
    config = read_task(Table(values, "", findings))
    fault = None
    if findings.faults:
        faults = "".join(f"\n  {fault}" for fault in findings.faults)
        fault = UsageError(
            f"{where} cannot be used:{faults}", hint="the keys are those of Harbor's task.toml"
        )
    return config, tuple(findings.warnings), fault


def read_task(table: Table) -> TaskConfig:
    """Read the whole file; what is wrong with it is in the table's findings."""
    version = table.text("schema_version")
    if table.has("version"):
        table.warn("version", "is an older key: today it is schema_version")
    version = version or table.text("version") or "1.4"
    table.take("version")
    package = table.table("task")
    metadata = table.take("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        table.fault("metadata", "is not a table")
    solution = table.table("solution")
    environment = read_environment(table.table("environment"))
    solution_env = solution.variables("env") if solution else {}
    if solution:
        solution.close()
    config = TaskConfig(
        schema_version=version,
        source=table.text("source"),
        reward_strategy=cast(
            "RewardStrategy | None", table.choice("multi_step_reward_strategy", ("mean", "final"))
        ),
        artifacts=_read_artifacts(table),
        metadata=metadata if isinstance(metadata, dict) else {},
        agent=_read_agent(table.table("agent")),
        verifier=_read_verifier(table.table("verifier")),
        environment=environment,
        solution_env=solution_env,
        steps=_read_steps(table),
        **_read_package(package),
    )
    table.close()
    return config


def _read_package(table: Table | None) -> dict[str, Any]:  # Any: fields of TaskConfig
    if table is None:
        return {}
    name = table.text("name")
    if name is None:
        table.fault("name", "is missing")
    elif not _NAME.fullmatch(name) or ".." in name:
        table.fault("name", f"is {name!r}, not org/name")
    for author in table.tables("authors"):
        author.text("name")
        author.text("email")
        author.close()
    fields = {
        "name": name,
        "version": table.text("version"),
        "description": table.text("description") or "",
        "keywords": table.texts("keywords") or (),
    }
    table.close()
    return fields


def _read_agent(table: Table | None) -> AgentConfig:
    if table is None:
        return AgentConfig()
    config = AgentConfig(
        timeout_seconds=table.number("timeout_sec", above=0),
        user=table.user("user"),
        network=read_network(table),
    )
    table.close()
    return config


def _read_verifier(table: Table | None) -> VerifierConfig:
    if table is None:
        return VerifierConfig()
    environment = table.table("environment")
    mode = table.choice("environment_mode", ("shared", "separate"))
    if mode == "shared" and environment is not None:
        table.fault("environment", 'makes the verifier separate, but environment_mode is "shared"')
    config = VerifierConfig(
        timeout_seconds=table.seconds("timeout_sec", 600.0),
        env=table.variables("env"),
        user=table.user("user"),
        network=read_network(table),
        mode=cast("VerifierMode | None", mode),
        environment=None if environment is None else read_environment(environment),
        collect=tuple(_read_hook(item) for item in table.tables("collect")),
    )
    table.close()
    return config


def _read_hook(table: Table) -> CollectHook:
    command = table.text("command")
    if not command:
        table.fault("command", "is missing")
    hook = CollectHook(
        command=command or "",
        service=table.text("service") or MAIN_SERVICE,
        timeout_seconds=table.seconds("timeout_sec", 60.0),
        user=table.user("user"),
    )
    table.close()
    return hook


def _read_artifacts(table: Table) -> tuple[Artifact, ...]:
    found = []
    for item in table.items("artifacts"):
        if isinstance(item, str):
            artifact = Artifact(source=item)
            inside = table
        else:
            artifact = Artifact(
                source=item.text("source") or "",
                destination=item.text("destination") or None,
                exclude=item.texts("exclude") or (),
                service=item.text("service") or MAIN_SERVICE,
            )
            item.close()
            inside = item
        for problem in find_artifact_problems(artifact):
            inside.fault("artifacts", problem)
        found.append(artifact)
    return tuple(found)


def find_artifact_problems(artifact: Artifact) -> list[str]:
    """Return what is wrong with an artifact, whoever declares it; nothing lands outside its trial's folder."""
    found = []
    source, to = artifact.source, artifact.destination
    if not source.strip("/"):
        found.append(f"names {source!r}, which is no file or folder to carry out")
    for path in (source, to or ""):
        if ".." in path.split("/"):
            found.append(f"names {path!r}: '..' is not allowed")
        if "\0" in path:
            found.append(f"names {path!r}, which is no path")
    if to is not None and (to.startswith("/") or "\\" in to or not to.strip("./")):
        found.append(f"has the destination {to!r}: it is relative and names a file or folder")
    if to is not None and to.rstrip("/") == "manifest.json":
        found.append("has the destination manifest.json, where Harbor lists what was taken")
    if artifact.service != MAIN_SERVICE and not source.startswith("/"):
        found.append(f"names {source!r} of another service: that path has to be absolute")
    return found


def _read_steps(table: Table) -> tuple[StepConfig, ...]:
    found: list[StepConfig] = []
    seen: set[str] = set()
    for item in table.tables("steps"):
        name = item.text("name") or ""
        problem = find_name_problem(name)
        if problem:
            item.fault("name", problem)
        key = unicodedata.normalize("NFC", name).casefold()
        if key in seen:
            item.fault("name", f"is {name!r}, which another step has too (case does not count)")
        seen.add(key)
        health = item.table("healthcheck")
        found.append(
            StepConfig(
                name=name,
                agent=_read_agent(item.table("agent")),
                verifier=_read_verifier(item.table("verifier")),
                min_reward=_read_min_reward(item),
                healthcheck=None if health is None else read_healthcheck(health),
                artifacts=_read_artifacts(item),
            )
        )
        item.close()
    return tuple(found)


def _read_min_reward(table: Table) -> dict[str, float]:
    value = table.take("min_reward")
    if value is None:
        return {}
    thresholds = value if isinstance(value, dict) else {"reward": value}
    found = {}
    for key, threshold in thresholds.items():
        number = None if isinstance(threshold, str) else as_number(threshold)
        if number is None or math.isnan(number):
            table.fault("min_reward", f"is {value!r}, not a number or a table of numbers")
            return {}
        found[key] = number
    return found


def find_name_problem(name: str) -> str | None:
    """Return what is wrong with a step's name: it is a folder's name on every system."""
    if not name.strip():
        return "is missing"
    if name in (".", "..") or name.endswith((".", " ")) or _UNUSABLE_STEP.search(name):
        return f"is {name!r}, which is no folder name everywhere"
    if _DEVICE.fullmatch(name) or len(name.encode()) > _LONGEST_NAME_BYTES:
        return f"is {name!r}, which is no folder name everywhere"
    return None
