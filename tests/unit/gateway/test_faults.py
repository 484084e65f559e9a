"""Requests that the engine fails, beside equal ones that it answers: which of them is made good."""

from __future__ import annotations

import asyncio

from castform_trainer.engines.contract import Generation

END = 2
GO = {"messages": [{"role": "user", "content": "go"}]}
RETRY = {"x-stainless-retry-count": "1"}
ANSWER = Generation(ids=(74, END), logprobs=(-0.5, -0.25), finish_reason="stop", version=0)


class OpenEngine:
    """Every reply is left open until the test ends it."""

    name = "open"
    max_context_tokens = 1000
    eos_token_ids = (END,)

    def __init__(self):
        self.open = []

    async def generate(self, prompt_ids, sampling, *, version=None):
        self.open.append(asyncio.get_running_loop().create_future())
        return await self.open[-1]

    async def end(self, place, outcome):
        if isinstance(outcome, Exception):
            self.open[place].set_exception(outcome)
        else:
            self.open[place].set_result(outcome)


async def test_a_try_that_failed_beside_an_equal_one_is_made_good_by_its_own_retry_alone(make_bench):
    engine = OpenEngine()
    bench = await make_bench(engine=engine)
    grant = await bench.open()

    async def ask(headers=None):
        """Return a request that the engine has begun with."""
        number = len(engine.open)
        asking = asyncio.create_task(bench.chat(grant, GO, headers=headers))
        while len(engine.open) == number and not asking.done():
            await bench.calls()
        return asking

    failed, answered = await ask(), await ask()
    await bench.gateway.submit(engine.end(0, RuntimeError("boom")))
    assert (await failed)[0] == 500
    await bench.gateway.submit(engine.end(1, ANSWER))
    status, other = await answered
    assert status == 200
    calls = await bench.calls()
    assert [call.finish_reason for call in calls] == ["stop", "error"] and "boom" in calls[1].error
    retry = await ask(RETRY)
    assert len(engine.open) == 3
    await bench.gateway.submit(engine.end(2, ANSWER))
    status, own = await retry
    assert status == 200 and own["id"] != other["id"]
    assert [call.finish_reason for call in await bench.calls()] == ["stop", "stop"]
    status, again = await bench.chat(grant, GO, headers=RETRY)
    assert (status, again["id"], len(engine.open)) == (200, own["id"], 3)
