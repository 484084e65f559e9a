"""The content of a message: one string, or parts that are all text."""

from __future__ import annotations

from benchmax.sft.wording import shown
from castform.sft.convert.draft import Draft
from castform.sft.convert.notes import RefusedError

TEXT_PARTS = ("text", "input_text", "output_text")
OTHER_PARTS = (
    "refusal",
    "image_url",
    "input_image",
    "image",
    "input_audio",
    "audio",
    "audio_url",
    "video",
    "video_url",
    "file",
    "input_file",
)
TEXT_KEYS = {"text", "type"}


def read_content(content: object, location: str, draft: Draft) -> object:
    """Return content as a string where it is text in parts; what is no list stays as it is.

    RefusedError `multimodal`: a part is something else than text.
    """
    if not isinstance(content, list):
        return content
    texts = [_part_text(part, f"{location}[{index}]", draft) for index, part in enumerate(content)]
    draft.note("content_joined", location, f"{len(texts)} text part{'' if len(texts) == 1 else 's'}")
    return "".join(texts)


def is_parts(content: object) -> bool:
    """Return whether content is a list of parts, and not one that a tool gave as its result."""
    known = (*TEXT_PARTS, *OTHER_PARTS)
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(part, dict) and part.get("type") in known for part in content)
    )


def _part_text(part: object, location: str, draft: Draft) -> str:
    if not isinstance(part, dict):
        raise RefusedError("column_type", location, f"a part of the content is {shown(part)}, not an object")
    kind = part.get("type", "text")
    text = part.get("text")
    if kind in TEXT_PARTS and isinstance(text, str):
        others = sorted(part.keys() - TEXT_KEYS)
        for key in others:
            if part[key] not in (None, []):
                raise RefusedError("column_type", location, f"a text part has {key} beside its text")
            draft.null(f"{location}.{key}")
        return text
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return str(part["refusal"])
    text = f"a part of the content is of type {shown(kind)}; only text can be trained on"
    raise RefusedError("multimodal", location, text)
