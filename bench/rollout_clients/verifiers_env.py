"""verifiers 0.1.14: a SingleTurnEnv with a one-function rubric, in process, its own openai client."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import verifiers as vf
from arguments import question, read_arguments
from datasets import Dataset
from measure import measure
from verifiers.types import ClientConfig


def correct(completion: list[dict[str, Any]], **kwargs: Any) -> float:
    return float(completion[-1]["content"] == "42")


async def run(env: vf.SingleTurnEnv, base_url: str, concurrency: int) -> int:
    results = await env.evaluate(
        ClientConfig(api_base_url=base_url, api_key_var="BENCH_API_KEY"),
        model="mock",
        max_concurrent=concurrency,
        on_progress=lambda *_: None,  # in place of a progress bar
    )
    return sum(output["reward"] == 1.0 for output in results["outputs"])


if __name__ == "__main__":
    arguments = read_arguments()
    os.environ["BENCH_API_KEY"] = "none"
    rows = [{"question": question(i), "answer": "42"} for i in range(arguments.rollouts)]
    env = vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[correct]))
    measure(
        lambda: asyncio.run(run(env, arguments.base_url, arguments.concurrency)),
        arguments.rollouts,
    )
