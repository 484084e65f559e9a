"""Rows that are made for something else than supervised finetuning on text, whatever their format."""

from __future__ import annotations

from benchmax.sft.wording import listed_keys, shown
from castform.sft.convert.draft import Row
from castform.sft.convert.notes import RefusedError

PAIRS = (("chosen", "rejected"), ("preferred_output", "non_preferred_output"))
LABELS = ("label", "kto_tag")
MEDIA = ("images", "image", "videos", "video", "audios", "audio")


def refuse_other_purposes(row: Row) -> None:
    """Raise RefusedError for preference pairs, answers labelled as bad, and rows with images or sound."""
    for better, worse in PAIRS:
        if better in row and worse in row:
            text = (
                f"the row has {better} and {worse}, a pair for preference training (DPO); "
                f"for supervised finetuning make {better} the completion and leave {worse} out"
            )
            raise RefusedError("preference_pair", "$", text)
    for key in LABELS:
        if row.get(key) is False:
            text = f"{key} is false: the answer is one not to give (KTO), so it is not trained on"
            raise RefusedError("preference_rejected", f"$.{key}", text)
    for key in MEDIA:
        if row.get(key) and isinstance(row[key], (list, dict, str)):
            text = f"{key} is {shown(row[key])}; only text can be trained on"
            raise RefusedError("multimodal", f"$.{key}", text)


def refuse_without_turns(row: Row, needed: str) -> None:
    """Raise the RefusedError of a row that lacks the columns of its format."""
    if isinstance(row.get("text"), str):
        text = (
            "the row is plain text, which does not say what is question and what is answer; "
            "write it as prompt and completion, or as messages"
        )
        raise RefusedError("text_only", "$.text", text)
    raise RefusedError("unknown_row", "$", f"a row of this format has {needed}; this one has {columns(row)}")


def columns(row: Row) -> str:
    """Return the names of a row's columns as a short list."""
    return listed_keys(row) or "no columns"
