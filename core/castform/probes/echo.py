"""A probe that repeats the prompt."""

from __future__ import annotations

from castform.probes.probe import Probe
from castform.scripted_replies import ScriptedRequest


def _echo(request: ScriptedRequest) -> str:
    for message in reversed(request.messages):
        if message["role"] == "user":
            content = message["content"]
            if isinstance(content, str):
                return content
            return "\n".join(part.get("text", "") for part in content or ())
    return ""


PROBES = (Probe(name="echo", what="the prompt, repeated", make=lambda context: _echo),)
