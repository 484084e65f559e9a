"""The sampling contract: which request parameters count, which are overridden, which are refused.

In training the session's values win, because the trainer computes with them; every difference
is reported. A parameter that would make the recorded logprobs untrue is refused, in training
and in plain evaluation alike: no engine behind this gateway can honour it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from castform.calls import Sampling
from castform_trainer.gateway.errors import ApiError

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "tool_choice": ("auto", "none"),
    "function_call": ("auto", "none"),
    "functions": ([],),
    "logit_bias": ({}, []),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "min_p": (0,),
    "typical_p": (1,),
    "min_tokens": (0,),
    "top_logprobs": (0,),
    "prompt_logprobs": (0, False),
    "response_format": ({"type": "text"},),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "best_of": (1,),
    "use_beam_search": (False,),
    "ignore_eos": (False,),
    "bad_words": ([],),
    "allowed_token_ids": ([],),
    "logits_processors": ([],),
    "echo": (False,),
    "continue_final_message": (False,),
    "add_generation_prompt": (True,),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
}
"""Parameters that change the distribution or the reply, with the values that leave it alone (null too)."""

READ = frozenset(
    {
        *("messages", "model", "tools", "n", "stream", "stream_options", "logprobs", "chat_template_kwargs"),
        *("stop", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "seed"),
    }
)
WITHOUT_EFFECT = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prompt_cache_retention"),
    }
)
"""Bookkeeping of hosted services; accepted in silence."""

MAX_CHOICES = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedSampling:
    """The sampling parameters of a request; None where the client said nothing."""

    n: int = 1
    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Parameters that nothing here reads, as `name=value->ignored`."""


def read_sampling(body: Mapping[str, Any], *, training: bool) -> AskedSampling:
    """Read a request's parameters; ApiError 400 for a wrong value or a control that is refused."""
    for name, neutral in NEUTRAL.items():
        value = body.get(name)
        if value is not None and not any(
            value == n and isinstance(value, bool) == isinstance(n, bool) for n in neutral
        ):
            why = (
                "it would make the recorded logprobs untrue, so a training session refuses it"
                if training
                else "the engine behind this endpoint cannot do it"
            )
            raise ApiError(
                400,
                "unsupported_model_control",
                f"{name}={_show(value)} is not supported: {why}",
                param=name,
            )
    limits = [_read(body, name, int, 1, None) for name in ("max_completion_tokens", "max_tokens")]
    top_k = _read(body, "top_k", int, -1, None)
    known = READ | WITHOUT_EFFECT | NEUTRAL.keys()
    return AskedSampling(
        n=_read(body, "n", int, 1, MAX_CHOICES) or 1,
        max_new_tokens=next((limit for limit in limits if limit is not None), None),
        temperature=_read(body, "temperature", float, 0, None),
        top_p=_read(body, "top_p", float, 1e-9, 1),
        top_k=0 if top_k == -1 else top_k,
        seed=_read(body, "seed", int, None, None),
        stop=_read_stop(body.get("stop")),
        ignored=tuple(f"{k}={_show(body[k])}->ignored" for k in sorted(body.keys() - known)),
    )


def settle_sampling(
    asked: AskedSampling, session: Sampling, *, enforce: bool
) -> tuple[Sampling, tuple[str, ...]]:
    """Return the parameters in force (seed and context limit still to be set) and what was overridden.

    A client may always ask for fewer tokens than the session allows, and for stop texts of its
    own: neither changes the distribution of what is sampled.
    """
    overrides = list(asked.ignored)
    values: dict[str, Any] = {}
    for name in ("temperature", "top_p", "top_k"):
        wanted, own = getattr(asked, name), getattr(session, name)
        values[name] = own if enforce or wanted is None else wanted
        if wanted is not None and wanted != values[name]:
            overrides.append(f"{name}={_show(wanted)}->{_show(own)}")
    limit = asked.max_new_tokens
    if limit is not None and limit > session.max_new_tokens and enforce:
        overrides.append(f"max_tokens={limit}->{session.max_new_tokens}")
        limit = session.max_new_tokens
    if asked.seed is not None and enforce:
        overrides.append(f"seed={asked.seed}->per call")
    used = Sampling(
        max_new_tokens=session.max_new_tokens if limit is None else limit,
        seed=session.seed,
        stop=tuple(dict.fromkeys((*session.stop, *asked.stop))),
        stop_token_ids=session.stop_token_ids,
        **values,
    )
    return used, tuple(overrides)


def _read(body: Mapping[str, Any], name: str, kind: type, low: float | None, high: float | None) -> Any:
    value = body.get(name)
    if value is None:
        return None
    right_kind = isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    if not right_kind or (low is not None and not value >= low) or (high is not None and not value <= high):
        article = "a number" if kind is float else "an integer"
        bounds = (
            "" if low is None else f" of at least {low:g}" + ("" if high is None else f", at most {high:g}")
        )
        raise ApiError(
            400, "invalid_parameter", f"{name} must be {article}{bounds}, not {_show(value)}", param=name
        )
    return value


def _read_stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(t, str) and t for t in texts) or len(texts) > 16:
        raise ApiError(
            400,
            "invalid_parameter",
            f"stop must be a text or up to 16 of them, not {_show(value)}",
            param="stop",
        )
    return tuple(texts)


def _show(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
