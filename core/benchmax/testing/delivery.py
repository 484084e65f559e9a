"""Send what a script says over HTTP: whole, streamed, slowly, cut off, or as an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from benchmax.testing.replies import Fault, RawReply, Reply, stream_chunks

PIECE_BYTES = 64


def error_response(fault: Fault) -> web.Response:
    """Return an HTTP error in OpenAI's form."""
    headers = dict(fault.headers)
    if fault.retry_after_seconds is not None:
        headers["Retry-After"] = f"{fault.retry_after_seconds:g}"
    error = {"message": fault.message, "type": "scripted_fault", "code": fault.code, "param": fault.param}
    return web.json_response({"error": error}, status=fault.status, headers=headers)


def raw_response(raw: RawReply) -> web.Response:
    return web.Response(body=raw.body, status=raw.status, content_type="application/json")


async def send_completion(
    http: web.Request,
    body: Mapping[str, Any],
    head: Mapping[str, Any],
    choices: Sequence[Mapping[str, Any]],
    usage: Mapping[str, Any],
    replies: Sequence[Reply],
) -> web.StreamResponse:
    """Answer one request. The first of the `replies` that is cut is where all of it is cut."""
    cut = next((reply.cut_after_bytes for reply in replies if reply.cut_after_bytes is not None), None)
    pause = max(reply.piece_seconds for reply in replies)
    if body.get("stream"):
        wants_usage = (body.get("stream_options") or {}).get("include_usage")
        events = list(stream_chunks(head, choices, usage if wants_usage else None))
        return await _send_pieces(http, events, "text/event-stream", None, cut, pause)
    payload = json.dumps({**head, "object": "chat.completion", "choices": choices, "usage": usage}).encode()
    if cut is None and not pause:
        return web.Response(body=payload, content_type="application/json")
    pieces = [payload[i : i + PIECE_BYTES] for i in range(0, len(payload), PIECE_BYTES)]
    return await _send_pieces(http, pieces, "application/json", len(payload), cut, pause)


async def _send_pieces(
    http: web.Request,
    pieces: Sequence[bytes],
    kind: str,
    promised_bytes: int | None,
    cut: int | None,
    pause: float,
) -> web.StreamResponse:
    """Send pieces with pauses between them. A length is promised in full, so that a cut is seen as one."""
    response = web.StreamResponse(headers={"Content-Type": kind})
    response.content_length = promised_bytes
    await response.prepare(http)
    left = cut
    for place, piece in enumerate(pieces):
        if pause and place:
            await asyncio.sleep(pause)
        await response.write(piece if left is None else piece[:left])
        left = None if left is None else left - len(piece)
        if left is not None and left <= 0:
            break
    if cut is not None and http.transport is not None:
        http.transport.close()
    return response
