"""Run a task's tests in a box and read what they decided.

What lay in the verifier's folder before is removed by root, and is looked for once more through the
provider's own way to files: a reward that was written before the tests ran is none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from castform.errors import UsageError
from castform.sandbox.contract import ExecResult
from castform.sandbox.errors import ExecTimeoutError, SandboxFileError
from castform.sandbox.scratch import open_scratch
from castform_harbor.box import TESTS, VERIFIER_LOGS, Box
from castform_harbor.errors import InfraError, VerifierError, VerifierTimeoutError
from castform_harbor.output import make_folder
from castform_harbor.rewards import JSON_FILE, MAX_REWARD_BYTES, TEXT_FILE, Rewards, read_rewards
from castform_harbor.task_files import LeavesOut, copy_selected

STDOUT_FILE = "test-stdout.txt"
MAX_STDOUT_BYTES = 1 << 20
"""Of the tests' output that is kept when all of it is too much: the tail."""

_RESET = (
    'if [ -L /logs ]; then rm -f /logs; fi; rm -rf -- "$@" && mkdir -p "$1" && chmod 777 "$1" || exit 3; '
    "[ ! -f /tests/test.sh ] || chmod a+x /tests/test.sh"
)
"""The mode of an image's own test.sh is what its author's checkout had."""
_TESTS_COMMAND = f"({TESTS}/test.sh) > {VERIFIER_LOGS}/{STDOUT_FILE} 2>&1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tests:
    """What is run, and how."""

    folders: Sequence[Path]
    """Uploaded to /tests, each over those before it; empty: the image holds them."""
    leaves_out: LeavesOut
    env: Mapping[str, str]
    user: str | None
    timeout_seconds: float
    shared: bool
    """Whether the agent worked in this box: what lies about may be planted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    rewards: Rewards
    exit_code: int
    """Of test.sh. It decides nothing."""
    warnings: tuple[str, ...] = ()


async def verify(box: Box, tests: Tests, target: Path, *, max_bytes: int) -> Verification:
    """Run the tests and return their rewards; `target` gets the verifier's folder.

    RewardError when they leave none to trust, VerifierTimeoutError, VerifierError when the folder
    cannot be cleared; SandboxError when the box fails.
    """
    make_folder(target)
    await clear_verifier(box, tests=bool(tests.folders) and not box.had_tests, looks=tests.shared)
    await _upload(box, tests)
    try:
        done = await box.run(
            _TESTS_COMMAND, user=tests.user, env=tests.env, timeout_seconds=tests.timeout_seconds
        )
    except ExecTimeoutError as error:
        await fetch_logs(box, VERIFIER_LOGS, target, max_bytes=max_bytes)
        raise VerifierTimeoutError(
            f"the tests took longer than {tests.timeout_seconds:g} s",
            hint="[verifier] timeout_sec says how long they may",
        ) from error
    warnings = await fetch_logs(box, VERIFIER_LOGS, target, max_bytes=max_bytes)
    rewards = read_rewards(target)
    return Verification(
        rewards=rewards,
        exit_code=done.exit_code,
        warnings=(*warnings, *rewards.warnings, *_describe_memory(done)),
    )


async def clear_verifier(box: Box, *, tests: bool, looks: bool) -> None:
    """Empty /logs/verifier, and with `tests` remove /tests. VerifierError when that fails.

    `looks`: see that nothing is there, by the provider's way to files: the box's own programs may lie.
    """
    try:
        await box.keep(_RESET, VERIFIER_LOGS, *([TESTS] if tests else []))
        if not looks:
            return
        with open_scratch("verifier") as work:
            copy = work / "copy"
            await box.sandbox.download(VERIFIER_LOGS, copy, max_bytes=MAX_REWARD_BYTES)
            left = sorted(path.name for path in copy.iterdir())
    except (InfraError, SandboxFileError) as error:
        raise VerifierError(f"{VERIFIER_LOGS} cannot be cleared: {error}") from error
    if left:
        raise VerifierError(f"{VERIFIER_LOGS} cannot be cleared: {', '.join(left[:5])} came back")


async def fetch_logs(box: Box, source: str, target: Path, *, max_bytes: int) -> list[str]:
    """Copy a log folder out of a box; of one that is too large the reward files and the tests' tail.

    Returns what is missing, in sentences. Raises SandboxGoneError.
    """
    try:
        await box.sandbox.download(source, target, max_bytes=max_bytes)
    except (SandboxFileError, UsageError) as error:  # no such folder, or a file in its place
        if source == VERIFIER_LOGS:
            await _fetch_small(box, target)
        return [f"{source} was not carried out whole: {error}"]
    return []


async def _fetch_small(box: Box, target: Path) -> None:
    make_folder(target)
    for name in (JSON_FILE, TEXT_FILE):
        try:
            data = await box.sandbox.read_file(f"{VERIFIER_LOGS}/{name}", max_bytes=MAX_REWARD_BYTES)
        except SandboxFileError:
            continue
        (target / name).write_bytes(data)
    with contextlib.suppress(ExecTimeoutError):
        tail = await box.sandbox.exec(
            ["tail", "-c", str(MAX_STDOUT_BYTES), f"{VERIFIER_LOGS}/{STDOUT_FILE}"],
            user="root",
            timeout_seconds=60,
            max_output_bytes=MAX_STDOUT_BYTES,
        )
        (target / STDOUT_FILE).write_bytes(tail.stdout)


async def _upload(box: Box, tests: Tests) -> None:
    if not tests.folders:
        return
    with open_scratch("tests") as work:
        copy = work / "tests"
        for folder in tests.folders:
            copy_selected(folder, copy, tests.leaves_out, script="test.sh")
        await box.sandbox.upload(copy, TESTS)


def _describe_memory(done: ExecResult) -> list[str]:
    return ["the box reached its memory limit while the tests ran"] if done.out_of_memory else []
