"""Our own loop against a model server that is a script, in a box without isolation."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from castform.harness import HarnessError, load_harness
from castform.sandbox.contract import ExecResult, ModelEndpoint
from castform.sandbox.errors import ExecTimeoutError
from castform.testing.mock_endpoint import MockEndpoint
from castform.testing.troubles import every, rate_limited
from castform_harbor.harnesses.answers import read_answer


@pytest.fixture
def play():
    """Return a function that makes a model say these replies, in order."""
    servers: list[MockEndpoint] = []

    def start(*replies, **options) -> tuple[ModelEndpoint, MockEndpoint]:
        server = MockEndpoint(list(replies), **options)
        servers.append(server)
        return ModelEndpoint(base_url=server.base_url, api_key=server.api_key, model="mock"), server

    yield start
    for server in servers:
        server.close()


def sh(script: str) -> str:
    return f"I do this.\n```sh\n{script}\n```"


async def test_it_works_until_done_and_keeps_its_folder(box, make_task, play):
    model, server = play(
        sh("mkdir sub && cd sub; ls nowhere"), sh("echo hi > x.txt; cat x.txt; exit 3"), "DONE"
    )
    task = make_task("make sub/x.txt")
    harness = load_harness("terminus-lite")
    await harness.setup(box)
    done = await harness.run(task, box, model)
    assert (done.status, done.metadata["turns"]) == ("finished", 3)
    assert await box.read_file(f"{task.workdir}/sub/x.txt") == b"hi\n"
    said = server.asked[-1].body["messages"]
    assert [m["role"] for m in said] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "nowhere" in said[3]["content"] and said[3]["content"].endswith("[exit code 2]")
    assert said[5]["content"] == "hi\n[exit code 3]"


async def test_the_trajectory_has_every_turn_with_its_commands(box, make_task, play):
    model, _ = play(
        "no command here", sh("echo a") + "\nand\n```bash\necho b >&2\n```", "All is well.\n\nDONE"
    )
    done = await load_harness("terminus-lite").run(make_task("go"), box, model)
    document = done.trajectory
    assert json.loads(json.dumps(document)) == document
    assert document["schema_version"] == "ATIF-v1.6" and document["agent"]["model_name"] == "mock"
    steps = document["steps"]
    assert [s["step_id"] for s in steps] == list(range(1, len(steps) + 1))
    assert [s["source"] for s in steps] == ["system", "user", "agent", "user", "agent", "agent"]
    calls = steps[4]["tool_calls"]
    assert [c["arguments"]["command"] for c in calls] == ["echo a", "echo b >&2"]
    results = steps[4]["observation"]["results"]
    assert [r["content"] for r in results] == ["a", "b"]
    assert [r["source_call_id"] for r in results] == [c["tool_call_id"] for c in calls]
    assert document["final_metrics"]["total_steps"] == 6
    assert document["final_metrics"]["total_completion_tokens"] > 0


async def test_commands_of_the_last_reply_run_before_the_end(box, make_task, play):
    model, _ = play(sh("echo last > last.txt") + "\nDONE")
    task = make_task()
    assert (await load_harness("terminus-lite").run(task, box, model)).status == "finished"
    assert await box.read_file(f"{task.workdir}/last.txt") == b"last\n"


async def test_output_keeps_head_and_tail(box, make_task, play):
    model, server = play(sh("echo head; seq 100000; echo tail"), "DONE")
    harness = load_harness("terminus-lite", max_output_characters=200)
    await harness.run(make_task(), box, model)
    shown = server.asked[-1].body["messages"][-1]["content"]
    assert shown.startswith("head\n1\n") and shown.endswith("tail") and "characters left out" in shown
    assert len(shown) < 260


async def test_a_command_that_never_ends_costs_its_own_time_only(box, make_task, play):
    model, server = play(sh("echo begun; sleep 1000"), sh("sleep 1000 & echo $!"), "DONE")
    harness = load_harness("terminus-lite", command_timeout_seconds=0.5)
    assert (await harness.run(make_task(), box, model)).status == "finished"
    said = [m["content"] for m in server.asked[-1].body["messages"]]
    assert said[3] == "begun\n[killed: it took longer than 0.5 s]"
    assert said[5].strip().isdigit()


@pytest.mark.parametrize(
    ("replies", "options", "status"),
    [
        ([sh("true")] * 3, {"max_turns": 3}, "max_turns"),
        ([sh("sleep 1000")], {"timeout_seconds": 0.7}, "timeout"),
    ],
    ids=["turns", "deadline"],
)
async def test_it_ends_at_its_limits(box, make_task, play, replies, options, status):
    model, _ = play(*replies)
    done = await load_harness("terminus-lite", **options).run(make_task(), box, model)
    assert done.status == status and done.trajectory["steps"]


async def test_retries_are_the_sdks(box, make_task, play):
    model, server = play(sh("true"), "DONE", "DONE", faults=[every(2, rate_limited())])
    assert (await load_harness("terminus-lite").run(make_task(), box, model)).status == "finished"
    assert len(server.asked) > 2


async def test_an_endpoint_that_fails_is_no_result(box, make_task):
    gone = ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key="k", model="m")
    harness = load_harness("terminus-lite", max_retries=0)
    with pytest.raises(HarnessError, match="needs a model"):
        await harness.run(make_task(), box, None)
    with pytest.raises(HarnessError, match="endpoint failed"):
        await harness.run(make_task(), box, gone)


async def test_it_goes_on_from_what_was_said_before(box, make_task, play):
    model, server = play(sh("touch /tmp/never-there-$$ && rm /tmp/never-there-$$"), "DONE")
    before = (await load_harness("terminus-lite").run(make_task("first"), box, model)).trajectory
    again, server = play("DONE")
    await load_harness("terminus-lite").run(make_task("second", trajectory=before), box, again)
    said = server.asked[-1].body["messages"]
    assert [m["role"] for m in said] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert said[1]["content"] == "first" and said[3]["content"] == "(no output)"
    assert said[4]["content"] == "DONE" and said[5]["content"] == "second"


async def test_a_new_task_after_an_observation_is_one_turn_of_the_user(box, make_task, play):
    call = {"tool_call_id": "1", "arguments": {"command": "ls"}}
    seen = {"results": [{"source_call_id": "1", "content": "a.txt"}]}
    steps = [{"source": "agent", "message": "", "tool_calls": [call], "observation": seen}]
    model, server = play("DONE")
    task = make_task("go on", trajectory={"steps": [{"source": "user", "message": "go"}, *steps]})
    await load_harness("terminus-lite").run(task, box, model)
    said = server.asked[0].body["messages"]
    assert [m["role"] for m in said] == ["system", "user", "assistant", "user"]
    assert said[3]["content"] == "a.txt\n\ngo on"


class SlowBox:
    """A box whose commands take longer than they may."""

    async def exec(self, command, **more):
        raise ExecTimeoutError("find took longer than 60 s", result=ExecResult(exit_code=137))


async def test_time_that_the_box_took_is_not_the_agents(make_task, play):
    model, _ = play("DONE")
    with pytest.raises(ExecTimeoutError):
        await load_harness("terminus-lite").run(make_task(skills_dir="/skills"), SlowBox(), model)


async def test_skills_are_named_in_the_task(box, make_task, play, tmp_path):
    skill = tmp_path / "skills" / "sorting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("how to sort")
    model, server = play("DONE")
    await load_harness("terminus-lite").run(make_task("go", skills_dir=str(tmp_path / "skills")), box, model)
    assert server.asked[0].body["messages"][1]["content"].endswith(f"\n{skill}/SKILL.md")


async def test_a_folder_that_a_command_removed_is_left_and_the_work_goes_on(box, make_task, play):
    model, server = play(sh("mkdir q && cd q && rm -rf ../q"), sh("pwd"), "DONE")
    done = await load_harness("terminus-lite").run(make_task(), box, model)
    assert done.status == "finished"
    assert (
        server.asked[-1]
        .body["messages"][-1]["content"]
        .endswith("/q cannot be entered any more; this is /]\n/")
    )


async def test_text_that_utf8_cannot_spell_reaches_the_model_without_it(box, make_task, play):
    model, server = play(sh("printf '\ud800'"), "DONE")
    done = await load_harness("terminus-lite").run(make_task("do \ud800 it"), box, model)
    said = server.asked[-1].body["messages"]
    assert (done.status, said[1]["content"], said[3]["content"]) == ("finished", "do ? it", "?")


@pytest.mark.parametrize(
    "answer",
    [
        *(None, "<html>", [], SimpleNamespace(choices=None), SimpleNamespace(choices=[])),
        *(SimpleNamespace(choices=[SimpleNamespace(message=m)]) for m in (None, SimpleNamespace(content=[]))),
    ],
)
def test_an_answer_that_is_no_chat_completion_is_the_endpoints_fault(answer):
    with pytest.raises(HarnessError, match="sent no chat completion"):
        read_answer(answer)


def test_tokens_that_an_endpoint_does_not_count_are_left_out():
    message = SimpleNamespace(content="a\ud800")
    said = read_answer(SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=SimpleNamespace()))
    assert (said.text, said.usage, said.finish_reason) == ("a?", None, None)
