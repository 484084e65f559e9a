"""Requests to a vLLM server and what its replies mean. Pure functions, no HTTP.

Tokens travel through `/v1/completions` with prompt ids, `return_token_ids` and `logprobs`. It takes
ids and stop texts together, honours a request's own seed, scores ids that are named
(`logprob_token_ids`), and every server has it. `/inference/v1/generate` carries fewer bytes, but
0.32 serves it only with `--enable-scale-out`, its shapes still change between releases, and it
fills the sampling keys that a request leaves out from the server's defaults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from castform.calls import Sampling
from castform_trainer.engines.contract import FinishReason, Generation

MIN_TEMPERATURE = 0.01
"""vLLM quietly raises a smaller one to this, and the recorded logprobs would not be those asked for."""

NO_LOGPROB = -9999.0
"""What the server writes for minus infinity."""

MAX_SEED = 2**63 - 1


class BadReplyError(Exception):
    """The server answered, but not what was asked."""


def make_completion_request(
    model: str,
    prompt_ids: Sequence[int],
    sampling: Sampling,
    *,
    max_new_tokens: int,
    stop_token_ids: Sequence[int],
) -> dict[str, Any]:
    """Return the body that samples one reply; every sampling key is sent, so no default applies.

    The reply ends at `stop_token_ids` and at nothing the server knows by itself: with
    `--generation-config vllm` it would take only the tokenizer's end id.
    """
    if 0 < sampling.temperature < MIN_TEMPERATURE:
        raise ValueError(
            f"vLLM samples at temperature 0 or from {MIN_TEMPERATURE}, not {sampling.temperature}"
        )
    body = _fixed_keys(model) | {
        "prompt": list(prompt_ids),
        "max_tokens": max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "seed": sampling.seed & MAX_SEED,
        "stop_token_ids": sorted(set(stop_token_ids)),
        "logprobs": 0,
    }
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    return body


def make_scoring_request(
    model: str,
    prompts: Sequence[Sequence[int]],
    token_ids: Sequence[int],
    *,
    temperature: float = 1.0,
) -> dict[str, Any]:
    """Return the body that asks, after each prompt, for the log p of each of `token_ids`.

    One token is sampled after each prompt and thrown away: this is the path of a rollout,
    prefix cache and adapter included, which `prompt_logprobs` is not.
    """
    wanted = list(dict.fromkeys(token_ids))
    return _fixed_keys(model) | {
        "prompt": [list(prompt) for prompt in prompts],
        "max_tokens": 1,
        "temperature": temperature,
        "top_p": 1.0,
        "top_k": 0,
        "seed": 0,
        "stop_token_ids": [],
        "logprobs": len(wanted),
        "logprob_token_ids": wanted,
    }


def parse_generation(reply: Mapping[str, Any], prompt_ids: Sequence[int], version: int) -> Generation:
    """Turn the reply to `make_completion_request` into a Generation; raises BadReplyError."""
    choice = _choices(reply, 1)[0]
    ids = choice.get("token_ids")
    logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
    if ids is None or logprobs is None:
        raise BadReplyError("the reply has no token ids or no logprobs")
    if choice.get("prompt_token_ids") != list(prompt_ids):
        raise BadReplyError("the server sampled after another prompt than the one it was sent")
    if len(ids) != len(logprobs):
        raise BadReplyError(f"the reply has {len(ids)} ids but {len(logprobs)} logprobs")
    if not all(isinstance(p, float | int) and math.isfinite(p) and p > NO_LOGPROB for p in logprobs):
        raise BadReplyError("a sampled token has no logprob")
    finish = choice.get("finish_reason")
    if finish not in ("stop", "length", "abort"):
        raise BadReplyError(f"the reply ended with finish_reason {finish!r}")
    return Generation(
        ids=tuple(ids),
        logprobs=tuple(float(p) for p in logprobs),
        finish_reason=cast(FinishReason, finish),  # one of the three, by the test above
        version=version,
    )


def parse_scores(reply: Mapping[str, Any], prompts: int, token_ids: Sequence[int]) -> list[list[float]]:
    """Return log p as [prompt][token id] from the reply to `make_scoring_request`."""
    rows = []
    for choice in sorted(_choices(reply, prompts), key=lambda c: int(c["index"])):
        found = ((choice.get("logprobs") or {}).get("top_logprobs") or [{}])[0] or {}
        try:
            rows.append([float(found[f"token_id:{token_id}"]) for token_id in token_ids])
        except KeyError as error:
            raise BadReplyError(f"the server did not score {error.args[0]}") from error
    return rows


def _choices(reply: Mapping[str, Any], count: int) -> list[Mapping[str, Any]]:
    choices = reply.get("choices")
    if not isinstance(choices, list) or len(choices) != count:
        found = len(choices) if isinstance(choices, list) else 0
        raise BadReplyError(f"{count} replies were asked for, {found} came")
    return choices


def _fixed_keys(model: str) -> dict[str, Any]:
    """Keys that are the same in every request; each one's default could be set on the server."""
    return {
        "model": model,
        "n": 1,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "min_tokens": 0,
        "ignore_eos": True,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "include_stop_str_in_output": True,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "stream": False,
    }
