"""Golden behaviours of auth, identity, datasets and the deterministic rewards."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import benchmax.auth
import benchmax.envs
from benchmax.auth import ModelRequestContext, RequestModelAuth
from benchmax.envs import (
    Dataset,
    Example,
    InjectedAuth,
    JsonlDataset,
    ModelAuth,
    RolloutAttempt,
    RolloutFailure,
    RolloutOutcome,
    RolloutRequest,
    StaticBearerAuth,
    ValidationDiagnostic,
    bind_model_auth,
    canonical_example_id,
)
from benchmax.envs.base import resolve_dataset_path
from benchmax.envs.dataset import validate_max_examples
from benchmax.rewards import (
    citation_score,
    clip01,
    count_search_calls,
    extract_answer_block,
    extract_completion_text,
    overlap_reward,
    percent_of_text_a_in_text_b,
    search_within_budget,
    tool_call_efficiency,
)

CONTEXT = ModelRequestContext("http://127.0.0.1:9/v1", "m", "r")


# --- auth ------------------------------------------------------------------------------------


async def test_unbound_auth_raises_by_name() -> None:
    with pytest.raises(RuntimeError, match="No runtime model-auth provider was injected for 'judge'"):
        await InjectedAuth("judge").headers_for_request(CONTEXT)


async def test_injected_auth_is_looked_up_at_every_call() -> None:
    reference = InjectedAuth("judge")
    for token in ("one", "two"):
        with bind_model_auth({"judge": StaticBearerAuth(token)}):
            assert await reference.headers_for_request(CONTEXT) == {"Authorization": f"Bearer {token}"}


async def test_a_name_bound_to_another_reference_raises() -> None:
    with (
        bind_model_auth({"judge": InjectedAuth("other")}),
        pytest.raises(RuntimeError, match="another InjectedAuth"),
    ):
        await InjectedAuth("judge").headers_for_request(CONTEXT)


def test_bindings_are_checked() -> None:
    with pytest.raises(ValueError, match="non-empty"), bind_model_auth({" ": StaticBearerAuth("k")}):
        pass
    not_auth: Any = object()
    with pytest.raises(TypeError, match="not a ModelAuth"), bind_model_auth({"judge": not_auth}):
        pass


def test_no_repr_shows_a_token() -> None:
    auth = StaticBearerAuth("s3cret")
    request = RolloutRequest("r", Example("e", {}), "m", "http://h/v1", auth)
    assert "s3cret" not in repr(auth) + repr(request)
    with pytest.raises(ValueError, match="non-empty"):
        StaticBearerAuth(" ")


@dataclass
class AskedAuth:
    asked: list[ModelRequestContext] = field(default_factory=list)

    async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
        await asyncio.sleep(0)
        self.asked.append(context)
        return {"Authorization": f"Bearer {len(self.asked)}"}


def echo_transport() -> httpx.MockTransport:
    return httpx.MockTransport(lambda request: httpx.Response(200, text=request.headers["Authorization"]))


def test_sync_requests_ask_the_provider_each_time() -> None:
    auth = AskedAuth()
    with httpx.Client(transport=echo_transport(), auth=RequestModelAuth(auth, CONTEXT)) as client:
        assert [client.get("http://h/").text for _ in range(2)] == ["Bearer 1", "Bearer 2"]
    assert auth.asked == [CONTEXT, CONTEXT]


async def test_sync_requests_inside_a_running_loop_see_the_callers_bindings() -> None:
    auth = RequestModelAuth(InjectedAuth("llm"), CONTEXT)
    with (
        bind_model_auth({"llm": AskedAuth()}),
        httpx.Client(transport=echo_transport(), auth=auth) as client,
    ):
        assert client.get("http://h/").text == "Bearer 1"  # noqa: ASYNC212 - what is tested


async def test_async_requests_ask_the_provider_each_time() -> None:
    auth = AskedAuth()
    async with httpx.AsyncClient(transport=echo_transport(), auth=RequestModelAuth(auth, CONTEXT)) as client:
        assert [(await client.get("http://h/")).text for _ in range(2)] == ["Bearer 1", "Bearer 2"]


# --- contract types --------------------------------------------------------------------------


def test_the_public_names_are_those_that_authors_know() -> None:
    names = """BaseEnv BaseRollout Dataset DatasetSplit Example Environment JsonRow JsonlDataset InjectedAuth Message
    Messages ModelAuth RewardMap RolloutAttempt RolloutFailure RolloutOutcome RolloutRequest StaticBearerAuth Tool
    ValidationDiagnostic bind_model_auth canonical_example_id"""
    ours = {"FunctionTool", "ToolSource"}
    assert set(benchmax.envs.__all__) == set(names.split()) | ours
    assert all(hasattr(benchmax.envs, name) for name in benchmax.envs.__all__)
    assert all(hasattr(benchmax.auth, name) for name in benchmax.auth.__all__)


def test_requests_are_checked() -> None:
    example: Example[Any] = Example("e", {})
    auth = StaticBearerAuth("k")
    with pytest.raises(ValueError, match="example id must be a non-empty string"):
        Example(" ", {})
    for fields in (("", "m", "u"), ("r", " ", "u"), ("r", "m", "")):
        with pytest.raises(ValueError, match="non-empty"):
            RolloutRequest(fields[0], example, fields[1], fields[2], auth)
    wrong: Any = "key"
    with pytest.raises(TypeError, match="ModelAuth"):
        RolloutRequest("r", example, "m", "u", wrong)
    split: Any = "test"
    with pytest.raises(ValueError, match="split"):
        RolloutRequest("r", example, "m", "u", auth, split)


@pytest.mark.parametrize(
    ("rewards", "error", "words"),
    [
        ([1.0], TypeError, "rewards must be a mapping"),
        ({"k": True}, ValueError, "reward 'k' must be numeric"),
        ({"k": "1"}, ValueError, "reward 'k' must be numeric"),
        ({"k": math.nan}, ValueError, "reward 'k' must be finite"),
        ({"k": math.inf}, ValueError, "reward 'k' must be finite"),
        ({"k": 10**400}, ValueError, "reward 'k' must be finite"),
        ({" ": 1.0}, ValueError, "non-empty"),
    ],
)
def test_rewards_are_checked(rewards: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        RolloutOutcome(rewards, "finished")
    with pytest.raises(error, match=words):
        RolloutAttempt(rollout_id="r", termination_reason="finished", rewards=rewards)


def test_outcomes_are_open_in_reasons_and_strict_in_errors() -> None:
    assert RolloutOutcome({}, "whatever it was").rewards == {}
    for fields in (({}, " "), ({}, "finished", " ")):
        with pytest.raises(ValueError, match="non-empty"):
            RolloutOutcome(*fields)


def test_a_failure_says_why() -> None:
    failure = RolloutFailure("sandbox_error", "no box")
    assert (failure.termination_reason, str(failure)) == ("sandbox_error", "no box")
    assert isinstance(failure, RuntimeError)
    for fields in (("finished", "x"), ("tool_error", " ")):
        with pytest.raises(ValueError):
            RolloutFailure(*fields)


def test_diagnostics_are_checked() -> None:
    assert ValidationDiagnostic("warning", "code", "words").location is None
    severity: Any = "fatal"
    with pytest.raises(ValueError, match="severity"):
        ValidationDiagnostic(severity, "code", "words")


# --- identity --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "start", "end"),
    [
        ({}, "bb73190c", "b18"),
        (1, "86d826ef", "51e9c"),
        (1.0, "86d826ef", "51e9c"),
        (True, "8a177dfe", "607b75"),
        (None, "162d989c", "84564"),
        ("é", "f69eb169", "1b0"),
        ({"prompt_messages": [{"role": "user", "content": "q"}], "answer": "a"}, "62aeee44", "af544"),
        ({"answer": "a", "prompt_messages": ({"content": "q", "role": "user"},)}, "62aeee44", "af544"),
    ],
)
def test_example_ids_are_those_of_every_other_machine(value: object, start: str, end: str) -> None:
    example_id = canonical_example_id(value)
    assert example_id.startswith(start) and example_id.endswith(end) and len(example_id) == 64


@pytest.mark.parametrize(
    "value",
    [math.nan, -math.inf, 2**53, -(2**53), float(2**60), {1: 2}, "\ud800", {"\ud800": 1}, object(), b"x"],
)
def test_what_json_cannot_say_exactly_has_no_id(value: object) -> None:
    with pytest.raises(ValueError):
        canonical_example_id(value)


# --- datasets --------------------------------------------------------------------------------


def test_a_dataset_is_an_ordered_snapshot() -> None:
    examples = [Example("b", 1), Example("a", 2)]
    dataset = Dataset(examples)
    examples.clear()
    assert len(dataset) == 2 and [example.id for example in dataset] == ["b", "a"] and dataset[1].payload == 2


def write(folder: Path, text: str) -> Path:
    path = folder / "rows.jsonl"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def row_to_example(row: dict[str, Any]) -> Example[Any]:
    return Example(str(row["id"]), row)


def test_jsonl_keeps_order_and_stops_at_the_limit(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": 1}\n\n  \n{"id": 2}\r\n{"id": 3}\nnot json')
    dataset = JsonlDataset(path, row_to_example=row_to_example, max_examples=3)
    assert [example.id for example in dataset] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ('{"id": 1}\n\n{bad', ValueError, r"rows.jsonl:3 contains invalid JSON: "),
        ('{"id": 1}\n[1]', TypeError, r"rows.jsonl:2 must be a JSON object"),
    ],
)
def test_jsonl_errors_name_file_and_line(
    tmp_path: Path, text: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        JsonlDataset(write(tmp_path, text), row_to_example=row_to_example)


def test_a_failing_row_function_carries_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": 1}\n{"no": 2}')
    with pytest.raises(KeyError) as caught:
        JsonlDataset(path, row_to_example=row_to_example)
    assert caught.value.__notes__ == [f"while loading {path}:2"]
    with pytest.raises(TypeError, match="not an Example"):
        JsonlDataset(path, row_to_example=json.dumps)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "3"])
def test_limits_are_positive_integers(limit: Any) -> None:
    with pytest.raises(ValueError, match="max_examples"):
        validate_max_examples(limit)
    assert validate_max_examples(None) is None and validate_max_examples(3) == 3


def test_dataset_paths_stay_within_their_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert resolve_dataset_path(tmp_path, "data/../data/x.jsonl") == tmp_path.resolve() / "data/x.jsonl"
    for path in ("/etc/passwd", "../x", "data/../../x"):
        with pytest.raises(ValueError):
            resolve_dataset_path(tmp_path, path)
    (tmp_path / "data/link").symlink_to(tmp_path.parent)
    with pytest.raises(ValueError, match="must stay within base_dir"):
        resolve_dataset_path(tmp_path, "data/link/x")


# --- rewards ---------------------------------------------------------------------------------


def test_a_transcript_that_ends_with_a_user_has_no_text() -> None:
    said = {"role": "assistant", "content": " hi "}
    assert extract_completion_text([said]) == "hi"
    assert extract_completion_text([said, {"role": "user", "content": "and?"}]) == ""


def test_the_first_answer_block_counts_and_strict_wants_one() -> None:
    assert extract_answer_block("x <ANSWER> a </answer> <answer>b</answer>") == "a"
    assert extract_answer_block(" open <answer>a ") == "open <answer>a"
    assert extract_answer_block(" open <answer>a ", strict=True) == ""
    assert extract_answer_block(None) == ""


@pytest.mark.parametrize(
    ("value", "clipped"),
    [(0.3, 0.3), (7, 1.0), (-1, 0.0), (math.nan, 0.0), (math.inf, 0.0), ("x", 0.0), (None, 0.0)],
)
def test_clip01(value: object, clipped: float) -> None:
    assert clip01(value) == clipped


def test_tool_call_markers_are_counted() -> None:
    said = {"role": "assistant", "content": "<tool_call>{}</tool_call> <tool_call>{}"}
    assert count_search_calls([said, {"role": "tool", "content": "<tool_call>"}]) == 2


def test_budgets_of_calls() -> None:
    assert search_within_budget(3, 3) and not search_within_budget(4, 3)
    with pytest.raises(ValueError, match="calls"):
        search_within_budget(-1, 3)


def chunk(source: str, content: str = "") -> dict[str, Any]:
    return {"content": content, "metadata": {"source_id": source}}


def test_citations_are_scored_as_sets() -> None:
    text = "It is so [Source: a] and so [source: unknown] and [Source: a]."
    assert citation_score(text, [chunk("a"), chunk("b")]) == {"precision": 0.5, "recall": 0.5}
    assert citation_score("no marks", [chunk("a")]) == {"precision": 0.0, "recall": 0.0}
    assert citation_score(text, []) == {"precision": 0.0, "recall": 0.0}


def test_the_first_filled_source_field_names_a_chunk() -> None:
    chunks = [{"metadata": {"file": " ", "url": "B"}}]
    score = citation_score("[Source: b]", chunks, source_field=("file", "url"), canonicalize=str.lower)
    assert score == {"precision": 1.0, "recall": 1.0}


def test_efficiency_decays_with_extra_calls() -> None:
    four = "<tool_call>" * 4
    assert tool_call_efficiency(four, correctness=0.5, reference_chunk_count=1) == pytest.approx(
        0.5 * math.exp(-0.2)
    )
    assert tool_call_efficiency(four, correctness=0.0) == 0.0
    assert tool_call_efficiency(four, max_calls=3) == 0.0
    assert tool_call_efficiency(four, ranges=[(0, 3, 1.0), (2, None, 0.25), (4, 4, 9.0)]) == 0.25
    assert tool_call_efficiency(four, ranges=[(5, None, 1.0)]) == 0.0
    with pytest.raises(ValueError, match="decay_rate"):
        tool_call_efficiency(four, decay_rate=-1)


def test_overlap_is_the_share_of_the_reference_in_the_answer() -> None:
    assert percent_of_text_a_in_text_b("", "x") == 0.0
    assert percent_of_text_a_in_text_b("abc", "xxabcxx") == 1.0
    assert percent_of_text_a_in_text_b("abcd", "ab") == 0.5
    reference = "the pump restarts when the tank is half empty"
    said = f"Well. <answer>I read that {reference}, daily.</answer>"
    assert overlap_reward(said, reference) == 1.0
    assert overlap_reward(said, "gold", reference_chunks=[chunk("a", reference)]) == 1.0
    assert overlap_reward(said, "something else entirely, about cats") == 0.0
    with pytest.raises(ValueError, match="minimum_overlap"):
        overlap_reward(said, reference, minimum_overlap=1.5)


def test_a_provider_is_recognised() -> None:
    assert isinstance(StaticBearerAuth("k"), ModelAuth) and isinstance(InjectedAuth("x"), ModelAuth)
