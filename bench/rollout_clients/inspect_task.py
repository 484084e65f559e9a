"""inspect-ai: generate() and an exact-match scorer through its openai provider, its log on, as it comes."""

from __future__ import annotations

import os
import tempfile

from arguments import question, read_arguments
from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import exact
from inspect_ai.solver import generate
from measure import measure


def run(task: Task, base_url: str, concurrency: int, log_dir: str) -> int:
    (log,) = run_eval(
        task,
        model="openai/mock",
        model_base_url=base_url,
        model_args={"responses_api": False},
        max_connections=concurrency,
        max_samples=concurrency,
        log_dir=log_dir,
        display="none",
    )
    assert log.results is not None, log.error
    scored = log.results.scores[0]
    return round(scored.metrics["mean"].value * (scored.scored_samples or 0))


if __name__ == "__main__":
    arguments = read_arguments()
    os.environ["OPENAI_API_KEY"] = "none"
    samples = [Sample(input=question(i), target="42") for i in range(arguments.rollouts)]
    task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=exact())
    with tempfile.TemporaryDirectory() as folder:
        measure(
            lambda: run(task, arguments.base_url, arguments.concurrency, folder),
            arguments.rollouts,
        )
