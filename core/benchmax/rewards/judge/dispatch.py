"""Ask a judge: ours over its endpoint, anyone else's through its `request_json`.

Projects replace judges: a subclass that counts, a fake that answers without a network.
What such a judge returns is the verdict; only our own has replies that are read with distrust.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from benchmax.envs.termination import describe_error
from benchmax.rewards.judge.asking import ask_endpoint
from benchmax.rewards.judge.errors import JudgeError
from benchmax.rewards.judge.judge import Judge, is_plain_judge

T = TypeVar("T")


# Any: a verdict is a JSON object of the judge's making.
async def ask_judge(
    judge: Judge,
    prompt: str,
    *,
    request_id: str,
    read: Callable[[dict[str, Any]], T],
    untrusted: Sequence[str] = (),
    temperature: float = 0.0,
    max_tokens: int | None = None,
) -> tuple[T, str]:
    """Return what `read` makes of the judge's verdict, and the reply that it stands in.

    `read` takes a JSON object and raises ValueError when it is no verdict. `untrusted` are
    the texts that the prompt shows in fences: no JSON of theirs is ever the verdict (the
    rule is in `benchmax.rewards.judge.verdict`). Replies without a verdict, 408, 409, 429,
    5xx and broken connections are tried again. JudgeError: no verdict, and why.
    """
    if is_plain_judge(judge):
        return await ask_endpoint(
            judge,
            prompt,
            request_id=request_id,
            read=read,
            untrusted=untrusted,
            temperature=temperature,
            max_tokens=max_tokens,
        )
    sampling: dict[str, Any] = (
        {} if max_tokens is None else {"temperature": temperature, "max_tokens": max_tokens}
    )
    try:
        found, reply = await judge.request_json(prompt, request_id=request_id, **sampling)
        return read(found), reply
    except JudgeError:
        raise
    except Exception as error:  # the code of another's judge, or a verdict that is none
        raise JudgeError(describe_error(error)) from error
