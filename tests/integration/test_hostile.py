"""The hostile agent earns nothing where the defaults hold; where it does earn, docs/threat-model.md says so."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from castform.calls import Sampling
from castform.cli.main import main
from castform.endpoint import SessionSpec
from castform.errors import UsageError
from castform.harness.contract import AgentTask
from castform.plugins import load_environment
from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits, ModelEndpoint
from castform.testing.hostile import (
    ATTACKS,
    Attack,
    AttackResult,
    HostileHarness,
    HostileReport,
    assert_attacks_earn_nothing,
    attack_tasks,
    choose_attacks,
    combine_attacks,
)
from castform.testing.hostile.attacks import burdens, looking, programs, rewards
from castform_trainer.engines.fake import FakeEngine
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.gateway.fake_tokenizer import make_fake_tokenizer

TASKS = Path(__file__).parent / "hostile_tasks"
COUNTED = TASKS / "counted"
IMPORTED = TASKS / "imported"
ROOT = Path(__file__).parents[2]
THREAT_MODEL = ROOT / "docs" / "threat-model.md"
PAID_WHEN_SHARED = (
    "answer-is-a-link",
    "path-shadowed",
    "programs-replaced",
    "python-modules",
    "python-startup",
)
"""What tests in the agent's own box fall for, as docs/threat-model.md has it."""


def combine(module, name, *, last=()):
    """Return the attacks of a module as one; those that leave no shell behind come last."""
    ordered = sorted(module.ATTACKS, key=lambda attack: attack.name in last)
    return combine_attacks(ordered, name=name)


TOGETHER = (
    combine(rewards, "rewards"),
    combine(programs, "programs", last=("programs-replaced", "shell-replaced")),
    combine(looking, "looking"),
)


def list_verdicts(report: HostileReport) -> dict[str, str]:
    return {result.attack.name: result.verdict for result in report.results}


def test_attacks_have_names_of_their_own_and_say_what_they_try():
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names)
    assert f"All {len(names)} attacks of the kit" in THREAT_MODEL.read_text()
    assert all(attack.tries and attack.script.strip() and attack.seconds <= 10 for attack in ATTACKS)


def test_the_threat_model_names_tests_attacks_and_rules_that_there_are():
    from castform.testing.sandboxes.rules import RULES

    text = THREAT_MODEL.read_text()
    sources = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("plugins/castform-sandbox-*/tests/test_*.py")]
    tests = {
        name for file in sources for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.M)
    }
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named and named <= tests
    known = {attack.name for attack in ATTACKS} | {rule.name for rule in RULES}
    for said in re.findall(r"(?:attacks?|rules?) ((?:`[a-z…-]+`(?:, )?)+)", text):
        for name in re.findall(r"`([a-z…-]+)`", said):
            assert any(one == name or (name.endswith("…") and one.startswith(name[:-1])) for one in known), (
                name
            )


def test_an_attack_that_does_not_exist_is_named_with_the_closest():
    with pytest.raises(UsageError) as raised:
        choose_attacks(["reward-txt"])
    assert raised.value.hint == "did you mean 'reward-text'?"


def test_a_sandbox_that_isolates_nothing_is_not_attacked():
    with pytest.raises(UsageError, match="isolates nothing"):
        assert_attacks_earn_nothing(COUNTED, sandbox="process")


def test_an_environment_that_runs_commands_unconfined_is_found_out_before_it_is_harmed(tmp_path):
    """The guard: a file of this machine is seen, so the script stops before its first line."""
    attack = Attack(
        name="outside", tries="leaves a file outside", script=f"touch '{tmp_path / 'harm'}'; breach out"
    )
    environment = load_environment(
        "shell/easy", {"sandbox": "process", "warm_boxes": 0, "turns": 2}
    ).environment
    with pytest.raises(AssertionError, match=r"got out +outside .*a file of this machine is seen inside"):
        assert_attacks_earn_nothing(environment, attacks=[attack])
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ({"reward": 0.5, "floor": 0.5}, "held"),
        ({"reward": 0.5}, "paid"),
        ({"reward": None, "error": "the box is gone"}, "held"),
        ({"reward": 1.0, "rewards": {"a": 1.0, "b": 0.0}, "floor": 1.0, "floors": {"a": 1.0}}, "held"),
        ({"reward": 1.0, "rewards": {"a": 0.0, "b": 1.0}, "floor": 1.0, "floors": {"a": 1.0}}, "paid"),
        ({"idle": "no python3 here"}, "not tried"),
        ({"missed": "the image does not build"}, "not played"),
        ({"missed": "the image does not build", "breaches": ("read a key",)}, "got out"),
    ],
    ids=["floor", "more", "none", "same-by-name", "more-by-name", "idle", "missed", "breach"],
)
def test_what_comes_of_an_attack_has_one_verdict(words, verdict):
    attack = Attack(name="any", tries="does something", script="true")
    report = HostileReport(results=(AttackResult(attack=attack, task="t", status="ok", **words),))
    assert list_verdicts(report) == {"any": verdict}
    assert bool(report.succeeded) == (verdict in ("paid", "got out"))
    assert bool(report.unplayed) == (verdict == "not played")
    assert f"1 {verdict}" in report.summarise()


def test_an_environment_whose_rollouts_fail_is_not_one_that_held():
    environment = load_environment("shell/easy", {"sandbox": "nope", "warm_boxes": 0}).environment
    attack = Attack(name="any", tries="does something", script="true")
    with pytest.raises(AssertionError, match=r"not played +any .*doing nothing has no reward"):
        assert_attacks_earn_nothing(environment, attacks=[attack])


@pytest.mark.bubblewrap
def test_a_task_that_cannot_be_judged_is_not_one_that_held(tmp_path, capsys):
    shutil.copytree(COUNTED, tmp_path / "task")
    (tmp_path / "task" / "environment" / "Dockerfile").write_text("FROM any\nRUN echo why && false\n")
    words = ["sandbox", "attack", str(tmp_path / "task"), "--sandbox", "bubblewrap", "--json"]
    assert main([*words, "--only", "reward-text"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["held"], said["not_played"]) == (0, 1)
    assert "doing nothing has no reward: infra_error" in said["attacks"][0]["missed"]


@pytest.mark.bubblewrap
def test_every_attack_is_worth_nothing_by_default():
    attacks = [*rewards.ATTACKS, *programs.ATTACKS, *burdens.ATTACKS, TOGETHER[2]]
    report = assert_attacks_earn_nothing(COUNTED, sandbox="bubblewrap", attacks=attacks)
    assert set(list_verdicts(report).values()) == {"held"}, report.describe()
    by_name = {result.attack.name: result for result in report.results}
    assert by_name["never-ends"].status == "agent_timeout" and by_name["never-ends"].reward == 0.0


@pytest.mark.docker
def test_attacks_in_containers_are_worth_nothing_by_default():
    report = assert_attacks_earn_nothing(
        COUNTED, sandbox="docker", attacks=[*TOGETHER, "never-ends", "everything-removed"]
    )
    assert set(list_verdicts(report).values()) == {"held"}, report.describe()


@pytest.mark.docker
async def test_tests_in_the_agents_own_box_fall_for_just_what_the_threat_model_says():
    report = await attack_tasks(COUNTED, sandbox="docker", verifier="task", attacks=PAID_WHEN_SHARED)
    assert list_verdicts(report) == dict.fromkeys(PAID_WHEN_SHARED, "paid"), report.describe()


@pytest.mark.bubblewrap
async def test_a_folder_that_is_carried_to_the_tests_and_imported_there_pays():
    """Its author can do better: declare files, and start Python with -I."""
    report = await attack_tasks(IMPORTED, sandbox="bubblewrap", attacks=["python-modules", "python-startup"])
    assert list_verdicts(report) == {"python-modules": "paid", "python-startup": "held"}, report.describe()


@pytest.mark.bubblewrap
def test_the_command_shows_a_table_and_fails_when_something_was_paid(capsys):
    words = [str(COUNTED), "--sandbox", "bubblewrap", "--only", "answer-is-a-link"]
    assert main(["sandbox", "attack", *words]) == 0
    assert "held     answer-is-a-link  counted  0       0      ok" in capsys.readouterr().out
    assert main(["sandbox", "attack", *words, "--verifier", "task", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["paid"] == 1 and said["attacks"][0]["verdict"] == "paid"


@pytest.mark.bubblewrap
def test_a_model_that_attacks_a_shell_environment_earns_nothing():
    environment = load_environment(
        "shell/easy", {"sandbox": "bubblewrap", "warm_boxes": 0, "turns": 2}
    ).environment
    attacks = ["programs-replaced", "answer-is-a-link", "solution-read", "keys-looked-up", "proc-tricks"]
    report = assert_attacks_earn_nothing(environment, attacks=attacks)
    assert list_verdicts(report)["keys-looked-up"] == "held"


OPEN = """
import ctypes, socket
calls = ctypes.CDLL(None, use_errno=True)
try:
    socket.socket(40, socket.SOCK_STREAM).close()
    print("vsock")
except OSError:
    print("no vsock")
print(calls.ptrace(16, 1, 0, 0))
print(open("/proc/self/uid_map").read().split())
"""


OWN_IDS = str(Path("/proc/self/uid_map").read_text().split()) if sys.platform == "linux" else ""


def read_engine_version() -> int:
    words = ["docker", "version", "--format", "{{.Server.Version}}"]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return int(said.split(".")[0])


@pytest.mark.docker
async def test_docker_leaves_open_what_the_threat_model_says():
    """Where a newer engine or a setting closes one of these, the document has to say so."""
    provider = load_provider("docker")
    try:
        box = await provider.start(BoxRequest(image="castform/base:local", limits=Limits(disk_mb=16)))
        said = (await box.exec(["python3", "-c", OPEN])).text.splitlines()
    finally:
        await provider.aclose()
    vsock, attached, ids = said
    assert vsock == "no vsock" or read_engine_version() < 23  # a kernel may have none
    assert (attached, ids) == ("0", OWN_IDS)


@pytest.mark.docker
def test_a_model_that_attacks_harbor_tasks_earns_nothing_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    environment = load_environment("harbor", {"tasks": str(COUNTED), "eval_ratio": 0}).environment
    report = assert_attacks_earn_nothing(environment, attacks=[TOGETHER[0], TOGETHER[1]])
    assert [result.reward for result in report.results] == [0.0, 0.0], report.describe()


@pytest.mark.bubblewrap
async def test_another_rollouts_session_of_the_gateway_is_not_reached_and_nothing_is_administered(tmp_path):
    """The attack has the neighbour's real address and key, and its box has a session of its own."""
    tokenizer = make_fake_tokenizer()
    engine = FakeEngine(decode=tokenizer.decode)
    gateway = Gateway(engine, tokenizer, log_path=tmp_path / "calls.jsonl", model_name="fake").start()
    endpoint = GatewayEndpoint(gateway)
    provider = load_provider("bubblewrap")
    try:
        grants = [
            await endpoint.open_session(SessionSpec(session_id=name, sampling=Sampling(max_new_tokens=4)))
            for name in ("own", "other")
        ]
        own, other = (
            ModelEndpoint(base_url=grant.base_url, api_key=grant.api_key, model=grant.model)
            for grant in grants
        )
        box = await provider.start(BoxRequest(limits=Limits(disk_mb=16)))
        for attack in choose_attacks(["neighbours-session", "gateway-administered"]):
            harness = HostileHarness(attack=attack, neighbour=other)
            done = await harness.run(AgentTask(instruction=""), box, own)
            assert done.metadata == {"attack": attack.name, "breaches": [], "idle": ""}, done.output
        assert list(await endpoint.collect("other")) == []
    finally:
        await provider.aclose()
        await endpoint.aclose()
