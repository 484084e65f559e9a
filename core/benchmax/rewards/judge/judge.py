"""A judge: a model behind an OpenAI-compatible endpoint, with a key and a patience."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from benchmax.auth import ModelAuth, check_model_auth
from benchmax.envs.shared_types import check_text
from benchmax.rewards.judge.asking import ask_endpoint
from benchmax.rewards.judge.endpoint import JudgeEndpoint


@dataclass(frozen=True)
class Judge:
    """Asks one model for verdicts. Keep it for as long as there are verdicts to ask for.

    Its connections are shared by all its questions and belong to the event loop that
    asks; a pickled judge opens its own. ValueError or TypeError: a setting makes no sense.
    """

    model: str
    base_url: str
    """OpenAI-compatible, usually ending in /v1. No key inside: that is what `auth` is for."""
    auth: ModelAuth = field(repr=False)
    timeout: float | None = 60.0
    """Most seconds for one verdict once it is its turn, all retries and pauses included. None: no limit."""
    max_retries: int = 3
    """Further requests after one that failed for a passing reason, or whose reply held no verdict."""
    auth_attempts: int = 3
    """Requests made before a 401 or 403 is believed; the provider is asked for a key before each."""
    max_concurrency: int = 16
    """Most questions at a time in one event loop."""
    retry_seconds: float = 0.5
    """Pause before the first retry, then doubled; a server's Retry-After wins."""
    endpoint: JudgeEndpoint = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_text("model", self.model)
        check_text("base_url", self.base_url)
        if "@" in urlsplit(self.base_url).netloc:
            raise ValueError("base_url must not hold a user name or password; give a ModelAuth as auth")
        check_model_auth(self.auth)
        if self.timeout is not None:
            _check_seconds("timeout", self.timeout)
        _check_seconds("retry_seconds", self.retry_seconds, zero=True)
        _check_count("max_retries", self.max_retries, least=0)
        _check_count("auth_attempts", self.auth_attempts, least=1)
        _check_count("max_concurrency", self.max_concurrency, least=1)
        object.__setattr__(self, "endpoint", JudgeEndpoint(self.max_concurrency))

    def __reduce__(self) -> tuple[type[Judge], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, each.name) for each in fields(self) if each.init)

    async def request_json(
        self, prompt: str, *, request_id: str, temperature: float = 0.0, max_tokens: int | None = None
    ) -> tuple[dict[str, Any], str]:
        """Return the JSON object of the judge's reply, and the whole reply.

        Of several objects the last one counts. JudgeError: there was none in time. A prompt
        that shows the judge text of a policy's making is for `ask_judge`.
        """
        return await ask_endpoint(
            self,
            prompt,
            request_id=request_id,
            read=lambda found: found,
            temperature=temperature,
            max_tokens=max_tokens,
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self.endpoint.aclose()


_REQUEST_JSON = Judge.request_json


def is_plain_judge(judge: object) -> bool:
    """Whether it is a Judge whose `request_json` nobody has replaced, by a subclass or in a test."""
    return getattr(type(judge), "request_json", None) is _REQUEST_JSON


def _check_seconds(name: str, value: object, *, zero: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(
            f"{name} must be {'zero or ' if zero else ''}a positive number of seconds, not {value}"
        )


def _check_count(name: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
