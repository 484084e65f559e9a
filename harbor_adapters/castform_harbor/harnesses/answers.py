"""What an endpoint answered, whoever serves it: the SDK hands on whatever it was sent."""

from __future__ import annotations

from dataclasses import dataclass

from castform.harness.contract import HarnessError


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One reply of the model."""

    text: str
    reasoning: str | None
    finish_reason: str | None
    usage: tuple[int, int] | None
    """Tokens of prompt and reply, where the endpoint counts them."""


def read_answer(answer: object) -> Said:
    """Return the first choice of a chat completion. HarnessError for an answer that is none."""
    choices = getattr(answer, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    content = getattr(message, "content", None)
    if message is None or not isinstance(content, str | None):
        raise HarnessError(f"the model's endpoint sent no chat completion: {str(answer)[:200]!r}")
    reasoning, usage = getattr(message, "reasoning_content", None), getattr(answer, "usage", None)
    counts = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    return Said(
        text=replace_surrogates(content or ""),
        reasoning=replace_surrogates(reasoning) if isinstance(reasoning, str) else None,
        finish_reason=getattr(choice, "finish_reason", None),
        usage=(counts[0], counts[1]) if isinstance(counts[0], int) and isinstance(counts[1], int) else None,
    )


def replace_surrogates(text: str) -> str:
    """Return a text that UTF-8 can spell: what JSON can hold and no program can be given becomes `?`."""
    return text.encode("utf-8", "replace").decode()
