"""The durable log: nothing is answered that is not on disk, and a crash costs one line at most."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castform.calls import ModelCall, Sampling
from castform.errors import RunFailedError
from castform_trainer.gateway.record import CallLog, decode_call, encode_call, read_calls

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
import asyncio, resource, sys
from pathlib import Path
import httpx
from castform.endpoint import SessionSpec
from castform.errors import RunFailedError
from castform_trainer.engines.fake import FakeEngine
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.gateway.fake_tokenizer import make_fake_tokenizer
from castform_trainer.gateway.record import read_calls

async def main(path):
    gateway = Gateway(FakeEngine(), make_fake_tokenizer(), log_path=path, model_name="fake").start()
    endpoint = GatewayEndpoint(gateway)
    grant = await endpoint.open_session(SessionSpec(session_id="s"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, resource.RLIM_INFINITY))
    statuses = []
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {grant.api_key}"}) as client:
        for turn in range(40):
            body = {"messages": [{"role": "user", "content": f"{turn}"}], "max_tokens": 20}
            reply = await client.post(f"{grant.base_url}/chat/completions", json=body)
            statuses.append(reply.status_code)
            if reply.status_code != 200:
                print(reply.json()["error"]["code"], "|", reply.json()["error"]["message"])
                break
    try:
        await endpoint.collect("s")
    except RunFailedError as error:
        print("run:", error, "|", error.hint)
    await endpoint.aclose()
    print("answered", statuses.count(200), "recorded", len(list(read_calls(path))), path.read_bytes()[-1:])

asyncio.run(main(Path(sys.argv[1])))
"""


def test_on_a_full_disk_no_answer_goes_out_without_its_record(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "calls.jsonl")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    client, run, counts = done.stdout.strip().splitlines()
    assert client.startswith("recording_failed | cannot record a model call in ")
    assert "File too large" in client and "free some space" in run
    words = counts.split()
    assert words[1] == words[3] and int(words[1]) > 0 and words[4] == "b'\\n'"
