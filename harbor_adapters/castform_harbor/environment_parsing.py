"""The `[environment]` table of a task.toml, and the same table of a verifier's own box."""

from __future__ import annotations

import re
from typing import Literal, cast

from castform.harness.contract import McpServer
from castform.sandbox.contract import NetworkPolicy
from castform_harbor.network_rules import read_legacy_internet, read_network
from castform_harbor.task_config import EnvironmentConfig, Healthcheck
from castform_harbor.toml_table import Table

_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]*)?|\.[0-9]+)([GMK])")
_MIB = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_HEADER = re.compile(r"key|secret|token|password|credential|auth|cookie", re.IGNORECASE)
_REFERENCE = r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}"
_REFERENCES = re.compile(rf"\s*(?:[A-Za-z]+\s+)?{_REFERENCE}(?:[\s:-]*{_REFERENCE})*\s*")


def read_environment(table: Table | None) -> EnvironmentConfig:
    """Read one; None where the task has no such table."""
    if table is None:
        return EnvironmentConfig()
    network = read_legacy_internet(table, read_network(table))
    system = table.text("os")
    if system is not None and system.lower() not in ("linux", "windows"):
        table.fault("os", f"is {system!r}, not linux or windows")
    tpu = table.text_map("tpu")
    health = table.table("healthcheck")
    config = EnvironmentConfig(
        build_timeout_seconds=table.seconds("build_timeout_sec", 600.0),
        docker_image=table.text("docker_image") or None,
        os=None if system is None else system.lower(),
        cpus=table.number("cpus", above=0),
        memory_mb=_read_size(table, "memory"),
        storage_mb=_read_size(table, "storage"),
        gpus=table.whole("gpus"),
        gpu_types=table.texts("gpu_types") or (),
        tpu=tpu or None,
        network=network or NetworkPolicy(mode="public"),
        says_network=network is not None,
        env=table.variables("env"),
        workdir=table.text("workdir") or None,
        mcp_servers=tuple(_read_server(item) for item in table.tables("mcp_servers")),
        skills_dir=table.text("skills_dir") or None,
        healthcheck=None if health is None else read_healthcheck(health),
    )
    table.close()
    return config


def read_healthcheck(table: Table) -> Healthcheck:
    """Read the healthcheck of a box or of a step."""
    command = table.text("command")
    if not command:
        table.fault("command", "is missing")
    check = Healthcheck(
        command=command or "",
        interval_seconds=table.seconds("interval_sec", 5.0),
        timeout_seconds=table.seconds("timeout_sec", 30.0),
        start_period_seconds=table.seconds("start_period_sec", 0.0),
        start_interval_seconds=table.seconds("start_interval_sec", 5.0),
        retries=_read_retries(table),
    )
    table.close()
    return check


def _read_retries(table: Table) -> int:
    retries = table.whole("retries")
    return 3 if retries is None else retries


def _read_size(table: Table, key: str) -> int | None:
    """Read `memory_mb`, or the older `memory = "2G"`; both are fine while they agree."""
    size = table.whole(f"{key}_mb")
    if not table.has(key):
        table.take(key)
        return size
    table.warn(key, f"is an older key: today it is {key}_mb")
    text = table.take(key)
    if not isinstance(text, str):
        return size  # Harbor lets a number under the older key go by, too
    match = _SIZE.fullmatch(text.strip().upper())
    if match is None:
        table.fault(key, f"is {text!r}, not a size such as 2G, 512M or 1024K")
        return size
    older = int(float(match[1]) * _MIB[match[2]])
    if size is not None and size != older:
        table.fault(key, f"is {text!r}, that is {older} MiB, but {key}_mb is {size}")
    return older if size is None else size


def _read_server(table: Table) -> McpServer:
    name = table.text("name")
    transport = table.text("transport") or "sse"
    transport = "streamable-http" if transport == "http" else transport
    url, command = table.text("url"), table.text("command")
    headers = table.text_map("headers")
    if not name:
        table.fault("name", "is missing")
    if transport not in ("stdio", "sse", "streamable-http"):
        table.fault("transport", f"is {transport!r}, not stdio, sse or streamable-http")
    elif transport == "stdio" and not command:
        table.fault("command", "is missing, which stdio needs")
    elif transport != "stdio" and not url:
        table.fault("url", f"is missing, which {transport} needs")
    if transport == "stdio" and headers:
        table.fault("headers", "go with HTTP only")
    for header, value in headers.items():
        _check_header(table, header, value)
    server = McpServer(
        name=name or "",
        transport=cast('Literal["stdio", "sse", "streamable-http"]', transport),
        url=url,
        command=command,
        args=table.texts("args") or (),
        headers=headers,
    )
    table.close()
    return server


def _check_header(table: Table, name: str, value: str) -> None:
    """A task is published as it is written: it may name a secret, not hold one."""
    if not _HEADER_NAME.fullmatch(name) or "\n" in value or "\r" in value:
        table.fault("headers", f"hold {name!r}, which is no HTTP header")
    elif _SECRET_HEADER.search(name) and value.strip() and not _REFERENCES.fullmatch(value):
        table.fault("headers", f"hold a secret under {name!r}: write ${{VARIABLE}} instead")
