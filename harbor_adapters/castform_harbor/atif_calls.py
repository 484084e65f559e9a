"""Between recorded model calls, chat messages and ATIF.

Calls become steps in the order of their histories: one whose messages go on where an earlier one
ended continues it; another opens a trajectory of its own (a sub-agent, a compacted history).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from castform.calls import ModelCall
from castform_harbor.atif import (
    Agent,
    ContentPart,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Source,
    Step,
    ToolCall,
    Trajectory,
)

Message = Mapping[str, Any]
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""Those that ATIF has; of another one its message part is kept as text."""
RAW_ARGUMENTS = "raw_arguments"
"""In a tool call's `extra`: the arguments as the model wrote them."""


@dataclass
class _Thread:
    """One history as far as it goes: its messages, and the steps they became."""

    messages: list[Message] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    tools: Sequence[Message] = ()

    def add(self, message: Message, metrics: Metrics | None = None, *, copied: bool = False) -> None:
        self.messages.append(message)
        if message.get("role") == "tool":
            self._observe(message, copied=copied)
        else:
            self.steps.append(_make_step(message, len(self.steps) + 1, metrics, copied=copied))

    def _observe(self, message: Message, *, copied: bool) -> None:
        """Put a tool's result beside the call that asked for it."""
        last = self.steps[-1] if self.steps else None
        wanted = message.get("tool_call_id")
        content = _make_content(message.get("content") or "")
        if last is not None and wanted in {call.tool_call_id for call in last.tool_calls or ()}:
            result = ObservationResult(source_call_id=str(wanted), content=content)
            before = last.observation.results if last.observation else []
            self.steps[-1] = last.model_copy(update={"observation": Observation(results=[*before, result])})
            return
        step = _make_step({"role": "user", "content": ""}, len(self.steps) + 1, None, copied=copied)
        extra = {"tool_call_id": wanted} if wanted else None
        orphan = Observation(results=[ObservationResult(content=content, extra=extra)])
        self.steps.append(step.model_copy(update={"observation": orphan}))


def make_trajectory(
    calls: Sequence[ModelCall],
    *,
    session_id: str,
    agent_name: str = "castform",
    agent_version: str = "1",
    model_name: str | None = None,
    notes: str | None = None,
) -> Trajectory:
    """Return a rollout's calls as one ATIF document, with token ids and logprobs where they were recorded.

    The first history is the trajectory; every other one is among its `subagent_trajectories`. Calls
    that got no reply are left out. ValueError: no call is left.
    """
    threads: list[_Thread] = []
    for call in sorted(calls, key=lambda call: (call.index, call.choice)):
        if call.finish_reason != "error":
            _take_call(threads, call)
    if not threads:
        raise ValueError("there is no model call to make a trajectory of")
    agent = Agent(name=agent_name, version=agent_version, model_name=model_name)
    documents = [
        Trajectory(
            session_id=session_id,
            trajectory_id=f"{session_id}/{place}",
            agent=agent.model_copy(
                update={"tool_definitions": [dict(tool) for tool in thread.tools] or None}
            ),
            steps=thread.steps,
            final_metrics=_sum_metrics(thread.steps),
        )
        for place, thread in enumerate(threads)
    ]
    main = documents[0].model_copy(update={"subagent_trajectories": documents[1:] or None, "notes": notes})
    return Trajectory.model_validate(main.model_dump())


def _take_call(threads: list[_Thread], call: ModelCall) -> None:
    thread = max(
        (thread for thread in threads if _continues(call.messages, thread.messages)),
        key=lambda thread: len(thread.messages),
        default=None,
    )
    if thread is None:
        thread = _Thread()
        threads.append(thread)
        seen = {_key(message) for other in threads[:-1] for message in other.messages}
        for message in call.messages:
            thread.add(message, copied=_key(message) in seen and message.get("role") == "assistant")
    else:
        for message in call.messages[len(thread.messages) :]:
            thread.add(message)
    thread.tools = call.tools or thread.tools
    thread.add(call.reply, _make_metrics(call))


def _continues(messages: Sequence[Message], known: Sequence[Message]) -> bool:
    return len(messages) > len(known) and all(map(_is_same, known, messages))


def _is_same(one: Message, other: Message) -> bool:
    return _key(one) == _key(other)


def _key(message: Message) -> str:
    """Return what makes two messages one: role, text and calls, however the client spells what is empty."""
    calls = [
        (call.get("id"), call["function"].get("name"), call["function"].get("arguments"))
        for call in message.get("tool_calls") or ()
        if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping)
    ]
    content = message.get("content") or ""
    return json.dumps([message.get("role"), content, calls, message.get("tool_call_id")], default=str)


def _make_step(message: Message, step_id: int, metrics: Metrics | None, *, copied: bool) -> Step:
    role = message.get("role")
    is_agent = role == "assistant"
    calls = [_make_tool_call(call) for call in message.get("tool_calls") or ()] if is_agent else []
    return Step(
        step_id=step_id,
        source="agent" if is_agent else "system" if role in ("system", "developer") else "user",
        message=_make_content(message.get("content") or ""),
        reasoning_content=message.get("reasoning_content") if is_agent else None,
        tool_calls=calls or None,
        metrics=metrics,
        is_copied_context=True if copied else None,
        llm_call_count=1 if metrics is not None else None,
    )


def _make_tool_call(call: Message) -> ToolCall:
    function = call.get("function") or {}
    text = str(function.get("arguments") or "")
    arguments = _parse_arguments(text)
    return ToolCall(
        tool_call_id=str(call.get("id") or ""),
        function_name=str(function.get("name") or ""),
        arguments={} if arguments is None else arguments,
        extra=None if arguments is not None and json.dumps(arguments) == text else {RAW_ARGUMENTS: text},
    )


def _parse_arguments(text: str) -> dict[str, Any] | None:
    """Return an object that any reader of JSON takes; None for other text, NaN and broken characters."""
    try:
        arguments = json.loads(text)
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _make_content(content: object) -> str | list[ContentPart]:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return json.dumps(content, default=str)
    return [_make_part(part) for part in content]


def _make_part(part: object) -> ContentPart:
    if isinstance(part, Mapping) and part.get("type") == "text":
        return ContentPart(type="text", text=str(part.get("text") or ""))
    image = part.get("image_url") if isinstance(part, Mapping) else None
    url = image.get("url") if isinstance(image, Mapping) else None
    kind = url[5:].partition(";")[0] if isinstance(url, str) and url.startswith("data:") else "image/png"
    if isinstance(url, str) and kind in IMAGES:
        return ContentPart(type="image", source=Source(media_type=kind, path=url))
    return ContentPart(type="text", text=json.dumps(part, default=str))


def _make_metrics(call: ModelCall) -> Metrics:
    ids, sampled, logprobs = call.prompt_ids, call.sampled_ids, call.logprobs
    return Metrics(
        prompt_tokens=call.prompt_tokens if ids is None else len(ids),
        completion_tokens=call.completion_tokens if sampled is None else len(sampled),
        prompt_token_ids=None if ids is None else list(ids),
        completion_token_ids=None if sampled is None else list(sampled),
        logprobs=None if logprobs is None else list(logprobs),
        extra={"call_id": call.call_id, "finish_reason": call.finish_reason, "version": call.version},
    )


def _sum_metrics(steps: Sequence[Step]) -> FinalMetrics:
    found = [step.metrics for step in steps if step.metrics is not None]
    return FinalMetrics(
        total_prompt_tokens=sum(metrics.prompt_tokens or 0 for metrics in found),
        total_completion_tokens=sum(metrics.completion_tokens or 0 for metrics in found),
        total_steps=len(steps),
    )


def read_messages(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return a trajectory as chat messages: what an agent that goes on from it has to see."""
    return [message for step in trajectory.steps for message in _read_messages(step)]


def _read_messages(step: Step) -> list[dict[str, Any]]:
    own = _read_step(step)
    messages = [] if own is None else [own]
    for result in step.observation.results if step.observation else ():
        call_id = result.source_call_id or (result.extra or {}).get("tool_call_id")
        content = _read_content(result.content if result.content is not None else "")
        if call_id is not None:
            messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
        else:
            messages.append({"role": "user", "content": content})
    return messages


def read_calls(trajectory: Trajectory) -> list[ModelCall]:
    """Return the model calls of a trajectory and those within it, with the tokens that it has.

    Steps that were copied from another trajectory, or made no model call, are context and no calls.
    """
    calls: list[ModelCall] = []
    for document in trajectory.walk():
        session = document.session_id or document.trajectory_id or "atif"
        before: list[dict[str, Any]] = []
        for step in document.steps:
            if step.source == "agent" and not step.is_copied_context and step.metrics is not None:
                calls.append(_read_call(step, tuple(before), document, session, len(calls)))
            before += _read_messages(step)
    return calls


def _read_call(
    step: Step, messages: Sequence[Message], document: Trajectory, session: str, index: int
) -> ModelCall:
    metrics = step.metrics or Metrics()
    extra = metrics.extra or {}
    reply = _read_step(step) or {"role": "assistant", "content": ""}
    default = "tool_calls" if step.tool_calls else "stop"
    version = extra.get("version")
    return ModelCall(
        call_id=str(extra.get("call_id") or f"{session}-{index}"),
        session_id=session,
        index=index,
        dialect="atif",
        messages=messages,
        tools=document.agent.tool_definitions or (),
        reply=reply,
        finish_reason=str(extra.get("finish_reason") or default),
        prompt_ids=metrics.prompt_token_ids,
        sampled_ids=metrics.completion_token_ids,
        logprobs=metrics.logprobs,
        prompt_tokens=metrics.prompt_tokens,
        completion_tokens=metrics.completion_tokens,
        version=version if isinstance(version, int) else 0,
        lineage=document.trajectory_id,
    )


def _read_step(step: Step) -> dict[str, Any] | None:
    content = _read_content(step.message)
    if step.source != "agent":
        only_observes = step.source == "user" and not content and step.observation is not None
        return None if only_observes else {"role": step.source, "content": content}
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if step.reasoning_content:
        message["reasoning_content"] = step.reasoning_content
    if step.tool_calls:
        message["content"] = content or None
        message["tool_calls"] = [_read_tool_call(call) for call in step.tool_calls]
    return message


def _read_tool_call(call: ToolCall) -> dict[str, Any]:
    raw = (call.extra or {}).get(RAW_ARGUMENTS)
    arguments = raw if isinstance(raw, str) else json.dumps(call.arguments)
    return {
        "id": call.tool_call_id,
        "type": "function",
        "function": {"name": call.function_name, "arguments": arguments},
    }


def _read_content(content: str | list[ContentPart]) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [
        {"type": "text", "text": part.text}
        if part.source is None
        else {"type": f"{part.type}_url", f"{part.type}_url": {"url": part.source.path}}
        for part in content
    ]
