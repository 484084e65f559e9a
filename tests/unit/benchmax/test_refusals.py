"""What the runtime says when it refuses something, word for word: an author reads nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import (
    Dataset,
    Environment,
    Example,
    JsonlDataset,
    RolloutAttempt,
    RolloutRequest,
    StaticBearerAuth,
    ValidationDiagnostic,
    canonical_example_id,
)
from benchmax.envs.base.budgets import check_max_tool_calls, check_max_turns
from benchmax.envs.base.dataset import resolve_dataset_path
from benchmax.envs.base.rollout import read_payload
from benchmax.envs.dataset import validate_max_examples
from benchmax.envs.http_errors import MAX_ERROR_CHARS, describe_http_error, without_secrets
from benchmax.envs.identity import MAX_SAFE_INTEGER
from benchmax.envs.retry import JITTER, MAX_RETRY_SECONDS, retry_delay
from benchmax.envs.termination import describe_error
from benchmax.envs.tool_arguments import ArgumentFault, check_arguments, parse_arguments

USER = {"role": "user", "content": "q"}
OBJECT_WANTED = "Tool arguments must be a JSON object."


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1}, "set is not JSON-canonicalizable"),
        (MAX_SAFE_INTEGER + 1, "integers beyond 2^53-1 are not exact in JSON; give them as text"),
        (float(MAX_SAFE_INTEGER + 1), "integers beyond 2^53-1 are not exact in JSON; give them as text"),
        (float("inf"), "inf is not a finite number"),
        ({1: "a"}, "object keys must be strings, not int"),
        ("\ud800", "text holds a lone surrogate, which is not valid UTF-8"),
        ({"\ud800": 1}, "text holds a lone surrogate, which is not valid UTF-8"),
    ],
)
def test_a_value_without_a_canonical_form_is_named(value: object, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        canonical_example_id(value)
    assert str(raised.value) == message


def test_every_level_of_objects_counts_once() -> None:
    def nested(levels: int) -> Any:
        value: Any = "x"
        for _ in range(levels):
            value = {"k": value}
        return value

    canonical_example_id(nested(200))
    with pytest.raises(ValueError, match=r"^value is nested deeper than 200 levels$"):
        canonical_example_id(nested(201))


def test_numbers_that_are_no_integers_keep_their_fraction() -> None:
    assert canonical_example_id(0.5) != canonical_example_id(0)
    assert canonical_example_id(MAX_SAFE_INTEGER) == canonical_example_id(float(MAX_SAFE_INTEGER))


def test_a_data_path_that_leads_away_is_named(tmp_path: Path) -> None:
    absolute = str(tmp_path / "a.jsonl")
    for given, message in [
        (absolute, f"dataset path must be relative to base_dir, not {absolute!r}"),
        ("../a.jsonl", "dataset path '../a.jsonl' must stay within base_dir"),
    ]:
        with pytest.raises(ValueError) as raised:
            resolve_dataset_path(tmp_path, given)
        assert str(raised.value) == message


def test_a_dataset_names_the_item_that_is_no_example() -> None:
    with pytest.raises(TypeError) as raised:
        Dataset([Example("a", {}), {"id": "b"}])  # type: ignore[list-item]
    assert str(raised.value) == "dataset item 1 is dict, not an Example"


def test_one_example_is_the_smallest_limit(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"q": 1}\n{"q": 2}\n')
    assert validate_max_examples(1) == 1
    assert [e.payload for e in JsonlDataset(path, row_to_example=_example, max_examples=1)] == [{"q": 1}]
    for bad in (0, True, 1.0):
        with pytest.raises(ValueError) as raised:
            JsonlDataset(path, row_to_example=_example, max_examples=bad)  # type: ignore[arg-type]
        assert str(raised.value) == f"max_examples must be a positive integer or None, not {bad!r}"


def test_a_jsonl_row_of_another_kind_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n[1]\n")
    with pytest.raises(TypeError) as raised:
        JsonlDataset(path, row_to_example=_example)
    assert str(raised.value) == f"{path}:2 must be a JSON object, not list"
    path.write_text('{"q": 1}\n')
    with pytest.raises(TypeError) as raised:
        JsonlDataset(path, row_to_example=lambda row: row)  # type: ignore[arg-type, return-value]
    assert str(raised.value) == f"{path}:1: row_to_example returned dict, not an Example"


def test_a_pipe_or_a_device_is_no_dataset_and_nothing_waits_for_it(tmp_path: Path) -> None:
    pipe, device = tmp_path / "pipe.jsonl", tmp_path / "device.jsonl"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(ValueError) as raised:
            JsonlDataset(path, row_to_example=_example)
        assert str(raised.value) == f"{path} is a pipe or a device; a dataset needs a regular file"
    with pytest.raises(FileNotFoundError):
        JsonlDataset(tmp_path / "none.jsonl", row_to_example=_example)
    with pytest.raises(IsADirectoryError):
        JsonlDataset(tmp_path, row_to_example=_example)


def test_jsonl_is_utf8_whatever_the_machine_and_splits_at_newlines_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('\ufeff{"q": "é\u2028"}\r\n{"q": "b"}\n'.encode())
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "ascii")
    assert [e.payload["q"] for e in JsonlDataset(path, row_to_example=_example)] == ["é\u2028", "b"]
    path.write_bytes(b'{"q": "a"}\r{"q": "b"}\n')  # a lone return is inside a line, and so breaks its JSON
    with pytest.raises(ValueError, match=":1 contains invalid JSON: Extra data"):
        JsonlDataset(path, row_to_example=_example)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ValidationDiagnostic("note", "c", "m"), "severity must be 'warning' or 'error', not 'note'"),  # type: ignore[arg-type]
        (lambda: ValidationDiagnostic("error", " ", "m"), "code must be a non-empty string"),
        (lambda: ValidationDiagnostic("warning", "c", ""), "message must be a non-empty string"),
    ],
)
def test_a_diagnostic_without_its_parts_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        make()
    assert str(raised.value) == message


def test_an_exception_is_described_by_type_and_text() -> None:
    assert describe_error(KeyError("a")) == "KeyError: 'a'"
    assert describe_error(TimeoutError()) == "TimeoutError"

    class Mute(Exception):
        def __str__(self):
            raise KeyError("no words")

    assert describe_error(Mute()) == "Mute: its text cannot be read (KeyError)"


@pytest.mark.parametrize("text", [5, ["a"], '["a"]', "null"])
def test_arguments_of_another_kind_are_told_to_the_model(text: object) -> None:
    with pytest.raises(ArgumentFault) as raised:
        parse_arguments(text)
    assert str(raised.value) == OBJECT_WANTED


def test_arguments_that_came_decoded_are_copied() -> None:
    given = {"a": 1}
    parsed = parse_arguments(given)
    assert parsed == given
    assert parsed is not given


def test_every_fault_of_a_call_is_in_one_message() -> None:
    schema = {
        "properties": {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}},
        "required": ["city", "unit"],
    }
    with pytest.raises(ArgumentFault) as raised:
        check_arguments("weather", {"days": "x" * 100, "wind": 1}, schema)
    shown = json.dumps("x" * 100)[:80]
    assert str(raised.value) == (
        "Invalid arguments for tool 'weather': 'city' is missing; 'unit' is missing; 'wind' is not a parameter; "
        f"'days' must be integer or null, not {shown}. Its parameters: 'city', 'days'."
    )


@pytest.mark.parametrize(
    "schema", [{"properties": {}}, {"required": ["a"]}, {"required": ["a"], "properties": "odd"}]
)
def test_a_tool_without_parameters_says_none(schema: dict[str, Any]) -> None:
    with pytest.raises(ArgumentFault) as raised:
        check_arguments("now", {"b": 1} if "required" not in schema else {}, schema)
    assert str(raised.value).endswith("Its parameters: none.")


@pytest.mark.parametrize("open_schema", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}])
def test_a_schema_that_allows_other_names_takes_them(open_schema: dict[str, Any]) -> None:
    check_arguments("t", {"xyz": 1}, {"properties": {}, **open_schema})
    with pytest.raises(ArgumentFault, match="'xyz' is not a parameter"):
        check_arguments("t", {"xyz": 1}, {"properties": {}, "additionalProperties": False})


def test_the_failure_of_a_status_says_what_the_server_said() -> None:
    def said(status: int, body: bytes) -> str:
        return describe_http_error(status, body)

    assert said(302, b"<html>") == "HTTP 302: a redirect, which is not followed"
    assert said(400, b"<html>") == "HTTP 400: <html>"
    assert said(503, b"") == "HTTP 503: no message"
    assert said(500, b'{"error": {"message": "busy", "code": 1}}') == "HTTP 500: busy"
    assert said(500, b'{"error": {"message": 7}}') == 'HTTP 500: {"error": {"message": 7}}'
    assert said(500, b"caf\xe9") == "HTTP 500: caf\ufffd"
    assert said(500, b"x" * 600) == "HTTP 500: " + "x" * MAX_ERROR_CHARS
    assert said(500, b'{"error": {"message": "%s"}}' % (b"x" * 600)) == "HTTP 500: " + "x" * MAX_ERROR_CHARS
    assert said(500, b"[" * 100_000) == "HTTP 500: " + "[" * MAX_ERROR_CHARS


def test_a_secret_of_eight_characters_is_taken_out_and_shorter_words_stay() -> None:
    headers = {"Authorization": "Bearer 12345678", "X-Key": "1234567"}
    assert without_secrets(b"Bearer 12345678 and 1234567", headers) == b"Bearer *** and 1234567"


def test_a_server_may_ask_for_a_minute_and_no_more() -> None:
    def asked(text: str) -> float | None:
        return retry_delay(0, base_seconds=1.0, retry_after=text, key="k")

    assert asked(str(MAX_RETRY_SECONDS)) == MAX_RETRY_SECONDS
    assert asked(str(MAX_RETRY_SECONDS + 0.001)) is None


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 99999999999999999999 Jan 2020 00:00:00 GMT",
        "Mon, 01 Jan 2020 99999999999999999999:00:00 GMT",
        "Wed, 21 Oct 2015 07:28:00 +99999999999999999",
    ],
)
def test_a_date_beyond_all_calendars_is_no_retry_after(text: str) -> None:
    asked, usual = (retry_delay(0, base_seconds=1.0, retry_after=given, key="k") for given in (text, None))
    assert asked == usual


def test_pauses_spread_over_the_whole_of_the_jitter() -> None:
    pauses = [retry_delay(0, base_seconds=1.0, retry_after=None, key=str(n)) or 0.0 for n in range(2000)]
    assert 1 - JITTER <= min(pauses) < 1 - 0.99 * JITTER
    assert 1 - 0.01 * JITTER < max(pauses) <= 1.0


def _example(row: dict[str, Any]) -> Example[dict[str, Any]]:
    return Example(canonical_example_id(row), row)


@pytest.mark.parametrize(
    ("payload", "kind", "message"),
    [
        ([1], TypeError, "the payload of a BaseEnv example must be a mapping, not list"),
        ({"messages": []}, ValueError, "the payload has no 'prompt_messages'"),
        ({"prompt_messages": "hi"}, TypeError, "prompt_messages must be a list of messages, not str"),
        ({"prompt_messages": []}, ValueError, "prompt_messages must have at least one message"),
        ({"prompt_messages": [USER, "hi"]}, TypeError, "prompt_messages[1] must be a mapping, not str"),
        (
            {"prompt_messages": [USER, {"content": "x"}]},
            ValueError,
            "prompt_messages[1] must have a text role",
        ),
    ],
)
def test_a_payload_without_a_usable_prompt_is_named(
    payload: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as raised:
        read_payload(payload)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("check", "bad", "message"),
    [
        (check_max_turns, 0, "max_turns must be a positive integer, not 0"),
        (check_max_turns, True, "max_turns must be a positive integer, not True"),
        (check_max_tool_calls, -1, "max_tool_calls must be a non-negative integer, not -1"),
        (check_max_tool_calls, 1.0, "max_tool_calls must be a non-negative integer, not 1.0"),
    ],
)
def test_a_budget_that_is_no_count_is_named(check: Callable[[Any], object], bad: Any, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        check(bad)
    assert str(raised.value) == message


def test_the_smallest_budgets_are_allowed() -> None:
    assert (check_max_turns(1), check_max_turns(None)) == (1, None)
    assert (check_max_tool_calls(0), check_max_tool_calls(None)) == (0, None)


class _Hands(Environment[Any, RolloutAttempt]):
    """Gives back whatever it is told to."""

    def __init__(self, made: Callable[[RolloutRequest[Any]], Any]) -> None:
        self.made = made
        self.asked = 0

    async def create_dataset(self, split: Any, base_dir: Path, *, max_examples: int | None = None) -> Any:
        return Dataset([])

    async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
        return self.made(request)  # type: ignore[no-any-return]

    async def compute_group_rewards(self, rollouts: Any) -> Any:
        self.asked += 1
        return None


def _requests(*ids: str, example: str = "e", split: Any = "train") -> list[RolloutRequest[Any]]:
    return [
        RolloutRequest(i, Example(example, {}), "m", "http://x", StaticBearerAuth("k"), split=split)
        for i in ids
    ]


def _exit(request: RolloutRequest[Any]) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("made", "kind", "message"),
    [
        (lambda request: [], TypeError, "_Hands.run_rollout returned list, expected RolloutAttempt"),
        (
            lambda request: RolloutAttempt(rollout_id="z", termination_reason="finished"),
            ValueError,
            "run_rollout returned the wrong rollout ID: 'z' instead of 'a'",
        ),
        (
            lambda request: RolloutAttempt(
                rollout_id="a", termination_reason="model_error", rewards={"x": 0.5}
            ),
            ValueError,
            "failed rollout 'a' (model_error) has non-zero rewards",
        ),
        (_exit, RuntimeError, "the environment called sys.exit(3)"),
    ],
)
async def test_an_attempt_that_breaks_the_contract_is_named(
    made: Callable[[RolloutRequest[Any]], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as raised:
        await _Hands(made).run_group(_requests("a"))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([], "a group needs at least one request"),
        (_requests("b", "a", "b", "a", "c"), "duplicate rollout IDs in the group: ['a', 'b']"),
        (
            [*_requests("a", example="f"), *_requests("b", example="e")],
            "a group must use one example, but it has ['e', 'f']",
        ),
        (
            [*_requests("a", split="train"), *_requests("b", split="eval")],
            "a group must use one split, but it has ['eval', 'train']",
        ),
    ],
)
async def test_what_is_no_group_is_named(requests: list[RolloutRequest[Any]], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        await _Hands(lambda request: None).run_group(requests)
    assert str(raised.value) == message


async def test_the_group_hook_is_not_asked_when_nothing_can_be_scored() -> None:
    env = _Hands(lambda request: RolloutAttempt(rollout_id="a", termination_reason="model_error"))
    outcome = (await env.run_group(_requests("a")))["a"]
    assert (outcome.rewards, outcome.termination_reason, env.asked) == ({}, "model_error", 0)
