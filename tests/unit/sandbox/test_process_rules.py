"""The `process` provider keeps every rule that it claims, and claims none that it does not keep."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from castform.sandbox.contract import Sandbox
from castform.testing.sandboxes.rules import RULES
from castform.testing.sandboxes.run import Examination, examine

NOT_CLAIMED = {
    "users",
    "read-as-root",
    "host-files",
    "host-processes",
    "host-switches",
    "connect-other-box",
    "network-none",
    "network-allowlist",
    "network-changes",
    "network-other-boxes",
    "fork-bomb",
    "limit-cpus",
    "image-build",
    "image-build-fails",
    "image-missing",
}


@pytest.fixture(scope="module")
def examination(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examination]:
    root = tmp_path_factory.mktemp("boxes")

    async def end_from_outside(box: Sandbox) -> None:
        shutil.rmtree(root / box.id)

    async def list_left() -> Sequence[str]:
        return [path.name for path in root.iterdir()]

    with examine(
        "process", options={"root": str(root)}, end_from_outside=end_from_outside, list_left=list_left
    ) as it:
        yield it
    assert list(Path(root).iterdir()) == []


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_the_process_provider_keeps_what_it_claims(rule, examination):
    result = examination.check(rule)
    expected = "not_claimed" if rule.name in NOT_CLAIMED else "held"
    assert (result.state, result.reason if expected == "held" else "") == (expected, "")
