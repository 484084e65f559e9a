"""What of a Dockerfile is not done here, told before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from castform.sandbox.errors import UsageError
from castform_sandbox_bubblewrap.dockerfile import Instruction, split_words

IGNORED = frozenset({"LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK"})
"""They say nothing about files or how commands run; a task's health check is its runner's affair."""
_DONE = frozenset(
    {"FROM", "ARG", "ENV", "WORKDIR", "USER", "RUN", "COPY", "ADD", "CMD", "ENTRYPOINT", "SHELL", "VOLUME"}
)
_ROOT = ("root", "0", "root:root", "0:0")
_COPY_FLAGS = frozenset({"chmod", "chown", "link"})
_SOURCES_ELSEWHERE = ("http://", "https://", "git@", "git://", "ssh://", "ftp://")


def check_instructions(lines: Sequence[Instruction], *, users: bool) -> None:
    """Raise UsageError for the first instruction that cannot be honoured. `users`: other users than root can be."""
    stages = [line for line in lines if line.word == "FROM"]
    if not stages:
        raise UsageError("the Dockerfile has no FROM line")
    if len(stages) > 1:
        raise stages[1].refuse("builds of several stages are not done by bubblewrap")
    before = [line for line in lines[: lines.index(stages[0])] if line.word != "ARG"]
    if before:
        raise before[0].refuse("only ARG may stand before FROM")
    for line in lines:
        if line.word not in _DONE and line.word not in IGNORED:
            raise line.refuse("bubblewrap does not know this instruction")
        if line.word in ("COPY", "ADD"):
            _check_copy(line, users=users)
        elif line.word == "RUN":
            _check_run(line)
        elif line.word == "USER" and not users and line.rest not in _ROOT:
            raise line.refuse("commands run as root of the box only, unless castform runs as root")
        elif line.word == "SHELL" and not line.exec_form():
            raise line.refuse('a shell is written as ["program", "argument"]')


def read_mode(line: Instruction) -> int | None:
    """Return the mode that `--chmod` gives, None without one."""
    text = dict(line.flags).get("chmod")
    if text is None:
        return None
    try:
        return int(text, 8)
    except ValueError:
        raise line.refuse(f"--chmod={text} is no octal number") from None


def _check_copy(line: Instruction, *, users: bool) -> None:
    flags = dict(line.flags)
    if "from" in flags:
        raise line.refuse(f"--from={flags['from']} takes files of another image, which there is none of")
    unknown = sorted(set(flags) - _COPY_FLAGS)
    if unknown:
        raise line.refuse(f"--{unknown[0]} is not done by bubblewrap")
    if "chown" in flags and not users and flags["chown"] not in _ROOT:
        raise line.refuse("files belong to root of the box only, unless castform runs as root")
    read_mode(line)
    words = line.exec_form() or split_words(line.rest)
    if len(words) < 2:
        raise line.refuse("it takes a source and a destination")
    for word in words[:-1]:
        if line.word == "ADD" and (word.startswith(_SOURCES_ELSEWHERE) or word.endswith(".git")):
            raise line.refuse(f"{word} is fetched over the network, which builds here have none of")


def _check_run(line: Instruction) -> None:
    if not line.rest:
        raise line.refuse("it runs nothing")
    for name, value in line.flags:
        if name == "mount" and "type=cache" not in value and "type=tmpfs" not in value:
            raise line.refuse(f"--mount={value} is not done by bubblewrap")
        if name not in ("mount", "network") or (name == "network" and value == "host"):
            raise line.refuse(f"--{name}={value} is not done by bubblewrap")
