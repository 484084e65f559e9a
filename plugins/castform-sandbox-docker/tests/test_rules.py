"""castform's own self-check of sandbox providers, in both ways to see into boxes."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence

import pytest

from castform.sandbox.contract import Sandbox
from castform.sandbox.owner import PREFIX, current_owner
from castform.testing.sandboxes import make_rule_tests

pytestmark = pytest.mark.docker


async def kill_container(box: Sandbox) -> None:
    await asyncio.to_thread(subprocess.run, ["docker", "kill", box.id], check=True, capture_output=True)


async def list_left() -> Sequence[str]:
    own = f"label={PREFIX}pid={current_owner().pid}"
    words = ["docker", "ps", "--all", "--format", "{{.Names}}", "--filter", own]
    done = await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True, text=True)
    return done.stdout.split()


test_rule = make_rule_tests(
    "docker", image="castform/base:local", end_from_outside=kill_container, list_left=list_left
)
test_rule_seen_from_inside = make_rule_tests(
    "docker",
    image="castform/base:local",
    options={"outside_view": False},
    end_from_outside=kill_container,
    only=["background", "ended-from-outside", "limit-pids", "network-allowlist", "timeout"],
)
