"""The durable log: nothing is answered that is not on disk, and a crash costs one line at most."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.call_log import CallIndex
from castform.calls import ModelCall, Sampling
from castform.errors import RunFailedError
from castform_trainer.gateway.record import CallLog, decode_call, encode_call, read_calls
from castform_trainer.gateway.strict_json import DEEPEST, _count_levels, parse_json
from castform_trainer.gateway.trajectory import build_segments

REPLY = {"role": "assistant", "content": "hé\u2028llo"}


def make_call(index=0, **changes):
    values = {
        "call_id": f"s/{index}/0",
        "session_id": "s",
        "index": index,
        "messages": ({"role": "user", "content": "q"},),
        "reply": REPLY,
        "finish_reason": "stop",
        "prompt_ids": (1, 2),
        "sampled_ids": (3,),
        "logprobs": (-0.1,),
        "sampling": Sampling(stop=("x",), stop_token_ids=(5,)),
        "overrides": ("a=1->2",),
    }
    return ModelCall(**{**values, **changes})


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2**31), st.floats(-80, 0))),
    st.text(),
    st.sampled_from(["first", "spliced", "forked"]),
    st.integers(0, 2**63 - 1),
)
def test_a_call_comes_back_from_the_log_as_it_was(tokens, text, splice, seed):
    call = make_call(
        messages=({"role": "user", "content": text},),
        sampled_ids=tuple(i for i, _ in tokens),
        logprobs=tuple(p for _, p in tokens),
        splice=splice,
        sampling=Sampling(seed=seed),
    )
    line = encode_call(call)
    assert line.count(b"\n") == 1 and decode_call(line) == call


def test_calls_without_tokens_come_back_too():
    call = make_call(prompt_ids=None, sampled_ids=None, logprobs=None, sampling=None)
    assert decode_call(encode_call(call)) == call


def test_a_torn_last_line_is_left_out_and_cut_off_before_the_next(tmp_path):
    path = tmp_path / "calls.jsonl"
    log = CallLog(path)
    log.append([make_call(0), make_call(1)])
    log.close()
    whole = path.read_bytes()
    for cut in range(1, len(encode_call(make_call(1)))):
        path.write_bytes(whole[:-cut])
        assert [c.index for c in read_calls(path)] == [0]
    log = CallLog(path)
    log.append([make_call(2)])
    log.close()
    assert [c.index for c in read_calls(path)] == [0, 2]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(encode_call(make_call(0)) + b"{nope}\n" + encode_call(make_call(1)))
    with pytest.raises(RunFailedError, match=r"calls\.jsonl:2 is not a recorded call"):
        list(read_calls(path))


async def test_every_answer_is_on_disk_before_it_is_sent(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open()
    for turn in range(3):
        await bench.say(grant, [{"role": "user", "content": f"{turn}"}])
        assert list(read_calls(bench.log_path)) == await bench.calls()


FULL_DISK = """
import asyncio, json, resource, sys
from pathlib import Path
import httpx
from castform.endpoint import SessionSpec
from castform.errors import RunFailedError
from castform_trainer.engines.fake import FakeEngine
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.gateway.fake_tokenizer import make_fake_tokenizer
from castform_trainer.gateway.record import read_calls

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
ROUTES = {"chat": "chat/completions", "anthropic": "messages", "responses": "responses"}

def make_body(dialect, turn):
    said = [{"role": "user", "content": str(turn)}]
    if dialect == "responses":
        return {"model": "fake", "input": said, "max_output_tokens": 20}
    return {"model": "fake", "messages": said, "max_tokens": 20, "stream": turn % 2 == 1}

async def fill(dialect, path):
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, resource.RLIM_INFINITY))
    gateway = Gateway(FakeEngine(), make_fake_tokenizer(), log_path=path, model_name="fake").start()
    endpoint = GatewayEndpoint(gateway)
    grant = await endpoint.open_session(SessionSpec(session_id="s"))
    found = {"answered": 0, "errors": []}
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {grant.api_key}"}) as client:
        for turn in range(40):
            reply = await client.post(f"{grant.base_url}/{ROUTES[dialect]}", json=make_body(dialect, turn))
            found["answered"] += reply.status_code == 200
            if reply.status_code != 200:
                found["errors"].append([reply.status_code, reply.json()["error"]])
                if len(found["errors"]) == 2:  # the one that did not fit, and one that is not tried any more
                    break
        resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)  # there is space again, but the log has a hole
        retry = {"x-stainless-retry-count": "1"}
        url, body = f"{grant.base_url}/{ROUTES[dialect]}", make_body(dialect, turn - 1)
        reply = await client.post(url, json=body, headers=retry)
        found["errors"].append([reply.status_code, reply.json()["error"]])
    try:
        await endpoint.collect("s")
    except RunFailedError as error:
        found["run"] = f"{error} | {error.hint}"
    await endpoint.aclose()
    found["dialects"] = [call.dialect for call in read_calls(path)]
    found["whole"] = path.read_bytes().endswith(b"\\n")
    return found

async def main(folder):
    print(json.dumps({name: await fill(name, folder / f"{name}.jsonl") for name in ROUTES}))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_on_a_full_disk_no_answer_goes_out_without_its_record_in_any_dialect(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    every = json.loads(done.stdout)
    assert set(every) == {"chat", "anthropic", "responses"}
    for dialect, found in every.items():
        assert found["dialects"] == [dialect] * found["answered"] and found["answered"] > 0
        assert found["whole"] and "free some space" in found["run"]
        assert len(found["errors"]) == 3
        for status, error in found["errors"]:
            assert status == 500
            assert (
                "cannot record a model call in " in error["message"] and "File too large" in error["message"]
            )
            assert error["type"] == ("api_error" if dialect == "anthropic" else "server_error")


OLDER_LINE = {
    "call_id": "s/0/0",
    "session_id": "s",
    "index": 0,
    "choice": 0,
    "dialect": "chat",
    "messages": [{"role": "user", "content": "q"}],
    "tools": [],
    "reply": {"role": "assistant", "content": "a"},
    "finish_reason": "stop",
    "prompt_ids": [1, 2],
    "sampled_ids": [3, 4],
    "logprobs": [-0.1, -0.2],
    "prompt_tokens": 2,
    "completion_tokens": 2,
    "overrides": [],
    "version": 0,
    "splice": "first",
    "seconds": 0.5,
    "sampling": {
        "max_new_tokens": 9,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "seed": 7,
        "stop": [],
        "stop_token_ids": [],
    },
}
"""As a log holds it that was begun before calls had `lineage` and `error`."""


def test_a_log_that_was_begun_before_calls_had_more_fields_is_read_and_gone_on_with(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_text(json.dumps(OLDER_LINE, separators=(",", ":")) + "\n")
    log = CallLog(path)
    log.append([make_call(1, lineage="main/a")])
    log.close()
    older, newer = read_calls(path)
    assert (older.lineage, older.error, older.sampling.seed) == (None, None, 7)
    assert (newer.index, newer.lineage) == (1, "main/a")
    [segment] = build_segments([older])
    assert [i for i, kept in zip(segment.ids, segment.mask, strict=True) if kept] == [3, 4]
    assert CallIndex(path).read(["s/1/0", "s/0/0"]) == (newer, older)


def nest(depth):
    return "[" * depth + '"]["' + "]" * depth


def read_from_below(path, frames):
    return read_from_below(path, frames - 1) if frames else list(read_calls(path))


async def test_what_is_recorded_can_be_read_from_any_stack(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open()
    headers = {"Authorization": f"Bearer {grant.api_key}"}
    found = []
    for depth in (DEEPEST - 3, DEEPEST - 2, 900):
        message = f'{{"role": "user", "content": "go", "more": {nest(depth)}}}'
        body = f'{{"model": "fake", "messages": [{message}]}}'
        async with bench.http.post(f"{grant.base_url}/chat/completions", data=body, headers=headers) as reply:
            found.append((reply.status, ((await reply.json()).get("error") or {}).get("code")))
    assert found == [(200, None), (400, "invalid_json"), (400, "invalid_json")]
    assert read_from_below(bench.log_path, 600) == await bench.calls()


def measure(value):
    if isinstance(value, dict):
        return 1 + max(map(measure, value.values()), default=0)
    return 1 + max(map(measure, value), default=0) if isinstance(value, list) else 0


VALUES = st.recursive(
    st.text("[]{}", max_size=3) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=25,
)


@settings(deadline=None)
@given(VALUES, st.booleans())
def test_json_is_read_down_to_a_depth_that_does_not_depend_on_the_rest_of_it(value, in_bytes):
    assert _count_levels(value) == measure(value)
    deepest = DEEPEST - measure(value)
    for depth, is_read in ((deepest, True), (deepest + 1, False)):
        text = "[" * depth + json.dumps(value) + "]" * depth
        try:
            parse_json(text.encode() if in_bytes else text)
        except RecursionError:
            assert not is_read
        else:
            assert is_read
