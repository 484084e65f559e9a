"""Real virtual environments of two plugins whose pins conflict: built once, offline too, and both in one run."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [pytest.mark.installs, pytest.mark.timeout(900)]
PLUGINS = Path(__file__).parents[1] / "plugins_conflicting"
NO_NETWORK = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_FIND_LINKS": "",
    "PIP_RETRIES": "0",
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
}

MIX = """
[[environment.mix]]
id = "pydantic-one"

[[environment.mix]]
id = "pydantic-two"

[model]
id = "{model}"
dtype = "float32"
device = "cpu"

[run]
steps = 2
threads = 1

[sampling]
max_new_tokens = 4

[rl]
groups_per_step = 2
group_size = 4
max_refills = 2

[lora]
rank = 4

[eval]
examples = 6
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    """A folder with the wheels of both plugins."""
    folder = tmp_path_factory.mktemp("wheels")
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run(
        [sys.executable, "-m", "pip", *words, str(PLUGINS / "one"), str(PLUGINS / "two")],
        check=True,
        capture_output=True,
    )
    return folder


def find_wheel(wheels: Path, name: str) -> str:
    return str(next(wheels.glob(f"castform_env_pydantic_{name}-*.whl")))


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A folder for the wheels of a lock."""
    return tmp_path_factory.mktemp("saved")


def environ(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "CASTFORM_PLUGINS"}
    return {**kept, "CASTFORM_HOME": str(home), **more}


def castform(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "castform", *words],
        env=environ(home, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )


def start(home: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "castform", *words],
        env=environ(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def list_folders(home: Path) -> list[str]:
    return sorted(
        path.name for path in (home / "isolated").iterdir() if path.is_dir() and path.name != "runtime"
    )


@pytest.fixture(scope="module")
def two(home, wheels) -> dict:
    """What ten installations of one plugin at the same time say; the last one's answer with `built` of all."""
    command = ["env", "install", find_wheel(wheels, "two"), "--isolated", "--json", "--resolver", "pip"]
    running = [start(home, *command) for _ in range(10)]
    ended = [(process, *process.communicate(timeout=800)) for process in running]
    assert [process.returncode for process, _, _ in ended] == [0] * 10, ended[0][2]
    answers = [json.loads(out) for _, out, _ in ended]
    assert len({answer["folder"] for answer in answers}) == 1
    return {**answers[0], "built": [answer["built"] for answer in answers]}


def spent_by_children() -> float:
    """Seconds of CPU of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def one(home, wheels, saved) -> dict:
    """What a first installation says, and the `cpu_seconds` that it took."""
    before = spent_by_children()
    ran = castform(
        home,
        *["env", "install", find_wheel(wheels, "one"), "--isolated", "--json"],
        *["--resolver", "pip", "--save-wheels", str(saved)],
    )
    assert ran.returncode == 0, ran.stderr
    assert "castform-env-pydantic-one 0.1.0 depends on pydantic<2" in ran.stderr
    return {**json.loads(ran.stdout), "cpu_seconds": spent_by_children() - before}


def test_ten_first_starts_at_once_build_one_environment_once(two, home):
    assert sorted(two["built"]) == [False] * 9 + [True]
    assert [name for name in list_folders(home) if "two" in name] == [Path(two["folder"]).name]
    assert two["runtime"] == "minimal"


def test_a_second_start_takes_less_than_a_second_of_cpu(one, home, wheels):
    before = spent_by_children()
    again = castform(home, "env", "install", find_wheel(wheels, "one"), "--isolated", "--json", **NO_NETWORK)
    spent = spent_by_children() - before
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["built"] is False
    assert spent < max(1.0, one["cpu_seconds"] / 10), one["cpu_seconds"]  # on a slow machine, a tenth


def test_without_a_network_saved_wheels_are_enough(one, saved, tmp_path):
    ran = castform(
        tmp_path,
        *["env", "install", "castform-env-pydantic-one", "--isolated", "--offline", "--wheels", str(saved)],
        *["--json", "--resolver", "pip"],
        **NO_NETWORK,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["lock"] == one["lock"]
    shown = castform(tmp_path, "env", "show", "pydantic-one", "--json", **NO_NETWORK)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["seen_rewards"] == {"correct": 1.0, "number": 1.0, "pydantic": 1.0}


def test_a_killed_installation_leaves_nothing_that_counts(tmp_path, wheels, saved, one):
    words = ["env", "install", find_wheel(wheels, "one"), "--isolated", "--json", "--resolver", "pip"]
    words += ["--offline", "--wheels", str(saved)]
    killed = start(tmp_path, *words)
    deadline = time.monotonic() + 600
    while not list(tmp_path.glob("isolated/.castform-env-pydantic-one_*/bin")):
        assert killed.poll() is None and time.monotonic() < deadline, killed.communicate()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert "pydantic-one" not in castform(tmp_path, "env", "list").stdout
    ran = castform(tmp_path, *words)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["built"] is True
    assert list_folders(tmp_path) == [Path(one["folder"]).name]


def write_wheel(folder: Path, name: str, version: str, *requires: str) -> Path:
    """A wheel of metadata alone."""
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    files = {
        "METADATA": "\n".join([*lines, *(f"Requires-Dist: {text}" for text in requires)]) + "\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(f"{stem}.dist-info/{file}", text)
    return path


def test_installing_here_is_refused_when_it_would_change_what_is_here(wheels, saved, one, tmp_path):
    installed = metadata.version("iniconfig")
    write_wheel(tmp_path, "iniconfig", "0.0.1")
    changing = write_wheel(tmp_path, "castform-env-old", "1", "castform", "iniconfig==0.0.1")
    ran = castform(tmp_path, "env", "install", str(changing), "--offline", "--wheels", str(tmp_path))
    assert ran.returncode == 2
    assert f"would change 1 installed distribution: iniconfig {installed} -> 0.0.1; nothing was" in ran.stderr
    assert "--isolated gives it an environment of its own" in ran.stderr
    conflicting = castform(
        tmp_path, "env", "install", find_wheel(wheels, "one"), "--offline", "--wheels", str(saved)
    )
    assert conflicting.returncode == 2
    assert "does not go with what is installed here; nothing was installed" in conflicting.stderr
    assert "castform 0.1.0 depends on pydantic>=2.11" in conflicting.stderr
    assert (metadata.version("iniconfig"), find_spec("castform_env_pydantic_one")) == (installed, None)


def test_scripts_of_an_environment_run_where_it_lies(one):
    script = next(path for path in Path(one["folder"], "bin").iterdir() if path.read_bytes()[:2] == b"#!")
    assert script.read_text(encoding="utf-8").splitlines()[0] == f"#!{one['folder']}/bin/python"


def test_two_plugins_whose_pins_conflict_train_in_one_run(one, two, home, tmp_path, monkeypatch):
    import pydantic
    import torch

    from castform.config import load_config
    from castform.runs import RunStore
    from castform_trainer.rl.run import train
    from castform_trainer.testing import make_tiny_model

    torch.set_num_threads(1)
    monkeypatch.setenv("CASTFORM_HOME", str(home))
    config = tmp_path / "mix.toml"
    config.write_text(MIX.format(model=make_tiny_model(tmp_path / "model")))
    with RunStore.open(tmp_path / "runs") as store:
        result = asyncio.run(train(load_config(config), store=store))
        rollouts = store.list_rollouts(result.run_id)
    assert (result.status, result.steps) == ("finished", 2)
    used = {row.example_id.partition(":")[0]: row.rewards for row in rollouts if row.mode == "train"}
    assert {name: rewards[f"{name}/pydantic"] for name, rewards in used.items()} == {
        "pydantic-one": 1.0,
        "pydantic-two": 2.0,
    }
    means = {name: result.before.component(name) for name in result.before.components}
    assert means["pydantic-one/pydantic"].mean == 1.0
    assert means["pydantic-two/pydantic"].mean == 2.0
    assert pydantic.VERSION.startswith("2.")
    assert "castform_env_pydantic_one" not in sys.modules
