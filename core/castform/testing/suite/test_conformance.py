"""One test a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from castform.testing.conformance.examined import Examined
    from castform.testing.conformance.rule import Rule


def test_rule(rule: Rule, examined: Examined, accept: Mapping[str, str]) -> None:
    from castform.testing.conformance.run import check_rule

    result = check_rule(rule, examined, accept)
    if result.state == "not_checked":
        pytest.skip(f"not checked: {result.reason}")
    if result.state == "accepted":
        pytest.xfail(f"accepted: {result.reason}")
    assert result.state == "held", result.describe()
