"""Small runs in a store, shared by the tests of rows from runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from castform.call_log import append_calls
from castform.calls import ModelCall
from castform.rollouts import Rollout, RolloutGroup
from castform.runs import RunStore
from castform.token_marks import TokenMarks, write_marks

CALLS = "calls/000.jsonl"
MARKS = TokenMarks(model="tiny", tokenizer_sha256="a" * 64, template_sha256="b" * 64)
TOOL = {
    "type": "function",
    "function": {"name": "find", "description": "Finds.", "parameters": {"type": "object", "properties": {}}},
}

Message = Mapping[str, Any]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str | None, *calls: Message, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **more}


def tool_call(id: str = "c1", name: str = "find", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text: str, id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def make_call(
    messages: Sequence[Message],
    reply: Message,
    *,
    session: str = "g-0",
    index: int = 0,
    choice: int = 0,
    finish: str = "stop",
    ids: tuple[Sequence[int], Sequence[int]] | None = ((1, 2), (3, 4)),
    tools: Sequence[Message] = (),
) -> ModelCall:
    prompt, sampled = ids or (None, None)
    return ModelCall(
        call_id=f"{session}/{index}/{choice}",
        session_id=session,
        index=index,
        choice=choice,
        messages=tuple(messages),
        tools=tuple(tools),
        reply=reply,
        finish_reason=finish,
        prompt_ids=None if prompt is None else tuple(prompt),
        sampled_ids=None if sampled is None else tuple(sampled),
        logprobs=None if sampled is None else tuple(-1.0 for _ in sampled),
    )


def make_talk(*messages: Message, **options: Any) -> tuple[ModelCall, ...]:
    """Return the calls of a conversation: one for each assistant message in it, its ids counting on."""
    calls = []
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            ids = (tuple(range(1, 10 * (place + 1))), tuple(range(10 * (place + 1), 10 * (place + 1) + 3)))
            calls.append(make_call(messages[:place], message, index=len(calls), **{"ids": ids, **options}))
    return tuple(calls)


def make_rollout(
    calls: Sequence[ModelCall],
    score: float | None = 1.0,
    *,
    sample: int = 0,
    group: str = "g",
    reason: str = "finished",
    transcript: Sequence[Message] | None = None,
    **more: Any,
) -> Rollout:
    shown = (*calls[-1].messages, calls[-1].reply) if calls else ()
    return Rollout(
        rollout_id=f"{group}-{sample}",
        example_id=more.pop("example_id", "e"),
        sample=sample,
        split=more.pop("split", "train"),
        rewards=more.pop("rewards", {} if score is None else {"correct": score}),
        score=score,
        termination_reason=reason,
        error=None if score is not None else "HTTP 500",
        messages=shown if transcript is None else tuple(transcript),
        calls=tuple(calls),
        **more,
    )


def store_run(
    store: RunStore,
    *groups: Sequence[Rollout],
    kind: str = "train",
    status: str | None = "finished",
    marks: TokenMarks | None = MARKS,
    steps: Sequence[int] | None = None,
) -> str:
    """Store a run with these groups, their calls in its log; return its id."""
    run = store.create_run(kind=kind, name="n", config={})
    folder = run.run_dir or Path()
    (folder / CALLS).parent.mkdir(parents=True)
    append_calls(folder / CALLS, [call for group in groups for rollout in group for call in rollout.calls])
    if marks is not None:
        write_marks(folder / CALLS, marks)
    for place, rollouts in enumerate(groups):
        first = rollouts[0]
        group = RolloutGroup(
            group_id=first.rollout_id.rpartition("-")[0],
            example_id=first.example_id,
            rollouts=tuple(rollouts),
        )
        store.add_rollouts(
            run.run_id, [group], mode=kind, step=0 if steps is None else steps[place], calls_path=CALLS
        )
    if status is not None:
        store.set_status(run.run_id, status)  # type: ignore[arg-type]  # a test names a status
    return run.run_id
