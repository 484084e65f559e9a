"""terminus-lite in front of the real gateway: every token that it makes the model say is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from castform.calls import Sampling
from castform.endpoint import SessionSpec
from castform.harness import load_harness
from castform.sandbox.contract import ModelEndpoint

pytest.importorskip("transformers")


@pytest.fixture
async def open_model(tmp_path) -> AsyncIterator[Callable[..., Any]]:
    """Return a function that opens a session in which the model says these texts, in order."""
    from castform_trainer.engines.fake import FakeEngine
    from castform_trainer.gateway import Gateway, GatewayEndpoint
    from castform_trainer.gateway.fake_tokenizer import PLAIN, make_fake_tokenizer

    opened = []

    async def start(*texts: str, max_new_tokens: int = 500, max_context_tokens: int | None = None):
        tokenizer = make_fake_tokenizer(PLAIN)
        replies = iter(texts)

        def script(prompt_ids: Any, sampling: Any) -> list[int]:
            return [*tokenizer.encode(next(replies), add_special_tokens=False), 2]

        engine = FakeEngine(script=script, decode=tokenizer.decode, max_context_tokens=100_000)
        gateway = Gateway(engine, tokenizer, log_path=tmp_path / "calls.jsonl", model_name="tiny").start()
        endpoint = GatewayEndpoint(gateway)
        opened.append(endpoint)
        grant = await endpoint.open_session(
            SessionSpec(
                session_id="one",
                sampling=Sampling(max_new_tokens=max_new_tokens),
                max_context_tokens=max_context_tokens,
            )
        )
        model = ModelEndpoint(base_url=grant.base_url, api_key=grant.api_key, model=grant.model)
        return model, lambda: endpoint.collect("one")

    yield start
    for endpoint in opened:
        await endpoint.aclose()


WRITE = "I write it.\n```sh\necho hello > hello.txt\n```"


async def test_turns_continue_each_others_tokens(box, make_task, open_model):
    from castform_trainer.gateway.fidelity import count_fidelity
    from castform_trainer.gateway.trajectory import build_segments

    model, collect = await open_model(WRITE, "```sh\ncat hello.txt\n```", "DONE")
    task = make_task("Write hello into hello.txt.")
    done = await load_harness("terminus-lite").run(task, box, model)
    assert done.status == "finished" and await box.read_file(f"{task.workdir}/hello.txt") == b"hello\n"
    calls = await collect()
    assert [call.splice for call in calls] == ["first", "spliced", "spliced"]
    assert len(build_segments(calls)) == 1
    counts = count_fidelity(calls)
    assert counts.trained_tokens == counts.sampled_tokens > 0 == counts.broken_calls
    steps = [step for step in done.trajectory["steps"] if step["source"] == "agent"]
    assert [s["metrics"]["completion_tokens"] for s in steps] == [len(c.sampled_ids) for c in calls]


@pytest.mark.parametrize(
    ("limits", "status", "turns"),
    [({"max_context_tokens": 900}, "context_exceeded", 1), ({"max_new_tokens": 10}, "output_exceeded", 1)],
    ids=["context", "reply"],
)
async def test_the_gateways_limits_end_it(box, make_task, open_model, limits, status, turns):
    reply = "```sh\nseq 400; touch ran\n```"
    model, _ = await open_model(reply, reply, **limits)
    task = make_task("go")
    done = await load_harness("terminus-lite").run(task, box, model)
    assert (done.status, done.metadata["turns"]) == (status, turns)
    ran = await box.exec(["test", "-e", "ran"], cwd=task.workdir)
    assert (ran.exit_code == 0) is (status == "context_exceeded")
