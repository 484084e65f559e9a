"""Each of these providers breaks a promise, and the rule about it says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from castform.sandbox.contract import ExecResult, ModelEndpoint
from castform.sandbox.process.box import ProcessBox
from castform.sandbox.process.provider import ProcessProvider
from castform.sandbox.process.tree import kill_members
from castform.testing.sandboxes.rule import BrokenRuleError
from castform.testing.sandboxes.rules import RULES
from castform.testing.sandboxes.subject import Examined, Subject

RULE = {rule.name: rule for rule in RULES}


class Boastful(ProcessProvider):
    """Claims what it does not do."""

    async def check(self):
        return dataclasses.replace(
            await super().check(), isolated=True, networks=frozenset({"none"}), pids="enforced"
        )


async def examine(provider: ProcessProvider, folder: Path, rule: str) -> None:
    examined = Examined(Subject(name="process"), provider, await provider.check(), folder)
    try:
        await RULE[rule].check(examined)
    finally:
        await examined.aclose()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("host-files", "a file of this machine is read from inside"),
        ("host-processes", "processes of this machine are seen"),
        ("network-none", "what answers under network none"),
        ("connect-other-box", "requests of another box that reached"),
    ],
)
async def test_a_provider_that_boasts_of_isolation_is_found_out(rule, words, tmp_path):
    provider = Boastful(root=str(tmp_path / "boxes"))
    assert RULE[rule].find_disclaimer(await provider.check()) is None
    with pytest.raises(BrokenRuleError, match=words):
        await examine(provider, tmp_path, rule)


class Leaky(ProcessBox):
    """Tells the model's own key and connects without a relay."""

    async def connect(self, endpoint: ModelEndpoint) -> ModelEndpoint:
        return endpoint


class Verbose(ProcessBox):
    """Gives variables on the command line."""

    async def exec(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, **rest
    ) -> ExecResult:
        words = " ".join(f"{name}={value}" for name, value in (env or {}).items()) or "sh"
        return await super().exec(["sh", "-c", '"$@"; exit $?', words, *command], env=env, **rest)


def resolve(path: str) -> str:
    return str(Path(path).resolve())


class Trusting(ProcessBox):
    """Follows links."""

    async def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        return await super().read_file(resolve(path), max_bytes=max_bytes)

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        await super().write_file(resolve(path), data, mode=mode, user=user)


class Blunt(ProcessBox):
    """Cuts output at its beginning and forgets how much there was."""

    async def exec(self, command: Sequence[str], **rest) -> ExecResult:
        most = rest.pop("max_output_bytes", 1 << 20)
        done = await super().exec(command, max_output_bytes=128 << 20, **rest)
        return dataclasses.replace(done, stdout=done.stdout[:most])


@pytest.mark.parametrize(
    ("kind", "rule", "words"),
    [
        (Leaky, "connect", "the key inside is the real one"),
        (Leaky, "connect-one-session", "paths that were reached outside of the session"),
        (Leaky, "connect-replaces", "the model that was connected before is still reachable"),
        (Verbose, "env-hidden", "processes that show a variable's value"),
        (Trusting, "read-refused", "reading a link went well"),
        (Trusting, "write-replaces-link", "what the link pointed to"),
        (Blunt, "big-output", "bytes dropped"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
async def test_a_broken_promise_is_found(kind, rule, words, tmp_path, monkeypatch):
    monkeypatch.setattr("castform.sandbox.process.provider.ProcessBox", kind)
    provider = ProcessProvider(root=str(tmp_path / "boxes"))
    with pytest.raises(BrokenRuleError, match=words):
        await examine(provider, tmp_path, rule)


async def test_a_timeout_that_ends_the_first_session_only_is_found(tmp_path, monkeypatch):
    marks = []

    async def kill_nothing(mark: str, *, root: int | None = None) -> None:
        marks.append(mark)

    monkeypatch.setattr("castform.sandbox.process.box.kill_members", kill_nothing)
    provider = ProcessProvider(root=str(tmp_path / "boxes"))
    try:
        with pytest.raises(BrokenRuleError, match="what descendants write after the timeout"):
            await examine(provider, tmp_path, "timeout")
    finally:
        for mark in marks:
            await kill_members(mark)
