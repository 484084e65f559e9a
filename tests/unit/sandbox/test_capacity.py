"""How many boxes fit, and by what."""

from __future__ import annotations

import pytest

from castform.errors import UsageError
from castform.sandbox import capacity as capacity_module
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


@pytest.mark.parametrize(
    "stat",
    ["anon 1\ninactive_file 3145728\n", "inactive_file 1\ntotal_cache 9\ntotal_inactive_file 3145728\n"],
    ids=["version-2", "version-1"],
)
def test_what_a_control_group_only_holds_of_files_is_free(stat, tmp_path, monkeypatch):
    for name, text in (("max", "8388608\n"), ("current", "7340032\n"), ("stat", stat)):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(capacity_module, "_MEMORY_LIMITS", (tmp_path / "max",))
    monkeypatch.setattr(capacity_module, "_MEMORY_USAGES", (tmp_path / "current",))
    monkeypatch.setattr(capacity_module, "_MEMORY_STATS", (tmp_path / "none", tmp_path / "stat"))
    assert measure_free_memory() == 4


def test_more_than_fit_are_refused_before_one_is_started():
    capacity = choose_tightest({"memory": (4, "2000 MiB free")}, networks=2)
    check_fit(capacity, 2)
    with pytest.raises(UsageError, match=r"5 sandboxes at a time do not fit here, 4 do: 2000 MiB free"):
        check_fit(capacity, 5)
    with pytest.raises(UsageError, match="2 are left"):
        check_fit(capacity, 3)
