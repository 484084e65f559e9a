"""Turn sampled ids into the assistant message that the client sees."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from castform_trainer.engines.contract import Generation
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.parsers import ToolFormat, split_reasoning
from castform_trainer.gateway.parsers.think import CLOSE, OPEN
from castform_trainer.gateway.tokens import TextCodec

CALL_ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
CALL_ID_LENGTH = 9  # Mistral's template accepts no other


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyReader:
    """How this model's replies are read."""

    codec: TextCodec
    tool_format: ToolFormat
    thinking: bool
    end_ids: frozenset[int]

    def read(
        self,
        generation: Generation,
        *,
        prompt_text: str,
        stop: Sequence[str],
        tools: Sequence[Mapping[str, Any]],
        call_key: str,
    ) -> tuple[dict[str, Any], str]:
        """Return (assistant message, finish reason). Malformed tool calls stay in the content."""
        ids = generation.ids
        if self.ends_with_end_id(generation):
            ids = ids[:-1]
        keep = (self.tool_format.markers if tools else ()) + ((OPEN, CLOSE) if self.thinking else ())
        text = self.codec.decode(ids, keep=keep)
        cuts = [place for place in (text.find(s) for s in stop) if place >= 0]
        text = text[: min(cuts)] if cuts else text
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if self.thinking:
            reasoning, text = split_reasoning(text, opened=prompt_text.rstrip().endswith(OPEN))
            message["content"] = text
            if reasoning:
                message["reasoning_content"] = reasoning
        if tools:
            parsed = self.tool_format.parse(text, tools)
            if parsed.calls:
                message["content"] = parsed.content or None
                message["tool_calls"] = [
                    {
                        "id": make_call_id(call_key, place),
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for place, call in enumerate(parsed.calls)
                ]
        finish: str = generation.finish_reason
        if finish == "stop" and "tool_calls" in message:
            finish = "tool_calls"
        return message, finish

    def ends_with_end_id(self, generation: Generation) -> bool:
        """Tell whether the last id is an end-of-turn id that was sampled."""
        return (
            generation.finish_reason == "stop" and bool(generation.ids) and generation.ids[-1] in self.end_ids
        )

    def read_end_text(self, generation: Generation) -> str:
        """Return the text of the sampled end-of-turn id; empty when the reply was cut."""
        return self.codec.decode_exactly(generation.ids[-1:]) if self.ends_with_end_id(generation) else ""

    def find_stop_text(self, generation: Generation, stop: Sequence[str]) -> str | None:
        """Return the stop text that ended a reply; None when it ended in another way."""
        if not stop or generation.finish_reason != "stop" or self.ends_with_end_id(generation):
            return None
        text = self.codec.decode(generation.ids)
        return min((s for s in stop if s in text), key=text.find, default=None)

    def list_logprobs(self, generation: Generation) -> dict[str, Any]:
        """Return the `logprobs` field of a choice: one entry a sampled id."""
        entries = []
        for i, logprob in zip(generation.ids, generation.logprobs, strict=True):
            token = self.codec.decode_exactly([i])
            entries.append(
                {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": []}
            )
        return {"content": entries, "refusal": None}


def make_call_id(call_key: str, place: int) -> str:
    """Return the id of a tool call: fixed by the place of the call in its session."""
    number = int.from_bytes(hashlib.blake2b(f"{call_key}#{place}".encode(), digest_size=8).digest())
    letters = []
    for _ in range(CALL_ID_LENGTH):
        number, digit = divmod(number, len(CALL_ID_ALPHABET))
        letters.append(CALL_ID_ALPHABET[digit])
    return "".join(letters)


def check_generation(generation: Generation) -> None:
    """Refuse a generation whose token data is missing or does not add up (ApiError 502, names the field)."""
    ids, logprobs = generation.ids, generation.logprobs
    if ids is None or not all(type(i) is int for i in ids):
        raise _untrainable("token ids", "sampled_ids")
    if logprobs is None:
        raise _untrainable("logprobs", "logprobs")
    if len(logprobs) != len(ids):
        raise ApiError(
            502,
            "untrainable_generation",
            f"the engine returned {len(logprobs)} logprobs for {len(ids)} token ids",
            param="logprobs",
        )
    if not all(type(p) is float and math.isfinite(p) for p in logprobs):
        raise ApiError(
            502,
            "untrainable_generation",
            "the engine returned a logprob that is not finite",
            param="logprobs",
        )


def _untrainable(what: str, field: str) -> ApiError:
    return ApiError(502, "untrainable_generation", f"the engine returned no {what}", param=field)
