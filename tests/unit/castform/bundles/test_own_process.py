"""Programs that misbehave, Python environments that are built once, and reports that are no reports."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from castform.bundles import OwnVenv, TrialReport, make_bundle, open_bundle, prepare_venv
from castform.bundles.bounded_process import Finished, run_bounded
from castform.bundles.own_venv import hide_passwords
from castform.bundles.report import RolloutReport, SplitReport
from castform.bundles.runtime_links import runtime_entries, runtime_versions
from castform.errors import CastformError, MissingError, UsageError


def run(code: str, tmp_path: Path, **options: Any) -> Finished:
    options = {"timeout_seconds": 60.0, **options}
    return run_bounded([sys.executable, "-c", code], cwd=tmp_path, env={"PATH": "/usr/bin"}, **options)


def test_output_and_exit_code_come_back(tmp_path: Path) -> None:
    done = run("import sys; print('out'); print('err', file=sys.stderr, flush=True); sys.exit(4)", tmp_path)
    assert (done.ending, done.code) == ("exit", 4)
    assert "out\n" in done.output and "err\n" in done.output
    assert done.describe() == "ended with exit code 4"


def test_only_the_end_of_the_output_is_kept(tmp_path: Path) -> None:
    done = run("print('a' * 300000 + 'end')", tmp_path, tail_bytes=1000)
    assert len(done.output) == 1000 and done.output.endswith("end\n")
    assert (done.ending, done.code) == ("exit", 0)


def test_a_flood_is_stopped_at_its_limit(tmp_path: Path) -> None:
    done = run("while True: print('x' * 10000)", tmp_path, max_output_bytes=100_000)
    assert done.ending == "flood" and done.describe() == "wrote too much and was stopped"
    exact = run("print('x' * 99, flush=True)", tmp_path, max_output_bytes=100)
    assert exact.ending == "exit"


def test_a_hang_is_stopped_whether_its_output_is_open_or_closed(tmp_path: Path) -> None:
    for close in ("", "import os; os.close(1); os.close(2);"):
        done = run(f"{close}import time; time.sleep(600)", tmp_path, timeout_seconds=1.0)
        assert done.ending == "timeout" and done.code == -9
        assert done.describe() == "did not end in time and was stopped"


def test_a_signal_is_named_and_an_unknown_one_numbered() -> None:
    assert Finished(ending="exit", code=-11, output="").describe() == "was ended by SIGSEGV"
    assert Finished(ending="exit", code=-63, output="").describe() == "ended with exit code -63"


def test_an_end_is_seen_though_a_child_keeps_the_output_open(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    done = run(code, tmp_path, timeout_seconds=50.0)
    assert (done.ending, done.code) == ("exit", 0)


def test_passwords_of_urls_are_hidden() -> None:
    text = "from https://user:pw@host/simple and https://tok@h, not a@b or https://host/x@1"
    assert (
        hide_passwords(text) == "from https://***@host/simple and https://***@h, not a@b or https://host/x@1"
    )


# --- the Python environment ------------------------------------------------------------------


def test_two_that_want_the_same_environment_build_it_once(tmp_path: Path) -> None:
    made: list[OwnVenv] = []
    threads = [
        threading.Thread(target=lambda: made.append(prepare_venv((), home=tmp_path))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({own.folder for own in made}) == 1
    assert sorted(own.was_built for own in made) == [False, False, True]


def test_an_environment_holds_the_runtime_and_nothing_else(tmp_path: Path) -> None:
    own = prepare_venv((), home=tmp_path)
    code = (
        "import importlib.util as u, sys, benchmax.envs, castform.plugins; "
        "print([n for n in ('pydantic', 'openai', 'pytest', 'torch', 'pip') if u.find_spec(n)], sys.prefix)"
    )
    done = run_bounded([str(own.python), "-I", "-c", code], cwd=tmp_path, env={}, timeout_seconds=60)
    assert done.output.strip() == f"['pydantic', 'openai'] {own.folder}"


def test_a_build_that_was_cut_off_or_lost_its_python_is_built_again(tmp_path: Path) -> None:
    own = prepare_venv((), home=tmp_path)
    assert not prepare_venv((), home=tmp_path).was_built
    (own.folder / "castform-ready.json").unlink()
    assert prepare_venv((), home=tmp_path).was_built
    own.python.unlink()
    assert prepare_venv((), home=tmp_path).was_built and own.python.exists()


def test_other_dependencies_are_another_environment_and_pips_failure_is_told(tmp_path: Path) -> None:
    missing = f"no-such @ {(tmp_path / 'no_such-1.0-py3-none-any.whl').as_uri()}"
    stages: list[str] = []
    with pytest.raises(MissingError, match="pip cannot install the bundle's dependencies") as caught:
        prepare_venv((missing,), home=tmp_path, on_stage=stages.append)
    assert caught.value.exit_code == 3 and stages == ["building a Python environment with pip"]
    stages.clear()
    with pytest.raises(MissingError):  # the broken build is not taken for a good one
        prepare_venv((missing,), home=tmp_path, on_stage=stages.append)
    assert stages == ["building a Python environment with pip"]
    prepare_venv((), home=tmp_path, on_stage=stages.append)
    assert stages[-1] == "building a Python environment"


def test_a_home_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot build a Python environment"):
        prepare_venv((), home=tmp_path / "file")


def test_the_runtime_is_what_castform_requires_without_extras() -> None:
    versions = runtime_versions()
    assert {"castform", "cloudpickle", "packaging", "openai", "pydantic", "aiohttp"} <= set(versions)
    assert not {"torch", "pytest", "ruff", "numpy"} & set(versions)
    entries = runtime_entries()
    assert {"benchmax", "castform", "cloudpickle", "pydantic"} <= set(entries)
    assert all(place.exists() for place in entries.values())
    assert not any(name.endswith(".pth") or name in ("..", "bin", "__pycache__") for name in entries)


# --- reports and files -----------------------------------------------------------------------


def test_a_report_tells_every_fault() -> None:
    report = TrialReport(
        class_name="m.C",
        splits=(
            SplitReport(split="train", examples=()),
            SplitReport(split="eval", examples=(), error="no file"),
        ),
        diagnostics=(
            {"severity": "error", "code": "c1", "message": "bad", "location": None},
            {"severity": "warning", "code": "c2", "message": "meh", "location": None},
        ),
        rollout=RolloutReport(
            example_id="e", answer="ok", termination_reason="tool_error", rewards={}, error="it broke"
        ),
    )
    assert report.faults == ["eval dataset: no file", "c1: bad", "rollout ended as tool_error: it broke"]
    assert report.as_dict()["loads"] is False
    again = TrialReport.from_dict(json.loads(json.dumps({k: report.as_dict()[k] for k in report.__slots__})))
    assert again.faults == report.faults
    assert TrialReport(class_name="m.C").as_dict()["loads"] is True
    assert TrialReport(error="x", failed_stage="load").faults == ["x"]


@pytest.mark.parametrize("value", [{"nope": 1}, {"splits": [1]}, {"splits": [{}]}, {"rollout": {"a": 1}}])
def test_what_is_no_report_is_refused(value: Mapping[str, Any]) -> None:
    with pytest.raises(TypeError):
        TrialReport.from_dict(value)


SOURCE = """
from benchmax.envs import BaseEnv, Dataset, Example
{top}
class Plain(BaseEnv):
    max_turns = 1
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset([Example("a", {{}})])
    async def compute_reward(self, rollout):
        return {{"x": 1.0}}
"""


def test_a_file_whose_name_is_taken_or_no_identifier_gets_another_module_name(tmp_path: Path) -> None:
    for name in ("json.py", "my-env.py"):
        (tmp_path / name).write_text(SOURCE.format(top=""))
        made = make_bundle(str(tmp_path / name), tmp_path / "out")
        expected = {"json.py": b"bundled_json", "my-env.py": b"bundled_my_env"}[name]
        assert expected in made.bundle.pickled and open_bundle(tmp_path / "out") == made.bundle


def test_a_file_that_raises_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "breaks_at_import.py").write_text(SOURCE.format(top="raise SystemExit(3)"))
    with pytest.raises(CastformError, match=r"breaks_at_import.py cannot be imported: it called sys.exit"):
        make_bundle(str(tmp_path / "breaks_at_import.py"), tmp_path / "out")
    assert not (tmp_path / "out").exists() and "breaks_at_import" not in sys.modules


def test_a_package_that_another_one_hides_is_refused(tmp_path: Path) -> None:
    package = tmp_path / "packaging"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "version.py").write_text(SOURCE.format(top=""))
    with pytest.raises(UsageError, match=r"would be imported as 'packaging.version', which is"):
        make_bundle(str(package / "version.py"), tmp_path / "out")
