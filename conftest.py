"""What a test leaves changed in the process, the tests after it run in: the precision of decimals is looked at."""

from __future__ import annotations

import decimal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _decimal_precision_stays() -> Iterator[None]:
    """Fail a test that changes how many digits decimals have, instead of some test after it."""
    before = decimal.getcontext().prec
    yield
    after, decimal.getcontext().prec = decimal.getcontext().prec, before
    assert after == before, f"the precision of decimals was {before} digits and is now {after}"
