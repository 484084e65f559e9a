"""What an MCP server offers and answers, in the terms of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from benchmax.envs.tool_schema import MAX_TOOL_NAME, TOOL_NAME


def make_names(originals: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Return a legal and unique tool name for each of a server's own names, as {original: legal}.

    What OpenAI does not take becomes `_`, what is too long is cut, and a number tells apart
    what then is the same.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    wanted = {original: f"{prefix}{original}" for original in originals}
    # Names that are legal as they are keep themselves, whatever else is mapped onto them.
    for original, name in sorted(wanted.items(), key=lambda item: not TOOL_NAME.fullmatch(item[1])):
        legal = (re.sub(r"[^a-zA-Z0-9_-]", "_", name) or "tool")[:MAX_TOOL_NAME]
        number = 2
        unique = legal
        while unique in taken:
            ending = f"_{number}"
            unique = legal[: MAX_TOOL_NAME - len(ending)] + ending
            number += 1
        taken.add(unique)
        names[original] = unique
    return names


def make_parameters(schema: object) -> dict[str, Any]:
    """Return a server's input schema as tool parameters, without what only a validator reads."""
    given = dict(schema) if isinstance(schema, Mapping) else {}
    given.pop("$schema", None)
    given.setdefault("type", "object")
    given.setdefault("properties", {})
    return given


def read_result(result: Any, *, images: bool) -> str | list[Any]:  # Any: the package's CallToolResult
    """Return a result as the content of a tool message.

    Text joined by newlines; with `images` a list of text and image parts where there is an
    image. Structured content counts only when there is no other. An error begins with
    "Error: ".
    """
    parts: list[Any] = [_part(block, images=images) for block in result.content]
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))]
    if result.is_error:
        words = "\n".join(part for part in parts if isinstance(part, str))
        return f"Error: {words or 'the tool failed without a word'}"
    if all(isinstance(part, str) for part in parts):
        return "\n".join(parts)
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


def _part(block: Any, *, images: bool) -> str | dict[str, Any]:  # Any: the package's content blocks
    if block.type == "text":
        return str(block.text)
    if block.type == "image":
        return _media(block.data, block.mime_type, images=images)
    if block.type == "audio":
        return _media(block.data, block.mime_type, images=False)
    if block.type == "resource_link":
        return f"{block.name}: {block.uri}"
    resource: Any = getattr(block, "resource", None)
    if getattr(resource, "text", None) is not None:
        return str(resource.text)
    if getattr(resource, "blob", None) is not None:
        return _media(resource.blob, str(resource.mime_type), images=images)
    return f"[{block.type}]"


def _media(data: str, mime_type: str, *, images: bool) -> str | dict[str, Any]:
    """Return base64 data as an image part, or what a model that reads text only is told about it."""
    if images and mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"[{mime_type}, {size:,} bytes]"
