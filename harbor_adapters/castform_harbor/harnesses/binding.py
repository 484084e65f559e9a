"""What the bindings of agent programs share: their options, and how one becomes a command template."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from castform.errors import ConfigError
from castform.harness import make_section
from castform.harness.command import CommandHarness, add_nothing
from castform.harness.launch import Extend
from castform.section import Section


class AgentOptions(Section):
    """Options of every binding."""

    version: str | None = None
    """Of the package, where it has to be installed; by default the newest."""
    install: bool = True
    """Whether setup installs the program where the box has none. That needs a network."""
    program: str | None = None
    """Path of the program in the box, where it is not on its PATH."""
    timeout_seconds: float = Field(default=3600.0, gt=0)
    """Where the task sets no limit."""
    max_turns: int | None = Field(default=None, ge=1)
    """Most replies of the model, where the program has such a limit."""
    args: tuple[str, ...] = ()
    """More arguments of the program."""
    env: dict[str, str] = Field(default_factory=dict)
    """More variables of the program; placeholders are filled in."""


def make_binding(
    name: str,
    options: AgentOptions,
    *,
    program: str,
    package: str,
    source: Literal["npm", "pip"],
    command: Sequence[str],
    env: Mapping[str, str],
    turns: Sequence[str] | None = None,
    check: str | None = None,
    extend: Extend = add_nothing,
    **more: Any,  # further keys of [harness]
) -> CommandHarness:
    """Return the harness of a program. `command` are its arguments; those of the options come after the first.

    `turns` are the arguments that limit the model's replies to `{N}`; None where there are none.
    """
    if options.max_turns is not None and turns is None:
        raise ConfigError(
            f"{name} has no limit of turns, and max_turns is {options.max_turns}",
            hint="leave it out; timeout_seconds bounds the program",
        )
    limits = [word.replace("{N}", str(options.max_turns)) for word in turns or () if options.max_turns]
    where = options.program or program
    python = where if program == "python3" else "python3"
    section = make_section(
        {
            "name": name,
            "version": options.version,
            "command": [where, *command[:1], *limits, *options.args, *command[1:]],
            "env": {**env, **options.env},
            "check": check or f"command -v {shlex.quote(where)}",
            "install": install_scripts(package, source, options.version, python=python)
            if options.install
            else (),
            "timeout_seconds": options.timeout_seconds,
            **more,
        },
        where=f"the binding of {name}",
    )
    return CommandHarness(section=section, extend=extend)


def install_scripts(
    package: str, source: Literal["npm", "pip"], version: str | None, *, python: str
) -> tuple[str, ...]:
    """Return how a package gets into a box that has node or Python, of which `python` is the program."""
    if source == "npm":
        name = shlex.quote(f"{package}@{version or 'latest'}")
        return (f"npm install --global --no-audit --no-fund --silent {name}",)
    name = shlex.quote(f"{package}=={version}" if version else package)
    pip = f"{shlex.quote(python)} -m pip install --quiet"
    return (f"{pip} {name} || {pip} --break-system-packages {name}",)


def copy_skills(target: str) -> str:
    """Return a script that copies the task's skills, if it has any, to where an agent looks for its own."""
    return f"if [ -d {{skills_dir}} ]; then mkdir -p {target} && cp -R {{skills_dir}}/. {target}/; fi"
