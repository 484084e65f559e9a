"""Shell tasks in boxes that isolate: solutions are paid, attacks are not, and nothing is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from castform_env_shell.boxes import choose_provider
from castform_env_shell.replies import write_block

from castform.plugins import load_environment
from castform.sandbox.errors import MissingError
from castform.testing import FakeModel

BOXES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
]
IMAGES = {"docker": "castform/base:local", "bubblewrap": None}


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
async def test_auto_takes_docker_where_an_engine_answers() -> None:
    provider, isolated = await choose_provider("auto")
    await provider.aclose()
    assert (provider.name, isolated) == ("docker", True)


async def test_auto_never_falls_back_to_running_unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingError, match="no sandbox works here") as raised:
        await choose_provider("auto")
    assert "docker: " in str(raised.value) and "bubblewrap: " in str(raised.value)
    assert "sandbox = 'process'" in (raised.value.hint or "")
