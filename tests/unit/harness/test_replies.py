"""What a model's words mean to terminus-lite."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.sandbox.contract import ExecResult
from castform_harbor.harnesses.atif_steps import make_messages
from castform_harbor.harnesses.box_shell import cut_middle, run_command
from castform_harbor.harnesses.replies import read_reply

LAW = settings(max_examples=40, deadline=None)
CASES = {
    "block": ("```sh\nls\npwd\n```", ["ls\npwd"], False),
    "no-label": ("text\n```\nls\n```\nmore", ["ls"], False),
    "several": ("```bash\na\n```\n```shell\nb\n```", ["a", "b"], False),
    "tildes": ("~~~sh\nls\n~~~", ["ls"], False),
    "longer-fence": ("````sh\ncat <<X\n```\nX\n````", ["cat <<X\n```\nX"], False),
    "unclosed": ("```sh\nls -l", ["ls -l"], False),
    "one-line": ("```sh ls -l```", ["ls -l"], False),
    "prompts": ("```\n$ ls\n$ pwd\n```", ["ls\npwd"], False),
    "session": ("```console\n$ ls\na.txt\nb.txt\n$ cat a.txt\n```", ["ls\ncat a.txt"], False),
    "variable": ("```sh\necho $ x\n# note\n```", ["echo $ x\n# note"], False),
    "other-language": ("```python\nprint(1)\n```", [], False),
    "thinking": ("<think>\n```sh\nrm -rf /\n```\nDONE\n</think>\n```sh\nls\n```", ["ls"], False),
    "thinking-only": ("<think>\n```sh\nrm -rf /\n```", [], False),
    "done": ("DONE", [], True),
    "done-bold": ("It works.\n\n**DONE**", [], True),
    "done-small": ("Done.", [], True),
    "done-block": ("```\nDONE\n```", [], True),
    "done-after": ("```sh\nls\n```\nDONE", ["ls"], True),
    "done-in-prose": ("I am done with this. DONE soon.", [], False),
    "done-in-command": ("```sh\necho DONE\n```", ["echo DONE"], False),
    "empty": ("", [], False),
    "empty-block": ("```sh\n```", [], False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_reply_is_read(name):
    text, commands, done = CASES[name]
    read = read_reply(text)
    assert (list(read.commands), read.done) == (commands, done)


@LAW
@given(st.text())
def test_no_reply_is_too_odd(text):
    read = read_reply(text)
    assert all(command.strip() for command in read.commands)


@LAW
@given(st.text(), st.integers(2, 50))
def test_cutting_keeps_head_and_tail(text, limit):
    cut = cut_middle(text, limit)
    assert (
        cut == text
        if len(text) <= limit
        else cut.startswith(text[: limit // 2]) and cut.endswith(text[-(limit // 2) :])
    )


@pytest.mark.parametrize(
    "line",
    [
        "```sh a" + " " * 200_000 + "x",
        "~" * 200_000 + "`",
        "```" + "a" * 200_000 + "`",
        "```" + " " * 200_000 + "`",
    ],
    ids=["spaces", "tildes", "letters", "blanks"],
)
def test_a_model_that_repeats_itself_without_end_is_read_at_once(line):
    started = time.process_time()
    assert read_reply(line).commands == ()
    assert time.process_time() - started < 5


def test_a_command_keeps_characters_that_end_lines_elsewhere_only():
    assert read_reply("```sh\necho 'a\u2028b\x0cc'\r\nls\n```").commands == ("echo 'a\u2028b\x0cc'\nls",)


def test_messages_of_other_agents_documents_are_read():
    document = {
        "steps": [
            {"source": "system", "message": "rules"},
            {"source": "user", "message": [{"type": "text", "text": "go"}]},
            {
                "source": "agent",
                "message": "",
                "tool_calls": [
                    {"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "ls"}}
                ],
                "observation": {"results": [{"source_call_id": "1", "content": "a.txt"}]},
            },
            {"source": "agent", "message": "fine"},
        ]
    }
    assert make_messages(document) == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "```sh\nls\n```"},
        {"role": "user", "content": "a.txt"},
        {"role": "assistant", "content": "fine"},
    ]


@pytest.mark.parametrize(
    "steps",
    [None, 3, "x", [None, "x", 3], [{"source": "agent", "tool_calls": [None, {"arguments": 1}, {}]}]],
    ids=["none", "number", "text", "items", "calls"],
)
def test_a_document_that_is_no_atif_says_nothing(steps):
    assert [m["content"] for m in make_messages({"steps": steps})] in ([], [""])


def test_what_one_side_says_twice_in_a_row_is_one_message():
    steps = [{"source": "user", "message": "a"}, {"source": "user", "message": "b", "observation": "odd"}]
    assert make_messages({"steps": steps}) == [{"role": "user", "content": "a\n\nb"}]


class SaidBox:
    """A box in which a program that was left running prints once the shell has said where it ended."""

    async def exec(self, command, **more):
        return ExecResult(exit_code=0, stdout=b"soon\n\nmark-/work dir\nlate\n")


async def test_what_a_command_left_running_prints_is_no_part_of_a_folder():
    limits = {"timeout_seconds": 1.0, "max_characters": 100}
    done = await run_command(SaidBox(), "ls &", cwd="/", user=None, env={}, marker="mark-", **limits)
    assert (done.cwd, done.text) == ("/work dir", "soon\nlate")
