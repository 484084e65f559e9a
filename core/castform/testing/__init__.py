"""What plugin authors test with: the rules, a fake model, and faults to come across."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from castform.scripted_replies import Fault as Fault
    from castform.scripted_replies import Reply as Reply
    from castform.scripted_replies import ScriptedRequest as ScriptedRequest
    from castform.scripted_replies import ToolUse as ToolUse
    from castform.testing.conformance import Breach as Breach
    from castform.testing.conformance import ConformanceReport as ConformanceReport
    from castform.testing.conformance import NotCheckedWarning as NotCheckedWarning
    from castform.testing.conformance import RuleResult as RuleResult
    from castform.testing.conformance import assert_conforms as assert_conforms
    from castform.testing.conformance import check_conformance as check_conformance
    from castform.testing.fake_model import FakeModel as FakeModel

_HOMES = {
    "castform.scripted_replies": ("Fault", "Reply", "ScriptedRequest", "ToolUse"),
    "castform.testing.fake_model": ("FakeModel",),
    "castform.testing.conformance": (
        "Breach",
        "ConformanceReport",
        "NotCheckedWarning",
        "RuleResult",
        "assert_conforms",
        "check_conformance",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:  # whatever the submodule holds under this name
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
