"""A template in real boxes: another user's program, its files and its end."""

from __future__ import annotations

import pytest

from castform.harness import AgentTask
from castform.sandbox.contract import BoxRequest
from castform.sandbox.load import load_provider

TOML = """
[harness]
command = ["sh", "{run_dir}/deep/run.sh", "{instruction}"]
[harness.env]
KEY = "{api_key}"
[harness.files]
"{run_dir}/deep/run.sh" = { content = '''
id -un > who.txt; printf %s "$1" > told.txt; touch "$CASTFORM_RUN_DIR/deep/more" && echo own > own.txt
stat -c '%a %U' "$0" > mode.txt; echo "$CASTFORM_RUN_DIR" > run.txt; echo log > "$CASTFORM_LOG_DIR/more.txt"
test -n "$NEVER" && sleep 1000
exit 7
''', literal = true }
"""


@pytest.mark.parametrize(
    ("provider", "image"),
    [
        pytest.param("docker", "castform/base:local", marks=pytest.mark.docker),
        pytest.param("bubblewrap", None, marks=pytest.mark.bubblewrap),
    ],
)
async def test_a_program_runs_as_the_tasks_user_with_files_of_its_own(
    provider, image, make_harness, endpoint
):
    boxes = load_provider(provider)
    try:
        box = await boxes.start(BoxRequest(image=image))
        await box.exec(["sh", "-c", "mkdir -p /work && chown nobody /work"], cwd="/")
        harness = make_harness(TOML)
        task = AgentTask(instruction='it\'s "this" $HOME', workdir="/work", user="nobody")
        done = await harness.run(task, box, endpoint)
        assert (done.status, done.exit_code) == ("nonzero_exit", 7), done.output

        async def read(name):
            return (await box.read_file(f"/work/{name}")).decode().strip()

        assert await read("who.txt") == "nobody" and await read("told.txt") == task.instruction
        assert await read("own.txt") == "own" and await read("mode.txt") == "600 nobody"
        assert (await box.exec(["test", "-e", await read("run.txt")])).exit_code == 1
        assert await box.read_file("/logs/agent/more.txt") == b"log\n"
        slow = AgentTask(
            instruction="x", workdir="/work", user="nobody", timeout_seconds=3.0, env={"NEVER": "ends"}
        )
        assert (await harness.run(slow, box, endpoint)).status == "timeout"
        left = await box.exec(
            ["sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\\\0' ' ' | grep -c 'sleep 100[0]'"]
        )
        assert left.text.strip() == "0"
    finally:
        await boxes.aclose()
