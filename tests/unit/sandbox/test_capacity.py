"""How many boxes fit, and by what."""

from __future__ import annotations

import pytest

from castform.errors import UsageError
from castform.sandbox.capacity import check_fit, choose_tightest, measure_free_memory, measure_machine
from castform.sandbox.contract import Capacity, Limits


def test_the_tightest_bound_decides_and_says_so(tmp_path):
    free = measure_free_memory()
    assert free is not None
    much = Limits(cpus=None, memory_mb=free * 10, pids=None, disk_mb=None)
    capacity = measure_machine(much, tmp_path)
    assert capacity.boxes == 0 and "MiB of memory free" in capacity.reason
    little = Limits(cpus=0.001, memory_mb=None, pids=None, disk_mb=None)
    assert measure_machine(little, tmp_path, limit=7) == Capacity(
        boxes=7, networks=None, reason="at most 7 boxes at a time are configured"
    )


def test_boxes_that_run_count_among_those_that_fit(tmp_path):
    much = Limits(cpus=None, memory_mb=10**9, pids=None, disk_mb=None)
    assert measure_machine(much, tmp_path, running=3).boxes == 3


def test_more_than_fit_are_refused_before_one_is_started():
    capacity = choose_tightest({"memory": (4, "2000 MiB free")}, networks=2)
    check_fit(capacity, 2)
    with pytest.raises(UsageError, match=r"5 sandboxes at a time do not fit here, 4 do: 2000 MiB free"):
        check_fit(capacity, 5)
    with pytest.raises(UsageError, match="2 are left"):
        check_fit(capacity, 3)
