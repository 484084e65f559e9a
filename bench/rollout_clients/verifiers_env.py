"""verifiers 0.1.14: a SingleTurnEnv with a one-function rubric, in process, its own openai client."""

from __future__ import annotations

import asyncio
from typing import Any

import verifiers as vf
from arguments import question, read_arguments
from datasets import Dataset
from measure import measure


def correct(completion: list[dict[str, Any]], **kwargs: Any) -> float:
    return float(completion[-1]["content"] == "42")


async def run(env: vf.SingleTurnEnv, base_url: str, rollouts: int, concurrency: int) -> int:
    raise NotImplementedError


if __name__ == "__main__":
    arguments = read_arguments()
    rows = [{"question": question(i), "answer": "42"} for i in range(arguments.rollouts)]
    env = vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[correct]))
    measure(
        lambda: asyncio.run(run(env, arguments.base_url, arguments.rollouts, arguments.concurrency)),
        arguments.rollouts,
    )
