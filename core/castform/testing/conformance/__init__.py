"""The rules that every environment keeps, and the way to check one against them."""

from __future__ import annotations

from castform.testing.conformance.rule import (
    Breach,
    ConformanceReport,
    NotCheckedError,
    Rule,
    RuleResult,
)
from castform.testing.conformance.rules import RULES
from castform.testing.conformance.run import NotCheckedWarning, assert_conforms, check_conformance

__all__ = [
    "RULES",
    "Breach",
    "ConformanceReport",
    "NotCheckedError",
    "NotCheckedWarning",
    "Rule",
    "RuleResult",
    "assert_conforms",
    "check_conformance",
]
