"""Configs, bundled agents, credentials, partial credit, diagnostics."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import threading
from enum import Enum
from pathlib import Path

import pytest
from pydantic import BaseModel

from benchmax.envs.harbor import (
    AgentConfig,
    BundledAgentSource,
    BundledHarborAgent,
    CustomSandboxCredentials,
    DaytonaCredentials,
    EnvironmentConfig,
    ModalCredentials,
)
from benchmax.envs.harbor.configs import take_config
from benchmax.envs.harbor.credentials import sandbox_credentials_scope
from benchmax.envs.harbor.diagnostics import find_model_controls
from benchmax.envs.harbor.reasons import find_failure
from benchmax.envs.harbor.rewardkit import add_partial_credit, partial_credit


def test_environments_are_imported_without_any_of_it():
    code = (
        "import sys, benchmax.envs; print('benchmax.envs.harbor' in sys.modules, 'pydantic' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"
    )


def test_harbors_own_config_types_are_taken_by_their_fields():
    class Kind(Enum):
        DOCKER = "docker"

    theirs = type(
        "EnvironmentConfig",
        (BaseModel,),
        {
            "__annotations__": {
                "type": "Kind | None",
                "force_build": "bool",
                "extra_docker_compose": "list[Path]",
            },
            "__module__": __name__,
            "type": None,
            "force_build": False,
            "extra_docker_compose": [],
        },
    )
    theirs.model_rebuild(_types_namespace={"Kind": Kind, "Path": Path})
    taken = take_config(
        EnvironmentConfig, theirs(type=Kind.DOCKER, extra_docker_compose=["a"]), "environment"
    )
    assert taken == EnvironmentConfig(type="docker", extra_docker_compose=["a"])
    with pytest.raises(TypeError, match="environment must be a EnvironmentConfig"):
        take_config(EnvironmentConfig, AgentConfig(), "environment")


def test_a_misspelt_field_is_refused_and_an_agent_without_a_name_is_the_oracle():
    with pytest.raises(ValueError, match="kwarg"):
        AgentConfig(kwarg={})
    assert AgentConfig().name == "oracle" and AgentConfig(import_path="a:B").name is None


FILES = {"agent.py": b"agent", "nested/helper.py": b"helper"}


def test_a_bundled_agent_has_one_id_everywhere():
    known = "sha256:0733596c15cd2787ed49023f6c6ca9589742d0c7cbdf3f8daf6c218ea8b19946"
    assert BundledAgentSource.from_files(FILES).content_id == known
    assert BundledAgentSource.from_files(dict(reversed(FILES.items()))).content_id == known
    assert BundledAgentSource.from_files({**FILES, "agent.py": b"agenu"}).content_id != known


def test_a_directory_gives_the_files_that_are_named_and_no_others(tmp_path):
    (tmp_path / "nested").mkdir()
    for path, content in {**FILES, "secret.key": b"no"}.items():
        (tmp_path / path).write_bytes(content)
    found = BundledAgentSource.from_directory(tmp_path, files=["nested/helper.py", Path("agent.py")])
    assert found == BundledAgentSource.from_files(FILES)
    (tmp_path / "link.py").symlink_to("agent.py")
    (tmp_path / "linked").symlink_to("nested")
    for path in ("link.py", "linked/helper.py", "missing.py", "nested", "../x", "/etc/passwd"):
        with pytest.raises(ValueError):
            BundledAgentSource.from_directory(tmp_path, files=[path])


@pytest.mark.parametrize("path", ["", ".", "/a.py", "a/../b.py", "./a.py", "a//b.py", "a\\b.py", "a.py/"])
def test_a_path_that_is_not_in_its_plain_form_is_refused(path):
    with pytest.raises(ValueError):
        BundledAgentSource.from_files({path: b"x"})


def test_a_path_comes_once():
    with pytest.raises(ValueError, match=r"duplicate paths: a\.py"):
        BundledAgentSource((("a.py", b"1"), ("a.py", b"2")))


@pytest.mark.parametrize("fields", [{"name": "x"}, {"import_path": "other:Agent"}, {"import_path": "agent"}])
def test_a_bundled_agents_entry_is_in_its_source(fields):
    with pytest.raises(ValueError):
        BundledHarborAgent(AgentConfig(**fields), BundledAgentSource.from_files(FILES))


def test_two_revisions_of_an_agent_live_side_by_side():
    path = list(sys.path)

    def load(number):
        files = {
            "mod/path.py": b"from .word import WORD\nclass Agent:\n    word = WORD\n",
            "mod/word.py": b"WORD = %d" % number,
        }
        source = BundledAgentSource.from_files(files)
        config = BundledHarborAgent(AgentConfig(import_path="mod.path:Agent", kwargs={"a": 1}), source).load()
        module, name = config.import_path.split(":")
        assert module.startswith("_benchmax_harbor_agent_") and config.kwargs == {"a": 1}
        return getattr(importlib.import_module(module), name)

    one, two = load(1), load(2)
    assert (one.word, two.word, load(1)) == (1, 2, one)
    assert sys.path == path and not Path(sys.modules[one.__module__].__file__).stat().st_mode & 0o222


@pytest.mark.parametrize(
    "make, variables",
    [
        (
            lambda: ModalCredentials(token_id="i", token_secret="s"),
            {"MODAL_TOKEN_ID": "i", "MODAL_TOKEN_SECRET": "s", "MODAL_MAX_THROTTLE_WAIT": "60"},
        ),
        (
            lambda: DaytonaCredentials(api_key="k", target="eu"),
            {"DAYTONA_API_KEY": "k", "DAYTONA_TARGET": "eu"},
        ),
        (
            lambda: DaytonaCredentials(jwt_token="j", organization_id="o"),
            {"DAYTONA_JWT_TOKEN": "j", "DAYTONA_ORGANIZATION_ID": "o"},
        ),
        (lambda: CustomSandboxCredentials(values={"X_KEY": "s"}, provider="x"), {"X_KEY": "s"}),
    ],
    ids=["modal", "daytona-key", "daytona-jwt", "custom"],
)
def test_credentials_are_the_variables_that_a_service_reads(make, variables):
    assert make().host_environment() == variables
    assert not any(value in repr(make()) for value in ("'s'", "'k'", "'j'"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ModalCredentials(token_id="", token_secret="s"),
        lambda: ModalCredentials(token_id="i", token_secret="s", max_throttle_wait_seconds=True),
        lambda: DaytonaCredentials(),
        lambda: DaytonaCredentials(api_key="k", jwt_token="j", organization_id="o"),
        lambda: DaytonaCredentials(jwt_token="j"),
        lambda: CustomSandboxCredentials(values={}),
        lambda: CustomSandboxCredentials(values={"A=B": "c"}),
    ],
)
def test_credentials_that_are_not_whole_are_refused(make):
    with pytest.raises(ValueError):
        make()


def custom(**values):
    return CustomSandboxCredentials(values=values)


async def test_credentials_stand_in_the_environment_while_they_are_used_and_not_after(monkeypatch):
    monkeypatch.setenv("CF_TEST_A", "before")
    monkeypatch.delenv("CF_TEST_B", raising=False)
    async with sandbox_credentials_scope(custom(CF_TEST_A="1", CF_TEST_B="2")):
        assert (os.environ["CF_TEST_A"], os.environ["CF_TEST_B"]) == ("1", "2")
        async with sandbox_credentials_scope(custom(CF_TEST_A="1", CF_TEST_B="2")):
            pass
        assert os.environ["CF_TEST_B"] == "2"
        with pytest.raises(RuntimeError, match="nested"):
            async with sandbox_credentials_scope(custom(CF_TEST_A="3")):
                pass
    assert os.environ["CF_TEST_A"] == "before" and "CF_TEST_B" not in os.environ


async def test_groups_with_equal_credentials_share_them_and_others_wait():
    order, both = [], asyncio.Barrier(2)

    async def use(value, *, meet):
        async with sandbox_credentials_scope(custom(CF_TEST_C=value)):
            if meet:
                await both.wait()
            order.append((value, os.environ["CF_TEST_C"]))

    await asyncio.gather(use("1", meet=True), use("2", meet=False), use("1", meet=True))
    assert order == [("1", "1"), ("1", "1"), ("2", "2")]
    assert "CF_TEST_C" not in os.environ


def test_conflicting_credentials_wait_for_each_other_across_event_loops():
    entered, free = threading.Event(), threading.Event()
    seen = []

    async def hold():
        async with sandbox_credentials_scope(custom(CF_TEST_D="1")):
            entered.set()
            await asyncio.to_thread(free.wait, 10)

    async def follow():
        waiting = asyncio.ensure_future(enter())
        await asyncio.sleep(0)
        seen.append(os.environ["CF_TEST_D"])
        free.set()
        await waiting

    async def enter():
        async with sandbox_credentials_scope(custom(CF_TEST_D="2")):
            seen.append(os.environ["CF_TEST_D"])

    thread = threading.Thread(target=asyncio.run, args=(hold(),))
    thread.start()
    assert entered.wait(10)
    asyncio.run(follow())
    thread.join(10)
    assert seen == ["1", "2"] and "CF_TEST_D" not in os.environ


def failed(name):
    return {"exception_type": name, "exception_message": f"{name}!"}


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"exception_info": failed("AgentTimeoutError")}, "AgentTimeoutError"),
        ({"exception_info": None, "step_results": [{}, {"exception_info": failed("X")}]}, "X"),
        (
            {
                "exception_info": failed("AgentTimeoutError"),
                "step_results": [{"exception_info": failed("VerifierTimeoutError")}],
            },
            "VerifierTimeoutError",
        ),
        ({"exception_info": "odd", "step_results": [None, 1]}, None),
        ({}, None),
    ],
)
def test_the_failure_of_a_trial_is_the_one_that_is_not_the_agents(document, name):
    failure = find_failure(document)
    assert (failure and failure["exception_type"]) == name


def criteria(*pairs, **more):
    return {"criteria": [{"name": "c", "weight": w, "value": v} for w, v in pairs], **more}


@pytest.mark.parametrize(
    "details, credit",
    [
        ({"reward": criteria((1, 1), (3, 0.5))}, 0.625),
        (criteria((1, 1), (3, 0.5)), 0.625),
        ({"criteria": [{"value": 0.5}, {}]}, 0.25),
        (criteria((1, 5.0)), 1.0),
        (criteria((1, -1.0), (1, 1)), 0.5),
        (criteria((1, True), (1, False)), 0.5),
        (criteria((0, 1)), None),
        (criteria((-1, 1), (3, 1)), None),
        (criteria((1, "1")), None),
        (criteria((1, float("nan"))), None),
        (criteria((1, 10**400)), None),
        (criteria((1, 1), (1, None)), None),
        ({"criteria": []}, None),
        ({"criteria": [1]}, None),
        ({}, None),
        ([], None),
    ],
)
def test_partial_credit_is_the_weighted_mean_and_never_beyond_one(details, credit):
    assert partial_credit(details) == credit


def test_details_that_an_agent_could_have_planted_are_not_read(tmp_path):
    (tmp_path / "verifier").mkdir()
    (tmp_path / "real.json").write_text(json.dumps(criteria((1, 1))))
    (tmp_path / "verifier" / "reward-details.json").symlink_to(tmp_path / "real.json")
    assert add_partial_credit({"reward": 0.0}, tmp_path) == {"reward": 0.0}
    (tmp_path / "verifier" / "reward-details.json").unlink()
    os.mkfifo(tmp_path / "verifier" / "reward-details.json")
    assert add_partial_credit({"reward": 0.0}, tmp_path) == {"reward": 0.0}


def test_missed_criteria_are_logged_by_what_they_cost(tmp_path, caplog):
    (tmp_path / "verifier").mkdir()
    items = [{"name": f"c{n}", "weight": n, "value": 0} for n in range(1, 11)]
    (tmp_path / "verifier" / "reward-details.json").write_text(json.dumps({"criteria": items}))
    with caplog.at_level("INFO", "benchmax.envs.harbor.rewardkit"):
        assert add_partial_credit({"reward": 0.0}, tmp_path)["partial_credit"] == 0.0
    named = [word for word in caplog.messages[0].split() if word.startswith("c") and word[1:].isdigit()]
    assert named == ["c10", "c9", "c8", "c7", "c6", "c5", "c4", "c3"]


@pytest.mark.parametrize(
    "kwargs, code",
    [
        ({"max_tokens": 5}, "harness_output_cap"),
        ({"llm_kwargs": {"max_completion_tokens": 5}}, "harness_output_cap"),
        ({"temperature": 0}, "trainer_owned_model_control"),
        ({"a": [{"b": {"top_p": 1}}]}, "trainer_owned_model_control"),
        ({"seed": 1}, "trainer_owned_model_control"),
        ({"n": 2}, "unsupported_model_control"),
        ({"tool_choice": "required"}, "unsupported_model_control"),
        ({"tool_choice": {"type": "function"}}, "unsupported_model_control"),
        ({"logprobs": True}, "unsupported_model_control"),
        ({"parallel_tool_calls": False}, "unsupported_model_control"),
        ({"response_format": {"type": "json_object"}}, "unsupported_model_control"),
        ({"reasoning_effort": "high"}, "unsupported_model_control"),
        (
            {"n": 1, "tool_choice": "auto", "parallel_tool_calls": True, "response_format": {"type": "text"}},
            None,
        ),
        ({"temperature": None, "max_turns": 5, "temperature_note": "x"}, None),
    ],
)
def test_options_that_take_from_the_trainer_are_diagnosed_with_their_place(kwargs, code):
    found = find_model_controls(kwargs, "agent.kwargs")
    assert [diagnostic.code for diagnostic in found] == ([code] if code else [])
    assert [d.severity for d in found] == ([] if not code else ["warning" if "cap" in code else "error"])
    assert all(d.location.startswith("agent.kwargs.") for d in found)


def test_a_control_within_a_list_is_found_at_its_place():
    assert find_model_controls({"a": [{"b": {"top_p": 1}}]}, "k")[0].location == "k.a[0].b.top_p"
