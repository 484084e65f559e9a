"""The model's code in boxes: rewards are those of the confined process, whatever it tries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from castform_env_code.boxes import CandidateBoxes
from castform_env_code.candidate import CandidateRun, Limits, Returned, run_candidate

from benchmax.envs import RolloutFailure
from castform.plugins import load_environment
from castform.sandbox.errors import MissingError
from castform.testing import FakeModel

LIMITS = Limits(cpu_seconds=1, wall_seconds=20)
SOURCES = {
    "right": "def f(n):\n    return n + 1",
    "raises": "def f(n):\n    return 1 // (n - n)",
    "no function": "g = 1",
    "leaves": "import os\ndef f(n):\n    os._exit(0)",
    "leaves as if it were not there": "import os\ndef f(n):\n    os._exit(127)",
    "leaves as if it were killed": "import os\nos._exit(201)",
    "opens a file": "def f(n):\n    return open('/etc/passwd').read()",
    "endless": "def f(n):\n    while True: pass",
    "floods": "def f(n):\n    return 'x' * 900_000",
    "too long": "#" * 60_000,
}
FEW = ("right", "leaves", "floods")
IMAGE = "castform/base:local"


def in_boxes(sandbox: str, sources: dict[str, str], image: str | None) -> dict[str, CandidateRun]:
    async def run_all() -> dict[str, CandidateRun]:
        boxes = CandidateBoxes(sandbox, image=image, warm_boxes=0, memory_bytes=256 << 20)
        try:
            return {
                name: await boxes.run(source, "f", [(1,), (2,)], limits=LIMITS)
                for name, source in sources.items()
            }
        finally:
            await boxes.aclose()

    return asyncio.run(run_all())


def in_processes(sources: dict[str, str]) -> dict[str, CandidateRun]:
    async def run_all() -> dict[str, CandidateRun]:
        return {
            name: await run_candidate(source, "f", [(1,), (2,)], limits=LIMITS)
            for name, source in sources.items()
        }

    return asyncio.run(run_all())


def judged(run: CandidateRun) -> tuple[Any, ...]:
    return run.defined, [isinstance(o, Returned) and o.value for o in run.outcomes]


def check_same_judgement(sandbox: str, image: str | None = None, *, names: Sequence[str]) -> None:
    sources = {name: SOURCES[name] for name in names}
    boxed, plain = in_boxes(sandbox, sources, image), in_processes(sources)
    for name in sources.keys() - {"floods"}:
        assert judged(boxed[name]) == judged(plain[name]), name
    assert boxed["right"].confined  # the kernel's filter holds inside the box too
    assert boxed["floods"].ending == plain["floods"].ending == "flood"


@pytest.mark.slow
def test_a_box_judges_code_as_the_confined_process_does() -> None:
    check_same_judgement("process", names=list(SOURCES))


@pytest.mark.bubblewrap
def test_a_bubblewrap_box_judges_code_as_the_confined_process_does() -> None:
    check_same_judgement("bubblewrap", names=FEW)


@pytest.mark.docker
def test_a_docker_box_judges_code_as_the_confined_process_does() -> None:
    check_same_judgement("docker", IMAGE, names=FEW)


@pytest.mark.docker
async def test_the_environment_pays_gold_in_docker_boxes() -> None:
    args = {"sandbox": "docker", "warm_boxes": 1, "image": IMAGE}
    environment = load_environment("code/easy", args).environment
    (example,) = list(await environment.create_dataset("train", Path(), max_examples=1))
    replies = [environment.gold(example), "```python\nimport os\nos.system('reboot')\n```"]
    async with FakeModel(lambda request: replies[int(request.session_id.rpartition("-")[2])]) as model:
        group = await model.run_group(environment, example, size=2)
    await environment.aclose()
    assert [(r.rewards["runs"], r.rewards["passed"]) for r in group.rollouts] == [(1, 1), (0, 0)]


@pytest.mark.docker
def test_an_image_without_a_whole_python_fails_the_rollout_and_pays_nothing() -> None:
    with pytest.raises(RolloutFailure, match="the box has no whole python3"):
        in_boxes("docker", {"right": SOURCES["right"]}, "castform/busybox:local")


@pytest.mark.docker
def test_a_default_image_that_cannot_be_had_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castform_env_code.boxes.IMAGE", "127.0.0.1:1/nosuch:local")
    with pytest.raises(RolloutFailure, match=r"nosuch:local cannot be fetched.*--set env\.image=NAME"):
        in_boxes("docker", {"right": SOURCES["right"]}, None)


async def test_a_provider_that_is_not_there_fails_the_rollout_and_pays_nothing() -> None:
    environment = load_environment("code/easy", {"sandbox": "nosuch"}).environment
    (example,) = list(await environment.create_dataset("train", Path(), max_examples=1))
    async with FakeModel(lambda request: environment.gold(example)) as model:
        group = await model.run_group(environment, example)
    await environment.aclose()
    assert group.rollouts[0].score is None and "'nosuch'" in (group.rollouts[0].error or "")


async def test_a_sandbox_that_does_not_work_here_is_missing_before_any_code_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    boxed = load_environment("code/easy", {"sandbox": "docker"}).environment
    with pytest.raises(MissingError, match="No such file"):
        await boxed.check_ready()
    await boxed.aclose()
    await load_environment("code/easy").environment.check_ready()
