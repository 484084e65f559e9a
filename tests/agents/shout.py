"""An MCP server on stdio with one tool, in a few lines: the agents' own clients are what is tested."""

from __future__ import annotations

import json
import sys

TOOL = {
    "name": "shout_it_out",
    "description": "Say a word loudly.",
    "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    version = (message.get("params") or {}).get("protocolVersion", "2024-11-05")
    results = {
        "initialize": {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "near", "version": "1"},
        },
        "tools/list": {"tools": [TOOL]},
    }
    known = message["method"] in results
    body = {"result": results[message["method"]]} if known else {"error": {"code": -32601, "message": "no"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}) + "\n")
    sys.stdout.flush()
