"""What plugin authors test with: the rules, a fake model, and faults to come across."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from castform.scripted_replies import Fault as Fault
    from castform.scripted_replies import RawReply as RawReply
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
    from castform.testing.mock_endpoint import MockEndpoint as MockEndpoint
    from castform.testing.tokenizer import FakeTokenizer as FakeTokenizer
    from castform.testing.troubles import at_random as at_random
    from castform.testing.troubles import context_full as context_full
    from castform.testing.troubles import cut_off as cut_off
    from castform.testing.troubles import every as every
    from castform.testing.troubles import garbled as garbled
    from castform.testing.troubles import in_order as in_order
    from castform.testing.troubles import late as late
    from castform.testing.troubles import rate_limited as rate_limited
    from castform.testing.troubles import server_error as server_error
    from castform.testing.troubles import slow_body as slow_body
    from castform.testing.troubles import truncated as truncated

_HOMES = {
    "castform.scripted_replies": ("Fault", "RawReply", "Reply", "ScriptedRequest", "ToolUse"),
    "castform.testing.fake_model": ("FakeModel",),
    "castform.testing.mock_endpoint": ("MockEndpoint",),
    "castform.testing.tokenizer": ("FakeTokenizer",),
    "castform.testing.troubles": (
        "at_random",
        "context_full",
        "cut_off",
        "every",
        "garbled",
        "in_order",
        "late",
        "rate_limited",
        "server_error",
        "slow_body",
        "truncated",
    ),
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
