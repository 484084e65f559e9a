"""Many environments at once: what one of them does costs no other one its certificate."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import resource
from pathlib import Path

import pytest

from castform.certify.batch import BatchResult, certify_batch
from castform.certify.certification import CertifyOptions
from castform.cli.certify_many import expand_ids
from castform.cli.main import main
from castform.errors import UsageError

ENVIRONMENT = """
import os, time
from benchmax.envs import BaseEnv, Dataset, Example

class Sums(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        {dataset}
        numbers = range(40, 48) if split == "eval" else range(8)
        return Dataset([
            Example(id=str(n), payload={{"prompt_messages": [{{"role": "user", "content": f"{{n}} + 100?"}}],
                                         "ground_truth": str(n + 100)}})
            for n in numbers
        ])

    async def compute_reward(self, rollout):
        {reward}
        return {{"correct": float((rollout.messages[-1]["content"] or "").strip() == rollout.example_args["ground_truth"])}}
"""


def write(folder: Path, name: str, *, dataset: str = "pass", reward: str = "pass") -> str:
    path = folder / f"{name}.py"
    path.write_text(ENVIRONMENT.format(dataset=dataset, reward=reward))
    return str(path)


OPTIONS = CertifyOptions(examples=3, max_seconds=60)


def test_one_that_ends_its_process_and_one_that_cannot_be_loaded_cost_only_themselves(tmp_path: Path) -> None:
    ids = [
        write(tmp_path, "first"),
        write(tmp_path, "dies", reward="os._exit(7)"),
        write(tmp_path, "second"),
        str(tmp_path / "missing.py"),
        write(tmp_path, "third"),
    ]
    told: list[BatchResult] = []
    results = certify_batch(ids, options=OPTIONS, jobs=1, on_result=told.append)
    assert [result.id for result in results] == ids == [result.id for result in told]
    assert [result.passed for result in results] == [True, False, True, False, True]
    codes = [[f.code for f in result.findings if f.level == "fault"] for result in results]
    assert codes == [[], ["certify_crashed"], [], ["certify_failed"], []]
    assert "exit code 7 while castform was at right answers and probes" in results[1].describe()
    assert "missing.py" in results[3].describe()
    assert results[0].as_dict()["conclusion"].startswith("no fault found")
    assert results[1].as_dict()["findings"][0]["code"] == "certify_crashed"
    json.dumps([result.as_dict() for result in results])


@pytest.mark.slow
def test_one_that_hangs_is_killed_at_its_own_deadline_and_the_stage_named(tmp_path: Path) -> None:
    ids = [
        write(tmp_path, "slow", dataset="time.sleep(3600)"),
        write(tmp_path, "hangs", reward="time.sleep(3600)"),
        write(tmp_path, "sound"),
    ]
    options = CertifyOptions(examples=3, max_seconds=3)
    slow, hangs, sound = certify_batch(ids, options=options, jobs=2, grace_seconds=20)
    assert [(f.level, f.code) for f in slow.findings] == [("unchecked", "examples_slow")]
    assert slow.describe() == ("unchecked: it took longer than 23 s to make its examples")
    assert (slow.passed, slow.verdict, slow.as_dict()["verdict"]) == (False, "unchecked", "unchecked")
    assert 23 <= slow.seconds < 280
    assert [(f.level, f.code) for f in hangs.findings] == [("fault", "certify_timeout")]
    assert "not done after 23 s while castform was at right answers and probes" in hangs.describe()
    assert hangs.verdict == "failed"
    assert sound.certification is not None


def test_the_table_tells_what_was_not_looked_at_from_what_has_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [write(tmp_path, "first"), write(tmp_path, "second")]
    assert main(["env", "certify", *ids, "--examples", "3", "--max-seconds", "0.000001"]) == 1
    table = capsys.readouterr().out
    assert "2 environments, 0 with a fault, 2 unchecked, " in table
    assert table.count(" unchecked ") == 2 and "FAULT " not in table and "no fault" not in table


def test_arguments_go_to_each_and_transcripts_stay_in_the_worker() -> None:
    (result,) = certify_batch(
        ["arith/add"], arguments={"train_examples": 4}, options=CertifyOptions(examples=3), jobs=8
    )
    assert result.certification is not None and result.certification.probes is not None
    assert result.certification.arguments == {"train_examples": 4}
    assert result.certification.probes.groups == ()
    assert result.certification.rates is not None


def test_no_environments_are_no_work() -> None:
    assert certify_batch([]) == []


@pytest.mark.parametrize("jobs", [0, -1])
def test_a_number_of_jobs_that_is_none_is_refused_before_anything_is_started(jobs: int) -> None:
    with pytest.raises(UsageError, match=f"jobs is {jobs}, not a number of processes"):
        certify_batch(["arith/add"], jobs=jobs)
    assert multiprocessing.active_children() == []


def test_processes_end_where_a_further_one_cannot_be_started() -> None:
    before = set(multiprocessing.active_children())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit_that_leaves(9), hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            certify_batch([f"arith/{i}" for i in range(9)], jobs=9)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(multiprocessing.active_children()) == before


def limit_that_leaves(count: int) -> int:
    """Return the limit under which so many descriptors can be opened still: one process takes six to start."""
    taken = {int(path.name) for path in Path("/dev/fd").iterdir()}
    return next(n for n in itertools.count() if len(set(range(n)) - taken) == count)


def test_a_bare_plugin_of_many_and_a_pattern_mean_each() -> None:
    pytest.importorskip("castform_env_gym", reason="without a C compiler castform-env-gym is not installed")
    assert len(expand_ids(["gym"])) == 106
    assert expand_ids(["gym/*_integration"]) == ["gym/intermediate-integration", "gym/simple-integration"]
    assert expand_ids(["arith"]) == ["arith"]
    assert expand_ids(["arith/add*", "arith/add", "lookup", "some/file.py"]) == [
        "arith/add",
        "arith/add24",
        "arith/add2",
        "lookup",
        "some/file.py",
    ]
    with pytest.raises(UsageError, match="fits 'zz\\*'"):
        expand_ids(["arith/zz*"])


def test_the_command_exits_1_when_one_has_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound, dies = write(tmp_path, "sound"), write(tmp_path, "dies", reward="os._exit(7)")
    words = ["env", "certify", sound, dies, "--examples", "3", "--jobs", "2"]
    assert main([*words, "--json"]) == 1
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert data["passed"] is False
    assert [found["passed"] for found in data["environments"]] == [True, False]
    assert "2 of 2" in err
    assert main(words) == 1
    table = capsys.readouterr().out
    assert "no fault" in table and "not certified" in table and "2 environments, 1 with a fault" in table


def test_options_for_one_environment_are_refused_for_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "certify", "arith/add", "lookup", "--only", "echo"]) == 2
    assert "--only is for one environment" in capsys.readouterr().err


def test_one_may_have_a_process_pool_of_its_own(tmp_path: Path) -> None:
    pool = (
        "import concurrent.futures as f; global POOL; "
        "POOL = globals().get('POOL') or f.ProcessPoolExecutor(1); POOL.submit(abs, -1).result()"
    )
    (result,) = certify_batch([write(tmp_path, "pooled", reward=pool)], options=OPTIONS, jobs=1)
    assert result.passed, result.describe()
