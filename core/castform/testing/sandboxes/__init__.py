"""The self-check of sandbox providers: rules that hold for every one, as functions, tests and a command.

`test_rule = make_rule_tests("mine", image="…")` in a test file is all that a provider's author writes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from castform.testing.sandboxes.pytest_rules import make_rule_tests as make_rule_tests
    from castform.testing.sandboxes.rule import BrokenRuleError as BrokenRuleError
    from castform.testing.sandboxes.rule import NotCheckedError as NotCheckedError
    from castform.testing.sandboxes.rule import RuleResult as RuleResult
    from castform.testing.sandboxes.rule import SandboxReport as SandboxReport
    from castform.testing.sandboxes.rule import SandboxRule as SandboxRule
    from castform.testing.sandboxes.run import check_provider as check_provider
    from castform.testing.sandboxes.run import examine as examine

_HOMES = {
    "pytest_rules": ("make_rule_tests",),
    "rule": ("BrokenRuleError", "NotCheckedError", "RuleResult", "SandboxReport", "SandboxRule"),
    "run": ("check_provider", "examine"),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:  # whatever the submodule holds under this name
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
