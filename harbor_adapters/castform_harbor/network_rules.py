"""The network keys of a task.toml, as a NetworkPolicy."""

from __future__ import annotations

import ipaddress
import re

from castform.sandbox.contract import NetworkMode, NetworkPolicy
from castform_harbor.toml_table import Table

MODES: dict[str, NetworkMode] = {"public": "public", "no-network": "none", "allowlist": "allowlist"}
"""Harbor's words to ours."""

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def read_network(table: Table) -> NetworkPolicy | None:
    """Read `network_mode` and `allowed_hosts`; None where the table says nothing."""
    word = table.choice("network_mode", list(MODES))
    hosts = table.texts("allowed_hosts")
    if hosts is not None and word != "allowlist":
        table.fault("allowed_hosts", 'goes with network_mode = "allowlist" only')
    if word is None:
        return None
    allowed = tuple(_read_host(table, host) for host in hosts or ())
    return NetworkPolicy(mode=MODES[word], allowed_hosts=allowed if word == "allowlist" else ())


def read_legacy_internet(table: Table, policy: NetworkPolicy | None) -> NetworkPolicy | None:
    """Read `allow_internet`, which newer keys win over."""
    allowed = table.flag("allow_internet")
    if allowed is None:
        return policy
    table.warn("allow_internet", "is an older key: today it is network_mode")
    if policy is not None:
        return policy
    return NetworkPolicy(mode="public" if allowed else "none")


def _read_host(table: Table, text: str) -> str:
    """Return a host name, `*.name`, address or CIDR range in normal form."""
    host = text.strip().lower().rstrip(".")
    name = host.removeprefix("*.")
    try:
        if "/" in host:
            return ipaddress.ip_network(host).compressed
        if ":" in host:
            return ipaddress.ip_address(host).compressed
        if name != host:
            ipaddress.ip_address(name)
            table.fault("allowed_hosts", f"holds {text!r}: a wildcard stands before a name, not an address")
            return host
    except ValueError:
        if "/" in host or ":" in host:
            table.fault("allowed_hosts", f"holds {text!r}: no address or CIDR range, and no URL or port")
            return host
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        table.fault("allowed_hosts", f"holds {text!r}, which is no host name, address or CIDR range")
    return host
