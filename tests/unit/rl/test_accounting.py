"""Every rollout that is issued ends exactly once, and the counts say how."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castform_trainer.rl.accounting import Disposition, Ledger

FATES = st.sampled_from(
    [
        Disposition(fate="trained"),
        Disposition(fate="stale"),
        Disposition(fate="filtered", reason="no_signal"),
        Disposition(fate="failed", reason="model_error"),
    ]
)


@given(st.lists(st.tuples(FATES, st.booleans()), max_size=40))
def test_issued_is_the_sum_of_all_ends_and_what_is_pending(ends):
    ledger = Ledger()
    for number, (disposition, settles) in enumerate(ends):
        ledger.issue([str(number)])
        if settles:
            ledger.settle({str(number): disposition})
        ledger.check()
    counts = ledger.as_dict()
    assert counts["issued"] == len(ends)
    assert counts["issued"] == sum(counts[f] for f in ("trained", "filtered", "failed", "stale", "pending"))
    assert counts["pending"] == sum(not settles for _, settles in ends)


def test_a_rollout_cannot_end_twice_nor_without_having_begun():
    ledger = Ledger()
    ledger.issue(["a"])
    ledger.settle({"a": Disposition(fate="trained")})
    with pytest.raises(ValueError, match="not running"):
        ledger.settle({"a": Disposition(fate="stale")})
    with pytest.raises(ValueError, match="not running"):
        ledger.settle({"b": Disposition(fate="stale")})


def test_a_rollout_cannot_be_issued_while_it_runs():
    ledger = Ledger()
    ledger.issue(["a"])
    with pytest.raises(ValueError, match="running already"):
        ledger.issue(["a"])


def test_lost_rollouts_are_a_bug_that_raises():
    ledger = Ledger(issued=3)
    with pytest.raises(RuntimeError, match="not conserved"):
        ledger.check()


def test_a_copy_is_independent_and_a_saved_ledger_reads_back():
    ledger = Ledger()
    ledger.issue(["a", "b"])
    ledger.settle({"a": Disposition(fate="failed", reason="tool_error")})
    copy = ledger.copy()
    copy.settle({"b": Disposition(fate="trained")})
    assert ledger.as_dict()["pending"] == 1
    assert copy.as_dict()["by_reason"] == {"failed(tool_error)": 1, "trained": 1}
    assert Ledger.from_dict(copy.as_dict()) == copy
