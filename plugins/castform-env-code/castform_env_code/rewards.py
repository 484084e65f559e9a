"""Two components: does the code run and define the function, and does the function pass the hidden tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from benchmax.rewards import Completion, extract_completion_text
from castform_env_code.candidate import CandidateRun, Layers, Limits, Returned, run_candidate
from castform_env_code.comparing import is_same
from castform_env_code.replies import read_code
from castform_env_code.tasks import load_tasks
from castform_env_code.tasks.task import Test, chance_share, make_hidden

if TYPE_CHECKING:
    from castform_env_code.boxes import CandidateBoxes

Scoring = Literal["all", "share"]


async def score_reply(
    reply: str,
    task: str,
    *,
    tests: int,
    seed: int,
    scoring: Scoring,
    limits: Limits | None = None,
    layers: Layers | None = None,
    boxes: CandidateBoxes | None = None,
) -> dict[str, float]:
    """Return both components of a reply to a task. With `boxes` its code runs in one of them.

    ValueError: there is no such task. RolloutFailure (`sandbox_error`): the code could not be run.
    """
    if task not in load_tasks():
        raise ValueError(f"no task is called {task!r}")
    source = read_code(reply)
    if source is None:
        return {"runs": 0.0, "passed": 0.0}
    hidden = make_hidden(load_tasks()[task], count=tests, seed=seed)
    calls = [test.arguments for test in hidden]
    if boxes is None:
        run = await run_candidate(source, task, calls, limits=limits, layers=layers)
    else:
        run = await boxes.run(source, task, calls, limits=limits or Limits())
    return {"runs": float(run.defined), "passed": passed_reward(run, hidden, scoring)}


def passed_reward(run: CandidateRun, hidden: Sequence[Test], scoring: Scoring) -> float:
    """Return 1 when every hidden test passes, else 0; or with "share" the share that does, in [0, 1].

    From the share is taken what always the same value, or an argument as it is, would have got.
    """
    passed = [
        isinstance(outcome, Returned) and is_same(outcome.value, test.expected)
        for outcome, test in zip(run.outcomes, hidden, strict=False)  # a candidate that died has fewer
    ]
    if scoring == "all":
        return float(len(passed) == len(hidden) and all(passed))
    chance = chance_share(hidden)
    if chance >= 1:
        return float(sum(passed) == len(hidden))
    return max(0.0, (sum(passed) / len(hidden) - chance) / (1 - chance))


# Any: whatever other fields the example has
async def passed(completion: Completion, task: str, tests: int, tests_seed: int, **_: Any) -> float:
    """Return 1 when the code of a completion passes all hidden tests of the task, else 0. For composed environments."""
    reply = extract_completion_text(completion)
    return (await score_reply(reply, task, tests=tests, seed=tests_seed, scoring="all"))["passed"]


async def passed_share(completion: Completion, task: str, tests: int, tests_seed: int, **_: Any) -> float:
    """Return the share of the hidden tests that pass, above chance. For composed environments."""
    reply = extract_completion_text(completion)
    return (await score_reply(reply, task, tests=tests, seed=tests_seed, scoring="share"))["passed"]


async def runs(completion: Completion, task: str, tests: int, tests_seed: int, **_: Any) -> float:
    """Return 1 when the code of a completion runs and defines the function, else 0. For composed environments."""
    reply = extract_completion_text(completion)
    return (await score_reply(reply, task, tests=tests, seed=tests_seed, scoring="all"))["runs"]
