"""What was asked of the model and what it answered, one record a sampled reply.

Torch-free: the gateway writes these, the store keeps them, the trainer reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

SpliceKind = Literal["first", "spliced", "forked"]
"""first: no earlier call to continue; spliced: recorded ids were reused; forked: the history was rewritten."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How tokens are drawn. The defaults leave the model's distribution as it is."""

    max_new_tokens: int = 256
    """Most tokens of one reply."""
    temperature: float = 1.0
    """Logits are divided by it; 0 means greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 switches it off."""
    seed: int = 0
    """Seed of this reply alone."""
    stop: tuple[str, ...] = ()
    """Texts that end the reply; the tokens that spell them stay in the record."""
    stop_token_ids: tuple[int, ...] = ()
    """Ids that end the reply besides the model's own end-of-turn ids."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCall:
    """One recorded request and one sampled reply to it (`n` replies make `n` records).

    `sampled_ids` and `logprobs` have equal length; `logprobs` are natural logs of the
    probability with which the sampler drew each id (after temperature and filters).
    The three token fields are None when the endpoint does not give them; such a call
    can be looked at but never trained on.
    """

    call_id: str
    session_id: str
    index: int
    """Position of the request within its session, from 0."""
    choice: int = 0
    """Which of the `n` replies to the request."""
    dialect: str = "chat"
    messages: Sequence[Mapping[str, Any]]
    """Request messages in chat form."""
    tools: Sequence[Mapping[str, Any]] = ()
    reply: Mapping[str, Any]
    """The assistant message that was served."""
    finish_reason: str
    """stop, length, tool_calls, abort, error, or what the endpoint said."""
    prompt_ids: Sequence[int] | None = None
    sampled_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    sampling: Sampling | None = None
    """The parameters in force, not those asked for."""
    overrides: Sequence[str] = ()
    """Request parameters that were replaced by the trainer's, as `name=asked->used`."""
    version: int = 0
    """Adapter version that sampled; 0 is the base model."""
    splice: SpliceKind = "first"
    seconds: float = 0.0
    lineage: str | None = None
    """Which agent of several asked, in the words of the client's `X-Castform-Lineage` header."""
    error: str | None = None
    """Why the engine gave no reply, with finish_reason "error"; such a call has no token data."""
