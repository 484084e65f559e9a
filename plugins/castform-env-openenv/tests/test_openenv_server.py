"""Servers that are started here: they answer, they say why they do not, and they are gone afterwards."""

from __future__ import annotations

import asyncio
import json
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import castform_env_openenv
import pytest
from castform_env_openenv.config import ExampleConfig, ServerConfig
from castform_env_openenv.environment import OpenEnv
from castform_env_openenv.example import ExampleEnv, make_example
from castform_env_openenv.guard import __file__ as guard_file
from castform_env_openenv.server import find_free_port
from pydantic import ValidationError

from castform.plugins import ConfigError, load_environment
from castform.testing import FakeModel, assert_conforms


def processes_with(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


async def play(environment: OpenEnv, *, size: int = 1) -> list[Any]:
    (example,) = await environment.create_dataset("train", Path(), max_examples=1)
    gold = environment.gold(example) or [{"role": "assistant", "content": "x"}]
    async with FakeModel(gold) as model:
        return (await model.run_group(environment, example, size=size)).rollouts


@pytest.mark.parametrize("server", ["shared", "episode"])
async def test_a_server_is_started_and_ended(server: str) -> None:
    example = make_example(ExampleConfig(train=1))
    mark = f"--mark-{os.getpid()}-{server}"
    command = [*example.config.command, mark]
    environment = type(example)(example.config.model_copy(update={"command": command, "server": server}))
    for size in (2, 1) if server == "shared" else (1,):
        rollouts = await play(environment, size=size)
        assert [r.rewards for r in rollouts] == [{"reward": 1.0}] * size
        running = len(processes_with(mark))
        assert running == (2 if server == "shared" else 0)  # the guard and the server
    await environment.aclose()
    assert processes_with(mark) == []
    await environment.aclose()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["/nowhere/server", "{port}"], "No such file"),
        (
            [sys.executable, "-c", "import sys; sys.exit('no licence for {port}')"],
            "ended with code 1; it wrote: no licence for",
        ),
        (
            [sys.executable, "-c", "print('deaf', flush=True); import time; time.sleep(99)  # {port}"],
            "did not answer at http://127.0.0.1:",
        ),
    ],
)
async def test_a_server_that_does_not_come_up_says_why(command: list[str], told: str) -> None:
    environment = OpenEnv(ServerConfig(command=command, start_seconds=1.5))
    (rollout,) = await play(environment)
    await environment.aclose()
    assert rollout.termination_reason == "sandbox_error" and told in rollout.error
    assert "NEVER" not in rollout.error


async def test_a_shared_server_that_failed_once_is_started_again(tmp_path: Path) -> None:
    again = tmp_path / "again"
    good = make_example(ExampleConfig()).config.command
    code = f"import os, pathlib, sys; p = pathlib.Path({str(again)!r})\nif not p.exists(): p.touch(); sys.exit(3)\nos.execv(sys.argv[1], sys.argv[1:])"
    config = ServerConfig(command=[sys.executable, "-c", code, *good], max_turns=1)
    environment = OpenEnv(config)
    assert "ended with code 3" in (await play(environment))[0].error
    assert (await play(environment))[0].error is None
    await environment.aclose()


def test_the_guard_ends_all_that_the_command_started_when_its_pipe_closes(tmp_path: Path) -> None:
    mark = f"guarded-{os.getpid()}"
    code = f"import subprocess, sys, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_DFL)\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)', '{mark}'])\nprint('up', flush=True)\ntime.sleep(99)"
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import subprocess, sys\np = subprocess.Popen([sys.executable, '-I', {guard_file!r}, sys.executable, '-c', {code!r}, '{mark}'], stdin=subprocess.PIPE, stdout=sys.stdout)\np.wait()",
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"up\n"
    assert len(processes_with(mark)) >= 3
    holder.kill()  # no clean-up of its own
    holder.wait()
    assert holder.stdout.read() == b""  # all that held the pipe are gone
    assert processes_with(mark) == []


def test_secrets_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hidden-value")
    monkeypatch.setenv("SOME_SETTING", "shown-value")
    code = "import os, sys; sys.exit(os.environ.get('SOME_API_KEY', 'none') + os.environ['SOME_SETTING'] + os.environ['MY_PORT'])"
    environment = OpenEnv(
        ServerConfig(command=[sys.executable, "-c", code], command_env={"MY_PORT": "port {port}"})
    )
    (rollout,) = asyncio.run(play(environment))
    assert "noneshown-valueport " in rollout.error and "hidden-value" not in rollout.error


def test_it_can_be_sent_to_another_process() -> None:
    environment = load_environment("openenv/example", {"train": 2}).environment
    copy = pickle.loads(pickle.dumps(environment))
    assert copy.config == environment.config


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "url or command"),
        ({"url": "http://x", "command": ["a", "{port}"]}, "url or command"),
        ({"url": "x:1"}, "must begin with http"),
        ({"command": ["a"]}, "needs {port}"),
        ({"url": "http://x", "server": "episode"}, "needs a command"),
        ({"url": "http://x", "train": []}, "must not be empty"),
        ({"url": "http://x", "train": 0}, "between 1 and"),
        ({"url": "http://x", "train": [{"a": 1}, {"a": 1}]}, "twice"),
        ({"url": "http://x", "train": [{"a": 1}], "eval": [{"a": 1}]}, "nothing would be held out"),
        ({"url": "http://x", "solved_reply": "a"}, "set together"),
        ({"url": "http://x", "sessions": 0}, "sessions"),
        ({"url": "http://x", "colour": 1}, "colour"),
        ({"url": "http://x", "train": [{"a": 1}, {"b": math.nan}]}, "[1].b is nan"),
        ({"url": "http://x", "eval": [{"a": {"b": [1, -math.inf]}}]}, "[0].a.b[1] is -inf"),
        ({"url": "http://x", "action_extra": {"force": math.inf}}, "force is inf"),
        ({"url": "http://x", "step_seconds": math.inf}, "finite number"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(args: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ServerConfig(**args)
    assert told in str(caught.value)


def test_true_is_no_number_of_episodes() -> None:
    for name in ("train", "eval"):
        with pytest.raises(ConfigError, match=f"{name} = True: must be a number, not true or false"):
            load_environment("openenv/server", {"url": "http://x", name: True})


def test_it_conforms() -> None:
    """With a server that runs already: most rules play in an event loop of their own, which would start one."""
    example = make_example(ExampleConfig())
    port = find_free_port()
    server = subprocess.Popen([part.replace("{port}", str(port)) for part in example.config.command])
    try:
        url = f"http://127.0.0.1:{port}"
        config = example.config.model_copy(update={"url": url, "command": None})
        assert_conforms(ExampleEnv(config), examples=2, scripts=2)
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("name", ["example"])
def test_the_certificate_that_comes_with_it_holds(name: str) -> None:
    package = Path(castform_env_openenv.__file__).parent
    certificate = json.loads((package / "certificates" / f"openenv--{name}.json").read_text(encoding="utf-8"))
    pin = load_environment(f"openenv/{name}").pin
    assert certificate["passed"] and certificate["environment_name"] == name
    told = {key: certificate["environment"][key] for key in ("distribution", "version", "content_sha256")}
    assert told == {key: getattr(pin, key) for key in told}
