"""Texts to vectors, by a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmax.auth import ModelAuth, check_model_auth
from benchmax.envs.shared_types import check_text

DEFAULT_EMBED_MODEL = "text-embedding-3-large"


@dataclass(frozen=True)
class OpenAIEmbedder:
    """Embeds texts; call it with a list of them. ValueError or TypeError: a setting makes no sense."""

    model: str
    base_url: str
    """OpenAI-compatible, usually ending in /v1. No key inside: that is what `auth` is for."""
    auth: ModelAuth = field(repr=False)
    timeout: float | None = 60.0
    """Most seconds for one request. None: no limit."""
    max_retries: int = 2
    """Further requests after one that failed for a passing reason."""

    def __post_init__(self) -> None:
        check_text("model", self.model)
        check_text("base_url", self.base_url)
        check_model_auth(self.auth)
        if isinstance(self.max_retries, bool) or not isinstance(self.max_retries, int):
            raise TypeError(f"max_retries must be an integer, not {type(self.max_retries).__name__}")
        if self.max_retries < 0:
            raise ValueError(f"max_retries must not be negative, not {self.max_retries}")
        if self.timeout is not None:
            if isinstance(self.timeout, bool) or not isinstance(self.timeout, (int, float)):
                raise TypeError(f"timeout must be a number of seconds, not {type(self.timeout).__name__}")
            if not math.isfinite(self.timeout) or self.timeout <= 0:
                raise ValueError(f"timeout must be a positive number of seconds, not {self.timeout}")

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector a text, in their order; no request is made for no texts.

        TypeError: a text is no str. RuntimeError: the endpoint gave another number of vectors,
        or ones of different lengths. What the OpenAI SDK raises of a failed request passes through.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError("an embedder takes a list of texts")
        if not texts:
            return []
        from benchmax.auth import create_async_openai_client

        client = create_async_openai_client(
            model=self.model,
            base_url=self.base_url,
            auth=self.auth,
            request_id="embedding",
            max_retries=self.max_retries,
        )
        async with client:
            # The SDK asks for base64 unless told otherwise; not every server knows it.
            reply = await client.embeddings.create(
                model=self.model, input=list(texts), encoding_format="float", timeout=self.timeout
            )
        by_index = {item.index: list(item.embedding) for item in reply.data}
        if sorted(by_index) != list(range(len(texts))) or len(reply.data) != len(texts):
            raise RuntimeError(
                f"{self.model} gave {len(reply.data)} embeddings with the indices {sorted(by_index)} "
                f"for {len(texts)} texts"
            )
        vectors = [by_index[index] for index in range(len(texts))]
        if len({len(vector) for vector in vectors}) > 1:
            raise RuntimeError(f"{self.model} gave embeddings of different lengths")
        return vectors
