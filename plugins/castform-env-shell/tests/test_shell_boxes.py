"""Shell tasks in boxes that isolate: solutions are paid, attacks are not, and nothing is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from castform_env_shell.boxes import NOTE, choose_provider
from castform_env_shell.replies import write_block

from castform.plugins import load_environment
from castform.sandbox.errors import MissingError
from castform.testing import FakeModel

BOXES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
]
IMAGES = {"docker": "castform/base:local", "bubblewrap": None}


async def choose(name: str, caplog: pytest.LogCaptureFixture) -> tuple[str, bool, list[str]]:
    """Return the provider's name, whether it isolates, and what the command line shows of its choice."""
    with caplog.at_level(NOTE, logger=choose_provider.__module__):
        provider, isolated = await choose_provider(name)
    await provider.aclose()
    shown = [record.getMessage() for record in caplog.records if record.name == choose_provider.__module__]
    return provider.name, isolated, shown


async def score_all(environment: Any, example: Any, replies: list[str]) -> list[Any]:
    async with FakeModel(lambda request: replies[int(request.session_id.rpartition("-")[2])]) as model:
        group = await model.run_group(environment, example, size=len(replies))
    return list(group.rollouts)


@pytest.mark.parametrize("sandbox", BOXES)
async def test_solutions_of_every_level_are_paid_in_full(sandbox: str) -> None:
    for level in ("easy", "medium", "hard"):
        args = {"sandbox": sandbox, "turns": 1, "warm_boxes": 1, "image": IMAGES[sandbox]}
        environment = load_environment(f"shell/{level}", args).environment
        example = list(await environment.create_dataset("eval", Path(), max_examples=3))[2]
        (rollout,) = await score_all(environment, example, [environment.gold(example)[0]["content"]])
        await environment.aclose()
        assert rollout.error is None and rollout.rewards == {"correct": 1.0, "touched": 1.0}


@pytest.mark.parametrize("sandbox", BOXES)
async def test_attacks_earn_nothing(sandbox: str, tmp_path: Path) -> None:
    args = {"sandbox": sandbox, "warm_boxes": 0, "command_seconds": 5.0, "image": IMAGES[sandbox]}
    environment = load_environment("shell/easy", args).environment
    (example,) = list(await environment.create_dataset("train", Path(), max_examples=1))
    (name,) = example.payload["goal"]["files"]
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    attacks = [
        f"ln -s /etc/hostname {name}",
        f"mkfifo {name}",
        f"echo harm > {outside}; rm -rf {tmp_path}",
        "find / -name '*solution*' -o -name 'gold*' 2>/dev/null | head -n 1; echo 1 > /reward.txt",
        f"(setsid sh -c 'while :; do rm -f {name}; done' &) ; sleep 60",
        f"head -c 20000000 /dev/zero > {name}",
    ]
    rollouts = await score_all(environment, example, [write_block(attack) for attack in attacks])
    await environment.aclose()
    for attack, rollout in zip(attacks, rollouts, strict=True):
        assert rollout.error is None, (attack, rollout.error)
        assert rollout.rewards == {"correct": 0.0, "touched": 0.0}, attack
    assert outside.read_text() == "untouched"


@pytest.mark.docker
async def test_auto_takes_docker_where_an_engine_answers_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown = ["shell tasks run in docker boxes (sandbox is 'auto')"]
    assert await choose("auto", caplog) == ("docker", True, shown)


@pytest.mark.bubblewrap
async def test_auto_says_what_it_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    name, isolated, (shown,) = await choose("auto", caplog)
    assert (name, isolated) == ("bubblewrap", True)
    assert shown.startswith("shell tasks run in bubblewrap boxes (sandbox is 'auto'; docker: ")


async def test_a_provider_that_was_named_needs_no_note(caplog: pytest.LogCaptureFixture) -> None:
    assert await choose("process", caplog) == ("process", False, [])


async def test_auto_never_falls_back_to_running_unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingError, match="no sandbox works here") as raised:
        await choose_provider("auto")
    assert "docker: " in str(raised.value) and "bubblewrap: " in str(raised.value)
    assert "sandbox = 'process'" in (raised.value.hint or "")


@pytest.mark.parametrize("sandbox", BOXES)
async def test_an_environment_whose_boxes_start_is_ready_and_holds_none(sandbox: str) -> None:
    environment = load_environment("shell/easy", {"sandbox": sandbox, "image": IMAGES[sandbox]}).environment
    await environment.check_ready()
    assert environment._boxes.get()._pool is None
    await environment.aclose()


async def test_without_a_sandbox_no_rollout_could_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    environment = load_environment("shell/easy", {"sandbox": "docker"}).environment
    with pytest.raises(MissingError, match="No such file") as caught:
        await environment.check_ready()
    await environment.aclose()
    assert "docker info" in str(caught.value.hint)
