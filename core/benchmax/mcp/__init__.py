"""Model Context Protocol servers as tools: `pip install 'castform[mcp]'`."""

from __future__ import annotations

from benchmax.mcp.server import McpServer

__all__ = ["McpServer"]
