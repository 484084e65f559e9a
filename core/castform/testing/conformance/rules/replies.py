"""Rules of what comes back: one typed outcome a request, whatever the model and its server do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from benchmax.envs import Environment, Example
from castform.gold import gold_text
from castform.playback import Playback
from castform.probe_report import DEFECTS
from castform.rollouts import Rollout, RolloutGroup
from castform.scripted_replies import Answer, Fault, RawReply, Reply, Script, ScriptedRequest
from castform.seeds import derive_seed
from castform.testing.conformance.examined import Examined
from castform.testing.conformance.rule import Breach

LAST_WORD = "That is all."
"""What a script says when it has nothing left, until the conversation has gone on for too long."""
MOST_REQUESTS = 40
SHRINK_SECONDS = 1.0
"""How long a failing script may be made shorter."""
WAY_OUT = (
    "whatever the model says is data: validate arguments, answer a bad call with a text, and end a rollout that "
    "cannot go on with RolloutFailure"
)


def check_typed_outcomes(examined: Examined) -> list[Breach]:
    """Random replies, calls and faults: every request gets one outcome, scored or failed with a reason."""
    from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

    from castform.testing.conformance.random_replies import groups_of_scripts

    context = examined.need_context()
    examples = examined.examples
    tools = _offered_tools(examined)
    right = list(dict.fromkeys(text for e in examples if (text := _right_text(examined, e)) is not None))[:4]
    found: list[tuple[int, Breach]] = []
    deadline: list[float] = []

    with asyncio.Runner() as runner:
        playback = Playback()

        @seed(derive_seed(examined.options.seed, "typed_outcomes"))
        @settings(
            max_examples=examined.options.scripts,
            deadline=None,
            database=None,
            derandomize=False,
            print_blob=False,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(groups_of_scripts(tools, [context.rendering.write(text) for text in right]))
        def play(scripts: list[list[Answer]]) -> None:
            if deadline and time.monotonic() > deadline[0]:
                return
            example = examples[sum(map(len, scripts)) % len(examples)]
            group = runner.run(examined.play(playback, example, [_spoken(s) for s in scripts]))
            breach = _judge(examined.environment, group, scripts)
            if breach is not None:
                if not deadline:
                    deadline.append(time.monotonic() + SHRINK_SECONDS)
                found.append((len(repr(scripts)), breach))
                raise AssertionError(breach.message)

        try:
            with suppress(BaseExceptionGroup, Exception):  # what it found is kept; it may not repeat
                play()
        finally:
            runner.run(playback.__aexit__(None, None, None))
            runner.run(examined.environment.aclose())
    return [min(found, key=lambda item: item[0])[1]] if found else []


def check_faults(examined: Examined) -> list[Breach]:
    """A server that fails, cuts or garbles its reply never makes a score."""
    examined.need_context()
    example = examined.examples[0]
    quick = examined.scripts(example)[0]

    def once(trouble: Answer) -> Script:
        return lambda request: trouble if request.index == 0 else quick(request)

    def always(trouble: Answer) -> Script:
        return lambda request: trouble

    hopeless: dict[str, Script] = {
        "HTTP 400": always(Fault(status=400)),
        "HTTP 401": always(Fault(status=401)),
        "HTTP 500": always(Fault(status=500, retry_after_seconds=0)),
        "HTTP 429": always(Fault(status=429, retry_after_seconds=0)),
        "a body that is no JSON": always(RawReply(body=b'{"choices": [')),
        "a reply without choices": always(RawReply(body=b'{"choices": []}')),
    }
    passing: dict[str, Script] = {
        "HTTP 429, then a reply": once(Fault(status=429, retry_after_seconds=0)),
        "a connection that is cut": once(Reply(content="x" * 200, cut_after_bytes=40)),
        "a reply that is cut by length": always(Reply(content="The answer", finish_reason="length")),
        "a slow body": lambda request: Reply(content="x" * 64, piece_seconds=0.01),
    }
    scripts = {**hopeless, **passing}

    async def play() -> RolloutGroup:
        async with Playback() as playback:
            return await examined.play(playback, example, list(scripts.values()))

    group = examined.run(play())
    for name, rollout in zip(scripts, group.rollouts, strict=True):
        fault = _untyped(examined.environment, rollout)
        if fault is None and name in hopeless and rollout.score is not None:
            fault = f"is scored {rollout.score:g}, though the model never answered"
        if fault is not None:
            return [
                Breach(
                    message=f"with {name} from the model's server a rollout {fault}",
                    way_out="let the model call's exception end the rollout (RolloutFailure('model_error', …)); a "
                    "failure is never a number",
                    example_id=example.id,
                )
            ]
    return []


def _judge(
    environment: Environment[Any, Any], group: RolloutGroup, scripts: Sequence[Sequence[Answer]]
) -> Breach | None:
    faults = [fault for rollout in group.rollouts if (fault := _untyped(environment, rollout)) is not None]
    if not faults:
        return None
    said = "; ".join(", ".join(map(_shown, script)) for script in scripts)
    return Breach(
        message=f"a rollout {faults[0]}, after the model said: {said}",
        way_out=WAY_OUT,
        example_id=group.example_id,
    )


def _untyped(environment: Environment[Any, Any], rollout: Rollout) -> str | None:
    """Return what is wrong with an outcome as the rest of a sentence, None for a proper one."""
    if rollout.termination_reason in DEFECTS:
        return f"ends with {rollout.termination_reason}: {rollout.error}"
    scorable = rollout.termination_reason in environment.scorable_termination_reasons
    if scorable and rollout.score is None and not rollout.error:
        return f"ends with {rollout.termination_reason}, and has neither a score nor an error"
    return None


def _spoken(answers: Sequence[Answer]) -> Script:
    def answer(request: ScriptedRequest) -> Answer:
        if request.index < len(answers):
            return answers[request.index]
        return (
            LAST_WORD if request.index < MOST_REQUESTS else Fault(status=400, message="the script has ended")
        )

    return answer


def _shown(answer: Answer) -> str:
    if isinstance(answer, Reply):
        parts = [repr(answer.content)] if answer.content is not None or not answer.tool_calls else []
        parts += [f"{call.name}({call.arguments})" for call in answer.tool_calls]
        return " ".join(parts) + (f" [{answer.finish_reason}]" if answer.finish_reason else "")
    if isinstance(answer, Fault):
        return f"HTTP {answer.status}" + (f" {answer.code}" if answer.code else "")
    return repr(answer.body) if isinstance(answer, RawReply) else repr(answer)


def _offered_tools(examined: Examined) -> Sequence[Any]:
    """Return the tools of the first request that was made."""

    async def ask() -> RolloutGroup:
        async with Playback() as playback:
            return await examined.play(playback, examined.examples[0], [lambda request: LAST_WORD])

    calls = examined.run(ask()).rollouts[0].calls
    return calls[0].tools if calls else ()


def _right_text(examined: Examined, example: Example[Any]) -> str | None:
    return gold_text(examined.golds.get(example.id))
