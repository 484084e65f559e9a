"""A trial that is cancelled, in whatever phase and however often: no box stays, no reward, and it is written down."""

from __future__ import annotations

import asyncio
import json

import pytest
from fake_boxes import FakeProvider
from test_trial import Agent, run

BOXES = {"start": 0, "fresh-tests": 2}
"""That were started, where it is not one."""


class HangingProvider(FakeProvider):
    """Of its boxes one never comes up."""

    async def start(self, request):
        if len(self.boxes) != self.hangs_at:
            return await super().start(request)
        self.marker.touch()
        return await asyncio.get_running_loop().create_future()


class HangingSetup(Agent):
    async def setup(self, sandbox):
        await sandbox.exec(["sh", "-c", self.command])


async def wait_for(marker, trial):
    while not marker.exists():
        assert not trial.done(), await trial
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "phase",
    ["start", "healthcheck", "setup", "agent", "collect", "tests", "fresh-start", "fresh-tests"],
)
@pytest.mark.parametrize("times", [1, 3])
async def test_no_box_and_no_reward_is_left_of_a_cancelled_trial(write_task, tmp_path, phase, times):
    marker = tmp_path / "reached"
    hang = f"touch {marker}; sleep 60"
    toml = {
        "healthcheck": f'[environment.healthcheck]\ncommand = "{hang}"',
        "collect": f'[[verifier.collect]]\ncommand = "{hang}"',
    }.get(phase, 'artifacts = ["/work"]' if phase.startswith("fresh") else "")
    files = {"tests/test.sh": f"#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n{hang}\n"}
    folder = write_task(toml, files=files if phase.endswith("tests") else None)
    provider = HangingProvider(tmp_path / "boxes")
    provider.marker, provider.hangs_at = marker, {"start": 0, "fresh-start": 1}.get(phase)
    harness = {"setup": HangingSetup(command=hang), "agent": Agent(command=hang)}.get(phase, Agent())
    options = {"verifier": "fresh"} if phase.startswith("fresh") else {}
    trial = asyncio.ensure_future(run(folder, provider, tmp_path, harness, **options))
    await wait_for(marker, trial)
    for _ in range(times):
        trial.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await trial
    assert len(provider.boxes) == BOXES.get(phase, 1)
    assert all(box.closed for box in provider.boxes)
    found = json.loads((tmp_path / "trials" / "t" / "result.json").read_text())
    assert (found["castform"]["status"], found["verifier_result"]) == ("cancelled", None)
    assert not list((tmp_path / "trials").rglob(".*"))
