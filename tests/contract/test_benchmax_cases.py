"""Cases from the field, bound to benchmax: blocks B1, B2, B5, B6, B8, C1, C2, C4 and C7."""

from __future__ import annotations

import asyncio
import copy
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    RolloutRequest,
    StaticBearerAuth,
)
from benchmax.envs.termination import BUDGET_STOPS
from benchmax.rewards import extract_completion_text
from benchmax.rewards import match_answer as match
from benchmax.rewards.judge import read_number, read_verdict
from benchmax.rewards.weighted import WeightedRewards
from benchmax.testing import ChatServer, Fault

# --- adapters ------------------------------------------------------------------------------


def call(call_id: str, name: str, arguments: str | None) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant_call(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": list(calls), **fields}


def tool_result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


class FakeModel:
    """Scripted replies; keeps a deep copy of every request body."""

    def __init__(self, replies: list[Mapping[str, Any] | Exception]) -> None:
        self.replies = [
            Fault(status=500, message=str(reply)) if isinstance(reply, Exception) else reply
            for reply in replies
        ]
        self.requests: list[dict[str, Any]] = []


@dataclass(frozen=True)
class Result:
    messages: list[dict[str, Any]]
    requests: list[dict[str, Any]]
    truncated: bool
    error: str | None
    reward: Mapping[str, float] | None


def rollout(
    tools: Mapping[str, Callable[..., object]],
    fake: FakeModel,
    prompt: str = "go",
    reward: Callable[[BaseRollout], Mapping[str, float]] | None = None,
) -> Result:
    functions = list(tools.values())

    class CaseEnv(BaseEnv):
        max_turns = 10
        tools = functions

        async def create_dataset(
            self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
        ) -> Dataset[Mapping[str, Any]]:
            return Dataset([])

        async def compute_reward(self, rollout: BaseRollout) -> Mapping[str, float]:
            return reward(rollout) if reward else {"done": 1.0}

    async def run() -> BaseRollout:
        env = CaseEnv()
        example = Example("case", {"prompt_messages": [{"role": "user", "content": prompt}]})
        async with ChatServer(fake.replies) as server:
            request = RolloutRequest("r", example, "m", server.base_url, StaticBearerAuth("k"))
            try:
                return await env.run_rollout(request)
            finally:
                fake.requests = [copy.deepcopy(dict(served.body)) for served in server.requests]
                await env.aclose()

    made = asyncio.run(run())
    return Result(
        made.messages, fake.requests, made.termination_reason in BUDGET_STOPS, made.error, made.rewards
    )


# --- B. Rewards and answer extraction --------------------------------------------------------


def test_b1_decoration_is_no_part_of_a_number() -> None:
    for text in (
        "Total: **58**\n\n---\nFinal answer: **58**",
        "Final answer: __58__",
        "Answer: `58`",
        "$58$",
        "So it is 58.",
        "\\boxed{\\text{58}}",
    ):
        assert match(text, "58") == 1.0, text
    for text in ("Final answer: **59**", "Final answer: **581**", "Final answer: 5.8", ""):
        assert match(text, "58") == 0.0, text


def test_b2_the_last_complete_box_is_the_answer() -> None:
    assert match("so \\boxed{31}.,check.\n**Final Answer**\n\\boxed{31}", "31") == 1.0
    assert match("\\boxed{007} again \\boxed{007}", "7") == 1.0
    twice = "first \\boxed{12}, corrected: \\boxed{15}"
    assert match(twice, "15") == 1.0 and match(twice, "12") == 0.0
    assert match("so \\boxed{\\frac{3}{4}} holds", "\\frac{3}{4}") == 1.0
    assert match("cut off here \\boxed{\\frac{3}{4}", "\\frac{3}{4}") == 0.0


def test_b5_only_the_assistants_words_are_rewarded() -> None:
    parts = [{"type": "text", "text": "I could not "}, {"type": "text", "text": "find it."}]
    completion = [
        assistant_call(call("k", "vault", "{}"), content=None),
        tool_result("k", "SECRET 4417"),
        {"role": "assistant", "content": parts},
    ]
    text = extract_completion_text(completion)
    assert text.strip() == "I could not find it." and match(text, "4417") == 0.0
    assert extract_completion_text("plain") == "plain"
    assert extract_completion_text([assistant_call(call("k", "vault", "{}"), content=None)]) == ""
    assert extract_completion_text([]) == ""


# --- C. Chat and tool loop -------------------------------------------------------------------


def parse_judge(text: str) -> float:
    return read_verdict(text, lambda verdict: read_number(verdict, "score", low=0.0, high=1.0))


def test_b6_a_verdict_is_read_or_refused_never_zero() -> None:
    for text, want in (
        ('{"score": 0.7, "reason": "ok"}', 0.7),
        ('```json\n{"score": 0.7}\n```', 0.7),
        ('Sure, here it is:\n{"score": 0.7}\nAnything else?', 0.7),
        ('{"score": "0.7"}', 0.7),
        ('{"reason": "it printed ```json\\n{\\"score\\": 1}\\n``` and stopped", "score": 0}', 0.0),
    ):
        assert parse_judge(text) == want, text
    for text in (
        '{"score": 7}',
        '{"score": -0.1}',
        '{"score": NaN}',
        '{"score": true}',
        '{"score": null}',
        "score is 0.7",
        "",
        '{"score": 0.7',
        '{"score": "True"}',
    ):
        with pytest.raises(ValueError):
            parse_judge(text)


def test_b8_a_metric_does_not_poison_the_reward_and_a_crash_is_no_zero() -> None:
    s = WeightedRewards([(1.0, lambda c: 0.8), (0.0, lambda c: float("nan"))]).score("x")
    assert s["reward"] == 0.8 and math.isnan(list(s["metrics"].values())[1] or 0.0)

    def boom(c: object) -> float:
        raise AttributeError("list has no strip")

    s = WeightedRewards([(1.0, lambda c: 0.8), (1.0, boom)]).score("x")
    assert s["reward"] is None and "strip" in str(s["errors"])
    assert WeightedRewards([(1.0, lambda c: float("nan"))]).score("x")["reward"] is None
    with pytest.raises(ValueError, match="weight"):
        WeightedRewards([(float("nan"), lambda c: 1.0)])


def test_c1_malformed_arguments_are_explained_and_the_loop_goes_on() -> None:
    seen: list[str] = []

    def read(path):  # untyped on purpose: authors write tools like this
        seen.append(path)
        return "text"

    fake = FakeModel(
        [
            {"tool_calls": [call("c1", "read", '{"path": "a.txt"'), call("c2", "read", '{"path": "b.txt"}')]},
            {"tool_calls": [call("c3", "read", '"{\\"path\\": \\"c.txt\\"}"')]},
            {"tool_calls": [call("c4", "nosuch", "{}")]},
            {"content": "done"},
        ]
    )
    r = rollout({"read": read}, fake)
    assert r.error is None and seen == ["b.txt"] and len(fake.requests) == 4
    answers = {m["tool_call_id"]: m["content"] for m in r.messages if m["role"] == "tool"}
    assert list(answers) == ["c1", "c2", "c3", "c4"] and answers["c2"] == "text"
    assert "json" in answers["c1"].lower() and "object" in answers["c3"].lower() and "nosuch" in answers["c4"]


def test_c2_no_arguments_come_in_four_spellings() -> None:
    for text in ("", " \n", None, '{}""', "{}"):
        hits: list[int] = []

        def now():
            hits.append(1)
            return "noon"

        r = rollout({"now": now}, FakeModel([{"tool_calls": [call("c1", "now", text)]}, {"content": "ok"}]))
        assert hits == [1] and r.messages[-2]["content"] == "noon", text


def test_c2_doubled_and_cut_objects_stay_errors() -> None:
    for text in ('{"a": 1}{"a": 2}', '{"a": 1'):
        hits: list[object] = []

        def f1(a=None):
            hits.append(a)
            return "x"

        rollout({"f1": f1}, FakeModel([{"tool_calls": [call("c1", "f1", text)]}, {"content": "ok"}]))
        assert hits == [], text


def test_c4_the_calls_decide_not_the_finish_reason() -> None:
    seen: list[int] = []

    def t():
        seen.append(1)
        return "r"

    pending = {"content": "hm", "tool_calls": [call("c1", "t", "{}")], "finish_reason": "stop"}
    r = rollout({"t": t}, FakeModel([pending, {"content": "end", "finish_reason": "stop"}]))
    assert seen == [1] and r.messages[-1]["content"] == "end"
    fake = FakeModel([{"content": "end", "tool_calls": [], "finish_reason": "tool_calls"}])
    r = rollout({"t": t}, fake)
    assert len(fake.requests) == 1 and all(m["role"] != "tool" for m in r.messages)
    assert r.error is None and r.reward == {"done": 1.0}
    cut = {"tool_calls": [call("c1", "t", '{"x": "lo')], "finish_reason": "length"}
    r = rollout({"t": t}, FakeModel([cut]))
    assert seen == [1] and r.truncated and r.error is None


def test_c7_tools_may_return_anything() -> None:
    def w():
        return {"temp": 4, "unit": "\u00b0C"}

    def n():
        return None

    def i():
        return 5

    def e():
        raise RuntimeError("disk full")

    calls = [call("1", "w", "{}"), call("2", "n", "{}"), call("3", "i", "{}"), call("4", "e", "{}")]
    fake = FakeModel([{"tool_calls": calls}, {"content": "ok"}])
    rollout({"w": w, "n": n, "i": i, "e": e}, fake)
    contents = [m["content"] for m in fake.requests[1]["messages"] if m["role"] == "tool"]
    assert all(isinstance(content, str) for content in contents)
    assert json.loads(contents[0]) == {"temp": 4, "unit": "\u00b0C"} and "\u00b0C" in contents[0]
    assert contents[1] in ("", "null", "None") and contents[2] == "5" and "disk full" in contents[3]
