"""A program behind a template, really run: what reaches it, and how its end is told."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
import tomllib
from dataclasses import replace

import pytest

from castform.harness import HarnessError, McpServer
from castform.sandbox.errors import SandboxGoneError

NASTY = "it's \"quoted\" $(touch /tmp/pwned) `id` \\ {model} {{x}}\n'; rm -rf / #\t\x7fä"


async def test_values_reach_the_program_as_they_are(box, make_harness, make_task, endpoint):
    harness = make_harness(
        """
        [harness]
        command = ["sh", "show.sh", "{instruction}", "{model}", "{{literal}}", "{workdir}"]
        [harness.env]
        OPENAI_API_KEY = "{api_key}"
        URL = "{base_url}|{root_url}"
        [harness.files]
        "show.sh" = 'printf "%s\\n" "$@" "$OPENAI_API_KEY" "$URL" > seen'
        """,
    )
    task = make_task(NASTY)
    done = await harness.run(task, box, endpoint)
    assert done.status == "finished" and done.exit_code == 0, done.output
    seen = (await box.read_file(f"{task.workdir}/seen")).decode()
    assert seen.startswith(f"{NASTY}\ntiny\n{{literal}}\n{task.workdir}\n")
    assert "sk-real-key" not in seen and "http://127.0.0.1:9/" not in seen
    url, root = seen.splitlines()[-1].split("|")
    assert url == f"{root}/v1"


@pytest.mark.parametrize("quoted", ["{instruction}", '"{instruction}"', "'{instruction}'", "a{instruction}b"])
@pytest.mark.parametrize("form", ["text", "list"])
async def test_a_shell_script_holds_no_value(box, make_harness, make_task, endpoint, quoted, form):
    script = f"printf %s {quoted} > seen; echo ${{HOME}} > home"
    command = json.dumps(script if form == "text" else ["bash", "-ec", script])
    harness = make_harness(f"[harness]\ncommand = {command}\n")
    task = make_task(NASTY)
    done = await harness.run(task, box, endpoint)
    assert done.status == "finished", done.output
    seen = (await box.read_file(f"{task.workdir}/seen")).decode()
    assert seen == (f"a{NASTY}b" if quoted.startswith("a") else NASTY)
    assert (await box.read_file(f"{task.workdir}/home")).decode().startswith("/")


async def test_config_files_hold_values_as_data(box, make_harness, make_task, endpoint):
    harness = make_harness(
        """
        [harness]
        command = ["true"]
        [harness.files]
        "a.json" = '{"task": "{instruction}", "key": "{api_key}", "at": "{deadline}", "n": {"{model}": [1, true]}}'
        "a.toml" = '''task = "{instruction}"
        [a."b c"]
        urls = ["{base_url}", "x{{y}}"]
        '''
        "a.sh" = "task={instruction}"
        "a.txt" = "{instruction}"
        "b/c.yaml" = { content = { task = "{instruction}", tools = "{mcp_servers}" }, mode = 0o644 }
        """
    )
    servers = [
        McpServer(name="one", url="http://x/sse", headers={"A": "{model}"}),
        McpServer(name="two", transport="stdio", command="srv", args=("-x", "{model}")),
    ]
    task = make_task(NASTY, mcp_servers=servers)
    done = await harness.run(task, box, endpoint)
    assert done.status == "finished", done.output

    async def read(name):
        return (await box.read_file(f"{task.workdir}/{name}")).decode()

    document = json.loads(await read("a.json"))
    assert document["task"] == NASTY and document["n"] == {"tiny": [1, True]}
    assert document["at"] > time.time() and document["key"] != endpoint.api_key
    table = tomllib.loads(await read("a.toml"))
    assert table["task"] == NASTY and table["a"]["b c"]["urls"][1] == "x{y}"
    assert await read("a.txt") == NASTY
    yaml = json.loads(await read("b/c.yaml"))
    assert yaml["tools"]["one"] == {"type": "sse", "url": "http://x/sse", "headers": {"A": "{model}"}}
    assert yaml["tools"]["two"] == {"type": "stdio", "command": "srv", "args": ["-x", "{model}"]}
    shown = await box.exec(["sh", "-c", '. ./a.sh; printf %s "$task"'], cwd=task.workdir)
    assert shown.stdout.decode() == NASTY


async def test_the_key_file_is_private_and_goes_away(box, make_harness, make_task, endpoint):
    harness = make_harness(
        """
        [harness]
        command = "cp -p {api_key_file} key; cat {instruction_file} > task; cat > in; pwd > where; echo {run_dir}"
        stdin = "go: {instruction}"
        """
    )
    task = make_task("say 'hi'")
    done = await harness.run(task, box, endpoint)
    run_dir = done.output.strip()
    assert run_dir.startswith("/") and (await box.exec(["test", "-e", run_dir])).exit_code == 1
    mode = await box.exec(["stat", "-c", "%a", "key"], cwd=task.workdir)
    assert mode.text.strip() == "600"
    assert (await box.read_file(f"{task.workdir}/in")).decode() == "go: say 'hi'"
    assert (await box.read_file(f"{task.workdir}/task")).decode() == "say 'hi'"
    assert (await box.read_file(f"{task.workdir}/where")).decode().strip() == task.workdir


async def test_failing_after_the_work_is_a_result(box, make_harness, make_task):
    harness = make_harness('[harness]\ncommand = "echo done > result; echo sorry >&2; exit 1"\n')
    task = make_task()
    done = await harness.run(task, box, None)
    assert (done.status, done.exit_code) == ("nonzero_exit", 1)
    assert "sorry" in done.output and (await box.read_file(f"{task.workdir}/result")) == b"done\n"
    assert b"sorry" in await box.read_file(f"{task.log_dir}/my-agent.txt")


async def test_a_program_that_never_ends_is_killed_at_its_deadline(box, make_harness, make_task):
    harness = make_harness(
        """
        [harness]
        command = "echo $CASTFORM_DEADLINE > at; echo working; sleep 1000 & echo $! > child; sleep 1000"
        """
    )
    task = make_task(timeout_seconds=2.0)
    started = time.time()
    done = await harness.run(task, box, None)
    assert (done.status, done.exit_code) == ("timeout", None) and "working" in done.output
    at = int(await box.read_file(f"{task.workdir}/at"))
    assert started + 1 <= at <= started + 30  # the program's own start is in between
    child = (await box.read_file(f"{task.workdir}/child")).decode().strip()
    state = await box.exec(["sh", "-c", 'cut -d" " -f3 /proc/$1/stat 2>/dev/null', "sh", child])
    assert state.text.strip() in ("", "Z")


async def test_a_clock_that_is_set_meanwhile_takes_no_time_away(box, make_harness, make_task):
    for later in (1e12, -1e12):
        clock = itertools.chain([time.time()], itertools.repeat(later)).__next__
        harness = replace(make_harness('[harness]\ncommand = "echo done"\n'), clock=clock)
        done = await harness.run(make_task(timeout_seconds=60.0), box, None)
        assert (done.status, done.output.strip()) == ("finished", "done")
        assert 0 <= done.metadata["seconds"] < 60


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("echo 'code: context_budget_exceeded' >&2; exit 1", "context_exceeded"),
        ("echo 'code: context_budget_exceeded'; exit 0", "finished"),
        ("exit 53", "max_turns"),
        ("echo 'too many tokens'; exit 0", "output_exceeded"),
        ("exit 3", "finished"),
        ("kill -9 $$", "nonzero_exit"),
    ],
)
async def test_rules_say_what_an_end_means(box, make_harness, make_task, end, status):
    harness = make_harness(
        f"""
        [harness]
        command = {json.dumps(end)}
        success_exit_codes = [0, 3]
        [[harness.status]]
        status = "max_turns"
        exit_codes = [53]
        [[harness.status]]
        status = "output_exceeded"
        exit_codes = [0]
        output = "too many (tokens|words)"
        """
    )
    assert (await harness.run(make_task(), box, None)).status == status


async def test_a_program_that_is_not_there_is_no_result(box, make_harness, make_task):
    with pytest.raises(HarnessError, match="'no-such-program' of the harness my-agent is not in the box"):
        await make_harness('[harness]\ncommand = ["no-such-program"]\n').run(make_task(), box, None)
    lost = make_harness('[harness]\ncommand = "true"\nworkdir = "/no/such/folder"\n')
    with pytest.raises(
        HarnessError, match="the folder '/no/such/folder', where my-agent works, is not in the box"
    ):
        await lost.run(make_task(), box, None)
    own = make_harness('[harness]\ncommand = "exit 127"\n')
    assert (await own.run(make_task(), box, None)).exit_code == 127


async def test_a_box_that_goes_away_is_no_result(box, make_harness, make_task):
    harness = make_harness('[harness]\ncommand = "touch begun; sleep 1000"\n')
    task = make_task()
    running = asyncio.create_task(harness.run(task, box, None))
    while (await box.exec(["test", "-e", "begun"], cwd=task.workdir)).exit_code:
        assert not running.done()
    await box.close()
    with pytest.raises(SandboxGoneError):
        await running


async def test_an_instruction_is_any_text(box, make_harness, make_task):
    harness = make_harness('[harness]\ncommand = ["printf", "%s", "{instruction}"]\n')
    harness = replace(harness, make_token=lambda: f"of-{os.getpid()}")
    assert (await harness.run(make_task("\ud800 ä"), box, None)).output == "? ä"
    with pytest.raises(HarnessError, match="zero byte"):
        await harness.run(make_task("a\0b"), box, None)
    left = await box.exec(["sh", "-c", f'ls -d "${{TMPDIR:-/tmp}}"/castform-run-{harness.make_token()}'])
    assert left.exit_code != 0


async def test_setup_uploads_checks_and_installs(box, make_harness, make_task, tmp_path):
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "run.sh").write_text("echo from the upload")
    target = tmp_path / "opt"
    harness = make_harness(
        f"""
        [harness]
        command = ["sh", "{target}/run.sh"]
        check = "test -e {target}/installed"
        install = ["test -e {target}/run.sh", "touch {target}/installed"]
        [harness.upload]
        "{target}" = "agent"
        """
    )
    await harness.setup(box)
    await harness.setup(box)
    assert (await harness.run(make_task(), box, None)).output.strip() == "from the upload"


@pytest.mark.parametrize("upload", ["", 'upload = { "TARGET/agent" = "agent" }'])
@pytest.mark.parametrize(
    ("check", "installed"),
    [("", "xx"), ('check = "test -e TARGET/log"', "x"), ('check = "true"', "")],
    ids=["no check", "check", "is there"],
)
async def test_what_is_not_checked_is_installed_each_time(
    box, make_harness, tmp_path, upload, check, installed
):
    (tmp_path / "agent").mkdir()
    (tmp_path / "target").mkdir()
    toml = f'[harness]\ncommand = "true"\ninstall = "printf x >> TARGET/log"\n{check}\n{upload}\n'
    harness = make_harness(toml.replace("TARGET", str(tmp_path / "target")))
    await harness.setup(box)
    await harness.setup(box)
    log = tmp_path / "target" / "log"
    assert (log.read_text() if log.exists() else "") == installed


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('check = "false"', "is not in the box"),
        ('check = "false"\ninstall = "echo no network >&2; exit 7"', "ended with 7: no network"),
        ('check = "false"\ninstall = "true"', "fails nevertheless"),
        ('check = "sleep 60"\ninstall_timeout_seconds = 0.2', "took longer than 0.2 s"),
        ('upload = { "/opt/x" = "removed-folder" }', "removed-folder, which does not exist"),
    ],
)
async def test_setup_says_why_it_cannot(box, make_harness, tmp_path, keys, message):
    (tmp_path / "removed-folder").mkdir()
    harness = make_harness(f'[harness]\ncommand = ["true"]\n{keys}\n')
    (tmp_path / "removed-folder").rmdir()
    with pytest.raises(HarnessError, match=message):
        await harness.setup(box)


async def test_an_instruction_that_no_argument_holds_is_refused_with_the_way_out(
    box, make_harness, make_task
):
    long = "x" * 200_000
    with pytest.raises(HarnessError, match=r"pass the instruction by \{instruction_file\} or stdin"):
        await make_harness('[harness]\ncommand = ["true", "{instruction}"]\n').run(make_task(long), box, None)
    by_file = make_harness(
        '[harness]\ncommand = "wc -c < {instruction_file}; wc -c"\nstdin = "{instruction}"\n'
    )
    assert (await by_file.run(make_task(long), box, None)).output.split() == ["200000", "200000"]


async def test_a_trajectory_file_is_read_and_a_wrong_one_is_noted(box, make_harness, make_task):
    document = {"schema_version": "ATIF-v1.6", "steps": [{"step_id": 1}]}
    toml = """
        [harness]
        command = "cp trajectory.in {log_dir}/trajectory.json"
        trajectory = "{log_dir}/trajectory.json"
        """
    task = make_task()
    await box.write_file(f"{task.workdir}/trajectory.in", json.dumps(document).encode())
    assert (await make_harness(toml).run(task, box, None)).trajectory == document
    await box.write_file(f"{task.workdir}/trajectory.in", b"[1]")
    done = await make_harness(toml).run(task, box, None)
    assert done.trajectory is None and "no ATIF document" in done.metadata["trajectory_fault"]


async def test_keys_never_come_back_in_outputs_logs_trajectories_or_errors(
    box, make_harness, make_task, endpoint
):
    toml = """
        [harness]
        command = 'printf "{{\\"steps\\": [\\"$KEY\\"]}}" > t.json; env; printf "%s%032750d" "$KEY" 0'
        env = { KEY = "{api_key}" }
        trajectory = "{workdir}/t.json"
        """
    task = make_task()
    done = await make_harness(toml).run(task, box, endpoint)
    logged = (await box.read_file(f"{task.log_dir}/my-agent.txt")).decode()
    assert done.output == logged and "[key]000" in done.output
    assert done.trajectory == {"steps": ["[key]"]}
    with pytest.raises(HarnessError) as failed:
        await make_harness(toml, prepare="echo $KEY >&2; exit 3").run(task, box, endpoint)
    assert "[key]" in str(failed.value)
    # no part of a key either: the first characters of this box's keys are the same
    assert not any("sk-" in text for text in (done.output, str(done.trajectory), str(failed.value)))


async def test_prepare_runs_first_and_its_failure_is_no_result(box, make_harness, make_task, endpoint):
    toml = '[harness]\ncommand = ["cat", "made"]\nprepare = "echo {model} > made"\n'
    assert (await make_harness(toml).run(make_task(), box, endpoint)).output.strip() == "tiny"
    broken = make_harness('[harness]\ncommand = ["true"]\nprepare = "echo why >&2; exit 4"\n')
    with pytest.raises(HarnessError, match="prepare ended with 4: why"):
        await broken.run(make_task(), box, None)


async def test_a_program_that_needs_a_model_is_told_when_there_is_none(box, make_harness, make_task):
    with pytest.raises(HarnessError, match=r"needs a model for \{base_url\}"):
        await make_harness('[harness]\ncommand = ["true", "{base_url}"]\n').run(make_task(), box, None)
