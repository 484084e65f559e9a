"""Who made a box, told apart from everybody else."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from castform.runs.process import process_start
from castform.sandbox.owner import Owner, current_owner, is_alive, tell_liveness


def test_an_owner_comes_back_from_its_labels():
    owner = current_owner("run-7")
    assert owner.labels()["castform.owner.run"] == "run-7"
    assert Owner.from_labels({**owner.labels(), "other": "x"}) == owner


@pytest.mark.parametrize("pid", ["", "x", "-1", "1.5", "٣"])
def test_labels_that_cannot_be_read_name_nobody(pid):
    assert Owner.from_labels({"castform.owner.pid": pid}) is None


def test_this_process_is_alive():
    assert tell_liveness(current_owner()) == "alive"


def test_a_process_that_has_ended_is_dead():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = replace(current_owner(), pid=process.pid, start=process_start(process.pid) or "")
    assert tell_liveness(owner) == "alive"
    process.kill()
    process.communicate()
    assert tell_liveness(owner) == "dead" and not is_alive(owner)


def test_a_reused_process_id_is_another_owner():
    assert tell_liveness(replace(current_owner(), start="1")) == "dead"


def test_whatever_ran_before_this_boot_is_dead():
    assert tell_liveness(replace(current_owner(), boot="another")) == "dead"


@pytest.mark.parametrize("field", ["machine", "namespace"])
def test_an_owner_that_cannot_be_seen_from_here_stays(field):
    owner = replace(current_owner(), **{field: "another"}, pid=os.getpid() + 1)
    assert tell_liveness(owner) == "unknown" and is_alive(owner)
