"""What a client of the gateway can be told, in the shape that OpenAI's SDKs read."""

from __future__ import annotations

from typing import Any

from castform.errors import CastformError


class ApiError(Exception):
    """An HTTP answer that is not a completion: status, machine-readable code, message."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


class ContextBudgetError(ApiError):
    """A prompt that leaves no room for a reply; every dialect has words of its own for it."""

    def __init__(self, prompt_tokens: int, limit: int) -> None:
        super().__init__(
            400,
            "context_budget_exceeded",
            # agents tell this case by these words (LiteLLM, opencode), and log nothing but them
            f"this model's maximum context length is {limit} tokens: the prompt has {prompt_tokens} "
            "tokens, which leaves no room for a reply (context_budget_exceeded)",
            param="messages",
        )
        self.prompt_tokens = prompt_tokens
        self.limit = limit


class UntrainableCallError(CastformError):
    """A recorded call lacks token data, or its token data does not add up; `field` names which."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(
            message, hint="the engine must return prompt ids, sampled ids and one logprob per id"
        )
        self.field = field
