"""A small MCP server in plain JSON-RPC over stdio; its first argument is how it behaves.

well          answers everything
no-start      reads and never answers
dies-early    writes to stderr and exits with 7 at once
garbage       writes lines that are no messages, without end
banner        writes two lines of greeting to stdout first
deaf          answers until a call of `hang`, then nothing any more
crowd         starts a grandchild that outlives everything but a kill, its id in the second argument's file
crowd-silent  the same, and never answers
apart         starts one in a session of its own, and another one so whose environment is empty
apart-dies    starts the first of them and exits with 7 at once
"""

import json
import os
import subprocess
import sys
import time

mode = sys.argv[1] if len(sys.argv) > 1 else "well"


def schema(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT = {"type": "string"}
TOOLS = [
    {"name": "echo", "description": "Say it again.", "inputSchema": schema(["text"], text=TEXT)},
    {"name": "files/read it", "inputSchema": schema(self=TEXT, rollout_id=TEXT)},
    {"name": "files.read_it", "title": "Read", "inputSchema": schema()},
    {"name": "pid", "inputSchema": schema()},
    {"name": "env", "inputSchema": schema(["name"], name=TEXT)},
    {"name": "fail", "inputSchema": schema()},
    {"name": "refuse", "inputSchema": schema()},
    {"name": "picture", "inputSchema": schema()},
    {"name": "structured", "inputSchema": schema()},
    {"name": "half", "inputSchema": schema()},
    {"name": "odd", "inputSchema": schema()},
    {"name": "flood", "inputSchema": schema(megabytes={"type": "integer"})},
    {"name": "hang", "inputSchema": schema()},
    {"name": "exit", "inputSchema": schema(code={"type": "integer"})},
]
PIXEL = "iVBORw0KGgo="


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def call(name, arguments):
    if name == "echo":
        return text(arguments["text"])
    if name.startswith("files"):
        return text(name + json.dumps(arguments, sort_keys=True))
    if name == "pid":
        return text(str(os.getpid()))
    if name == "env":
        return text(os.environ.get(arguments["name"], "unset"))
    if name == "fail":
        return {**text("disk full"), "isError": True}
    if name == "picture":
        return {
            "content": [
                {"type": "text", "text": "a pixel"},
                {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource_link", "name": "log", "uri": "file:///log"},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            ]
        }
    if name == "flood":
        return text("x" * (arguments["megabytes"] << 20))
    if name == "structured":
        return {"content": [], "structuredContent": {"degrees": 21}}
    if name == "half":
        return text("cut here: \ud83d")
    if name == "odd":
        return {"content": "not a list"}
    if name == "exit":
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(arguments.get("code", 3))
    raise KeyError(name)


def answer(message):
    method = message["method"]
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "plain", "version": "1"},
        }
    if method == "tools/list":
        if not message.get("params", {}).get("cursor"):
            return {"tools": TOOLS[:5], "nextCursor": "more"}
        return {"tools": TOOLS[5:]}
    if method == "tools/call":
        return call(message["params"]["name"], message["params"].get("arguments") or {})
    return {}


if mode == "dies-early":
    print("no licence found", file=sys.stderr, flush=True)
    sys.exit(7)
if mode == "garbage":
    while True:
        print("#" * 60, flush=True)
if mode == "banner":
    print("Welcome to the plain server\n\nlistening", flush=True)
if mode.startswith(("crowd", "apart")):
    stubborn = "import signal,time\nsignal.signal(15, lambda *a: 0)\nwhile 1: time.sleep(60)"
    words = [sys.executable, "-S", "-c", stubborn]
    apart = mode.startswith("apart")
    children = [subprocess.Popen(words, start_new_session=apart)]
    if mode == "apart":
        children.append(subprocess.Popen(words, start_new_session=True, env={}))
    print(children[0].pid, file=sys.stderr, flush=True)
    with open(sys.argv[2], "w") as out:  # noqa: PTH123 - pathlib takes longer to import than the rest
        out.write(" ".join(str(child.pid) for child in children))
if mode == "apart-dies":
    os._exit(7)
deaf = mode in ("no-start", "crowd-silent")
for line in sys.stdin:
    message = json.loads(line)
    if deaf or "id" not in message or "method" not in message:
        continue
    called = message["params"].get("name") if message["method"] == "tools/call" else None
    if called == "hang":
        deaf = mode == "deaf"
        continue
    if called == "refuse":
        reply = {"error": {"code": -32602, "message": "no such thing"}}
    else:
        reply = {"result": answer(message)}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
if mode == "crowd":
    time.sleep(60)
