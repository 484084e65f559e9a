"""`castform bundle` as a person types it: processes, files, environments of their own, hostile bundles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmax.bundle import read_bundle

ENVIRONMENT = '''
"""Words to say back, read from a file beside this one."""
from pathlib import Path

from benchmax.envs import BaseEnv, Example, JsonlDataset

WORDS = Path(__file__).parent / "words.jsonl"


class Echo(BaseEnv):
    max_turns = 1

    def __init__(self, bonus: float = 0.0):
        self.bonus = bonus
        {constructor}

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        assert WORDS.is_file() and WORDS.parent == Path(base_dir)
        return JsonlDataset(
            Path(base_dir) / "words.jsonl",
            row_to_example=lambda row: Example(
                row["word"],
                {{"prompt_messages": [{{"role": "user", "content": row["word"]}}], "answer": row["word"]}},
            ),
            max_examples=max_examples,
        )

    async def compute_reward(self, rollout):
        right = rollout.messages[-1]["content"] == rollout.example_args["answer"]
        return {{"right": float(right), "bonus": self.bonus}}
'''


def write_project(folder: Path, *, constructor: str = "", top: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "echo_env.py").write_text(top + ENVIRONMENT.format(constructor=constructor), encoding="utf-8")
    (folder / "words.jsonl").write_text('{"word": "red"}\n{"word": "blue"}\n', encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One castform home for all tests: the Python environment is built once."""
    return tmp_path_factory.mktemp("castform_home")


def castform(
    home: Path, *words: str | Path, cwd: Path, expect: int = 0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "castform", "bundle", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "CASTFORM_HOME": str(home), **(env or {})},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == expect, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def make(home: Path, project: Path, *words: str | Path, expect: int = 0) -> Path:
    out = project / "echo.castform-bundle"
    castform(home, "make", "echo_env.py", "-o", out, *words, cwd=project, expect=expect)
    return out


def test_make_show_and_check(home: Path, tmp_path: Path) -> None:
    project, elsewhere = write_project(tmp_path / "project"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / "key").write_bytes(b"k" * 32)
    out = make(home, project, "--data", "words.jsonl", "-a", "bonus=0.5", "--key", "key")
    moved = out.rename(elsewhere / "moved.castform-bundle")
    (project / "echo_env.py").rename(project / "gone.txt")
    (project / "words.jsonl").unlink()
    shown = json.loads(castform(home, "show", moved, "--json", cwd=elsewhere).stdout)
    assert shown["signature"] == "not checked: no key was given"
    assert shown["imports"] == ["benchmax", "cloudpickle"]
    assert shown["data_files"] == ["words.jsonl"] and shown["secrets"] == [] and shown["dependencies"] == []
    assert "class Echo(BaseEnv)" in shown["source"]
    checked = castform(
        home,
        *("check", moved, "--json", "--rollout", "--digest", shown["digest"], "--key", project / "key"),
        cwd=elsewhere,
    )
    report = json.loads(checked.stdout)
    assert report["loads"] is True and report["faults"] == []
    assert report["signature"] == "good" and report["digest"] == shown["digest"]
    assert report["class_name"] == "echo_env.Echo"
    assert [[e["id"] for e in split["examples"]] for split in report["splits"]] == [["red", "blue"]] * 2
    assert report["rollout"]["rewards"] == {"right": 1.0, "bonus": 0.5}
    assert report["rollout"]["termination_reason"] == "finished" and report["rollout"]["answer"] == "right"
    text = castform(home, "check", moved, "--examples", "1", cwd=elsewhere).stdout
    assert "echo_env.Echo: loads in" in text and "red" in text and "blue" not in text
    assert castform(home, "show", moved, cwd=elsewhere).stdout.count(shown["digest"]) == 1


def test_the_same_project_makes_the_same_file_in_any_folder(home: Path, tmp_path: Path) -> None:
    one, other = write_project(tmp_path / "one"), write_project(tmp_path / "deeper" / "other")
    files = [make(home, project, "--data", "words.jsonl") for project in (one, other)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_tampered_bundle_and_a_wrong_key_are_refused_and_nothing_runs(home: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    project = write_project(tmp_path / "p", constructor=f"open({str(mark)!r}, 'w')")
    (project / "key").write_bytes(b"k" * 32)
    (project / "other").write_bytes(b"o" * 32)
    out = make(home, project, "--data", "words.jsonl")
    content = out.read_bytes()
    out.write_bytes(content.replace(b'"blue"', b'"BLUE"'))
    done = castform(home, "check", out, cwd=project, expect=2)
    assert "changed or damaged" in done.stderr and "nothing of the bundle was run" in done.stderr
    assert castform(home, "show", out, cwd=project, expect=2).stdout == ""
    out.write_bytes(content)
    done = castform(home, "check", out, "--key", "key", cwd=project, expect=2)
    assert "not signed" in done.stderr
    done = castform(home, "check", out, "--digest", "0" * 64, cwd=project, expect=2)
    assert "it is another bundle" in done.stderr
    make(home, project, "--data", "words.jsonl", "--key", "key")
    done = castform(home, "check", out, "--key", "other", cwd=project, expect=2)
    assert "not by this key" in done.stderr
    assert not mark.exists()
    castform(home, "check", out, "--key", "key", cwd=project)
    assert mark.exists()


def test_a_bundle_of_another_python_is_refused(home: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from benchmax.bundle import write_bundle

    project = write_project(tmp_path / "p")
    out = make(home, project)
    bundle = read_bundle(out)
    write_bundle(replace(bundle, metadata=replace(bundle.metadata, python_version="3.99")), out)
    done = castform(home, "check", out, cwd=project, expect=2)
    assert "made by Python 3.99" in done.stderr
    assert "3.99" in castform(home, "show", out, cwd=project).stdout


@pytest.mark.parametrize(
    ("top", "place"),
    [
        ("API_KEY = 'sk-proj-abcdefghij0123456789'\n", "global 'API_KEY' holds"),
        (
            "from benchmax.envs import StaticBearerAuth\nAPI_KEY = StaticBearerAuth('s3cret-token-9')\n",
            "StaticBearerAuth",
        ),
    ],
)
def test_a_secret_is_refused_or_named_and_never_shown(
    home: Path, tmp_path: Path, top: str, place: str
) -> None:
    project = write_project(tmp_path / "p", constructor="self.key = API_KEY", top=top)
    out = project / "out.castform-bundle"
    done = castform(home, "make", "echo_env.py", "-o", out, cwd=project, expect=2)
    assert place in done.stderr and "--allow-secrets" in done.stderr
    assert not out.exists()
    done = castform(home, "make", "echo_env.py", "-o", out, "--allow-secrets", cwd=project)
    assert "carries secrets" in done.stderr and place in done.stderr and out.exists()
    shown = castform(home, "show", out, cwd=project)
    assert place in shown.stdout
    for text in (done.stderr, shown.stdout, shown.stderr):
        assert "sk-proj" not in text and "s3cret" not in text


@pytest.mark.parametrize(
    ("constructor", "words", "code"),
    [
        ("import os; os._exit(3)", "ended with exit code 3 in its constructor", 1),
        ("import os; os._exit(0)", "ended without a report in its constructor", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV in its constructor", 1),
        pytest.param(
            "import time; time.sleep(600)",
            "did not end in time and was stopped in its constructor",
            1,
            marks=pytest.mark.slow,
        ),
        ("[print('x' * 1000000) for _ in range(100)]", "wrote too much and was stopped", 1),
        ("raise SystemExit(5)", "its constructor failed: it called sys.exit(5)", 1),
        ("raise ValueError('no good')", "its constructor failed: ValueError: no good", 1),
    ],
)
def test_whatever_a_bundle_does_is_one_clear_error(
    home: Path, tmp_path: Path, constructor: str, words: str, code: int
) -> None:
    project = write_project(tmp_path / "p", constructor=constructor)
    out = make(home, project, "--data", "words.jsonl")
    timeout = "8" if "sleep" in constructor else "120"
    done = castform(home, "check", out, "--timeout", timeout, cwd=project, expect=code)
    assert words in done.stderr + done.stdout


def test_a_process_that_a_bundle_leaves_behind_is_ended(home: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    constructor = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        f"open({str(pid)!r}, 'w').write(str(p.pid))"
    )
    project = write_project(tmp_path / "p", constructor=constructor)
    castform(home, "check", make(home, project, "--data", "words.jsonl"), cwd=project)
    status = Path(f"/proc/{pid.read_text()}/stat")
    assert not status.exists() or status.read_text().rpartition(") ")[2][0] == "Z"


def test_data_that_was_not_declared_is_missed_in_the_trial(home: Path, tmp_path: Path) -> None:
    project = write_project(tmp_path / "p")
    done = castform(home, "check", make(home, project), "--json", cwd=project, expect=1)
    report = json.loads(done.stdout)
    assert report["loads"] is False
    assert [fault.partition(":")[0] for fault in report["faults"]] == ["train dataset", "eval dataset"]


def write_wheel(folder: Path, name: str) -> Path:
    """Write the smallest wheel there is: one module with WORD in it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "WORD = 'from a wheel'\n")
        wheel.writestr(
            f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{name}-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.slow
def test_only_declared_dependencies_are_there(home: Path, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "wheels", "tinywheel")
    constructor = "import tinywheel; self.word = tinywheel.WORD; print(self.word)"
    project = write_project(tmp_path / "p", constructor=constructor)
    bare = make(home, project, "--data", "words.jsonl")
    done = castform(home, "check", bare, cwd=project, expect=1)
    assert "its constructor failed: ModuleNotFoundError: No module named 'tinywheel'" in done.stdout
    declared = make(home, project, "--data", "words.jsonl", "--dep", f"tinywheel @ {wheel.as_uri()}")
    done = castform(home, "check", declared, cwd=project)
    assert "building a Python environment with pip" in done.stderr
    again = castform(home, "check", declared, cwd=project)
    assert "building" not in again.stderr


def test_what_the_host_has_installed_is_not_there(home: Path, tmp_path: Path) -> None:
    project = write_project(tmp_path / "p", constructor="import pytest")
    done = castform(home, "check", make(home, project), cwd=project, expect=1)
    assert "No module named 'pytest'" in done.stdout


@pytest.mark.slow
def test_a_dependency_that_pip_cannot_find_exits_3(home: Path, tmp_path: Path) -> None:
    project = write_project(tmp_path / "p")
    missing = (tmp_path / "no-such-1.0-py3-none-any.whl").as_uri()
    out = make(home, project, "--dep", f"no-such @ {missing}")
    done = castform(home, "check", out, cwd=project, expect=3)
    assert "pip cannot install the bundle's dependencies" in done.stderr


def test_keys_of_the_host_do_not_reach_the_bundle(home: Path, tmp_path: Path) -> None:
    constructor = "import os; assert 'MY_API_KEY' not in os.environ, 'leaked'"
    project = write_project(tmp_path / "p", constructor=constructor)
    out = make(home, project, "--data", "words.jsonl")
    key = {"MY_API_KEY": "a-key-of-the-host-1"}
    castform(home, "check", out, cwd=project, env=key)
    done = castform(home, "check", out, "--env", "MY_API_KEY", cwd=project, env=key, expect=1)
    assert "AssertionError: leaked" in done.stdout
    done = castform(home, "check", out, "--env", "NOT_SET_HERE", cwd=project, expect=2)
    assert "NOT_SET_HERE is not set" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.py", "-o", "x"), "none.py does not exist"),
        (("echo_env.py:Other", "-o", "x"), "no environment class 'Other'"),
        (("echo_env.py", "-o", "x", "-a", "nope=1"), "cannot be made with these constructor_args"),
        (("echo_env.py", "-o", "x", "--dep", "!"), "not a valid PEP 508"),
        (("echo_env.py", "-o", "x", "--data", "none.txt"), "does not exist"),
        (("echo_env.py", "-o", "x", "--data", "/etc/passwd"), "outside the project folder"),
        (("echo_env.py", "-o", "no/folder/x"), "cannot be written"),
        (("echo_env.py", "-o", "x", "--key", "none"), "key file none cannot be read"),
        (("echo_env.py",), "-o"),
    ],
)
def test_a_wrong_command_exits_2_and_writes_nothing(
    in_process: Callable[..., tuple[int, str, str]], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    write_project(tmp_path)
    code, out, err = in_process("make", *words)
    assert code == 2 and said in err and out == ""
    assert not (tmp_path / "x").exists()


def test_what_is_no_bundle_is_refused(
    in_process: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "x").write_text("hello")
    for action in ("show", "check"):
        for name, said in (("x", "is not a bundle"), ("y", "cannot be read")):
            code, out, err = in_process(action, name)
            assert code == 2 and said in err and out == ""


@pytest.fixture
def in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command in this process: exit code, stdout, stderr."""
    from castform.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("echo_env", "bundled_echo_env"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["bundle", *words])
        return code, *capsys.readouterr()

    return run
