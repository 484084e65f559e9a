"""A task's MCP servers in the form that each agent reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from castform.harness.contract import McpServer

Tables = dict[str, dict[str, Any]]  # Any: plain data


def write_codex_servers(servers: Iterable[McpServer]) -> Tables:
    """Return `[mcp_servers.<name>]` of codex: command and args, or url and http_headers."""
    return {s.name: _local(s) if s.transport == "stdio" else _remote(s, "http_headers") for s in servers}


def write_qwen_servers(servers: Iterable[McpServer]) -> Tables:
    """Return `mcpServers` of qwen-code: `url` is SSE there, `httpUrl` streamable HTTP."""
    tables: Tables = {}
    for server in servers:
        if server.transport == "stdio":
            tables[server.name] = _local(server)
            continue
        table = _remote(server, "headers")
        if server.transport == "streamable-http":
            table["httpUrl"] = table.pop("url")
        tables[server.name] = table
    return tables


def write_opencode_servers(servers: Iterable[McpServer]) -> Tables:
    """Return `mcp` of opencode: `local` with one list for the command, or `remote`."""
    return {
        s.name: {"type": "local", "command": [s.command or "", *s.args], "enabled": True}
        if s.transport == "stdio"
        else {"type": "remote", **_remote(s, "headers"), "enabled": True}
        for s in servers
    }


def _local(server: McpServer) -> dict[str, Any]:
    return {"command": server.command or "", "args": list(server.args)}


def _remote(server: McpServer, headers: str) -> dict[str, Any]:
    return {"url": server.url or "", **({headers: dict(server.headers)} if server.headers else {})}
