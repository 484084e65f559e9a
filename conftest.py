"""What all tests of a process share: what one leaves changed, the others run in, so decimals' precision is looked at.

Every test module is imported before the first test runs, torch and all. Garbage collections, which many
tests and every conformance check ask for, would walk through that each time, so it is put aside once. Examples of
hypothesis have no deadline: how long one takes is the machine's affair.
"""

from __future__ import annotations

import decimal
import gc
from collections.abc import Iterator

import hypothesis
import pytest

hypothesis.settings.register_profile("castform", deadline=None)
hypothesis.settings.load_profile("castform")


def pytest_collection_finish() -> None:
    """Put what the imports left out of the collector's sight."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _decimal_precision_stays() -> Iterator[None]:
    """Fail a test that changes how many digits decimals have, instead of some test after it."""
    before = decimal.getcontext().prec
    yield
    after, decimal.getcontext().prec = decimal.getcontext().prec, before
    assert after == before, f"the precision of decimals was {before} digits and is now {after}"
