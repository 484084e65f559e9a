"""The rules that every provider of sandboxes keeps, in the order in which they are checked."""

from __future__ import annotations

from castform.testing.sandboxes.rule import SandboxRule
from castform.testing.sandboxes.rules import (
    commands,
    endings,
    files,
    host,
    images,
    limits,
    model,
    network,
    output,
    reaping,
)

RULES: tuple[SandboxRule, ...] = (
    *commands.RULES,
    *output.RULES,
    *files.RULES,
    *host.RULES,
    *model.RULES,
    *network.RULES,
    *limits.RULES,
    *images.RULES,
    *endings.RULES,
    *reaping.RULES,
)
