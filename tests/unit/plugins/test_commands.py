"""The command line, in processes of its own: what it prints, where, and how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest


def test_env_list_is_a_table_and_imports_nothing(castform, install):
    install("sound", "exit_at_import", "slow_import")
    done = castform("env", "list")
    assert done.returncode == 0 and done.stderr == ""
    lines = [line for line in done.stdout.splitlines() if "castform-env-" in line]
    sound = next(line for line in lines if line.startswith("sound"))
    assert sound.split()[-3:] == ["castform-env-sound", "1.2.0", "none"]
    rows = json.loads(castform("env", "list", "--json").stdout)
    assert {"exit", "slow", "sound"} <= {row["plugin"] for row in rows}
    assert "castform" not in {row["plugin"] for row in rows}


def test_a_name_that_is_claimed_twice_is_noted_beside_the_list(castform, install):
    install("clash_one", "clash_two")
    for words in (["env", "list"], ["plugins"]):
        done = castform(*words)
        assert "castform-env-twice-one and castform-env-twice-two both claim the name 'twice'" in done.stderr
        assert done.returncode == 0


def test_env_list_of_a_plugin_shows_its_environments(castform, install):
    install("sound", "exit_at_import")
    done = castform("env", "list", "sound")
    assert "sound/echo" in done.stdout and "Say a word back" in done.stdout
    rows = json.loads(castform("env", "list", "sound", "--json").stdout)
    assert rows[0] == {
        "id": "sound/echo",
        "summary": "Say a word back",
        "tags": ["text"],
        "requires": [],
        "certificate": None,
    }


def test_env_show_plays_the_first_example_without_a_model(castform, install):
    install("sound")
    done = castform("env", "show", "sound/echo", "--arg", 'words=["hm", "oh", "ah"]')
    assert done.returncode == 0, done.stderr
    for text in (
        "6 train, 3 eval",
        "same 1 (for the right answer alone)",
        "Say hm",
        "sound/same",
        "What is to be said",
    ):
        assert text in done.stdout, done.stdout
    shown = json.loads(castform("env", "show", "sound/echo", "--json").stdout)
    assert shown["sizes"] == {"train": 4, "eval": 2} and shown["seen_rewards"] == {"same": 1.0}
    assert shown["messages"] == [{"role": "user", "content": "Say yes"}]


def test_a_broken_line_of_a_dataset_is_named_by_file_and_line(castform, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"q": "a"}\n{"q": \n')
    (tmp_path / "my_env.py").write_text(
        "from benchmax.envs import BaseEnv, Example, JsonlDataset\n"
        "class MyEnv(BaseEnv):\n"
        "    async def create_dataset(self, split, base_dir, *, max_examples=None):\n"
        "        return JsonlDataset(base_dir / 'rows.jsonl', row_to_example=lambda r: Example(r['q'], r))\n"
    )
    done = castform("env", "show", str(tmp_path / "my_env.py"))
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
    assert f"{tmp_path}/rows.jsonl:2" in done.stderr


def test_an_environment_that_breaks_its_contract_is_shown_with_what_is_wrong(castform, tmp_path):
    (tmp_path / "my_env.py").write_text(
        "from benchmax.envs import Environment, Dataset, Example\n"
        "class MyEnv(Environment):\n"
        "    async def create_dataset(self, split, base_dir, *, max_examples=None):\n"
        "        return Dataset([Example('a', {'q': 1})] if split == 'eval' else [])\n"
        "    async def run_rollout(self, request):\n"
        "        raise RuntimeError('no such gym')\n"
    )
    done = castform("env", "show", str(tmp_path / "my_env.py"))
    assert done.returncode == 0, done.stderr
    assert "1 eval, the train dataset has no examples" in done.stdout
    assert "no such gym" in done.stdout and '{"q": 1}' in done.stdout


def test_a_failed_command_says_what_and_what_to_do(castform, install):
    install("sound")
    done = castform("env", "show", "suond")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(
        "error: no plugin called 'suond'\n\nhint: did you mean 'sound'? `castform env list` shows"
    )


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["evn"], "no command called 'evn'", "did you mean 'env'?"),
        (["--frobnicate"], "no option called --frobnicate", "castform --help"),
        (["env"], "the following arguments are required: list|show", "castform env --help"),
        (["env", "list", "--jsno"], "--jsno", "castform --help"),
        (["env", "show", "sound", "--arg", "x"], "--arg 'x' is not NAME=VALUE", "difficulty=2"),
    ],
)
def test_a_wrong_command_line_exits_2(castform, words, message, hint):
    done = castform(*words)
    assert done.returncode == 2 and done.stdout == ""
    assert message in done.stderr.partition("hint:")[0] and "Traceback" not in done.stderr
    assert "hint:" in done.stderr


def test_a_broken_plugin_is_raised_when_asked_for_and_listed_by_a_check(castform, install):
    install("sound", "import_error", "noisy_import")
    done = castform("env", "list", "import-error")
    assert done.returncode == 1 and "castform-env-import-error" in done.stderr and "cuda_thing" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in castform("-v", "env", "list", "import-error").stderr
    assert "Traceback" in castform("env", "list", "import-error", "-v").stderr
    done = castform("plugins", "--check", "--json")
    reports = {r["plugin"]: r for r in json.loads(done.stdout)}
    assert done.returncode == 1
    assert reports["sound"]["ok"] and reports["import-error"]["stage"] == "import"
    assert castform("plugins", "--check", "sound").returncode == 0


def test_a_plugin_shows_what_it_registers(castform, install):
    install("sound")
    done = castform("plugins", "sound", "--json")
    shown = json.loads(done.stdout)
    assert shown["hooks"] == [
        "register_environments",
        "register_rewards",
        "register_commands",
        "explain_error",
    ]
    assert {r["id"] for r in shown["registers"]} == {"sound/echo", "sound/needy", "sound/same"}


def test_a_plugins_command_runs_and_its_exit_code_is_kept(castform, install):
    install("sound")
    assert "shout" in castform("x", "sound").stdout
    done = castform("x", "sound", "shout", "hi")
    assert (done.returncode, done.stdout) == (4, "HI\n")
    done = castform("x", "sound", "shotu", "hi")
    assert done.returncode == 2 and "did you mean 'shout'?" in done.stderr
    assert castform("x", "sound", "shout").returncode == 2


def test_version_and_help(castform):
    from castform import __version__

    assert castform("--version").stdout == f"castform {__version__}\n"
    for words in ([], ["--help"], ["help"]):
        assert "doctor" in castform(*words).stdout
    done = castform("env", "show", "--help")
    assert done.returncode == 0 and "--arg" in done.stdout


def test_a_reader_that_goes_away_is_no_traceback(install):
    install("sound")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "castform", "--help"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(write)
    assert done.returncode == 141 and done.stderr == ""


def test_doctor_is_json_for_programs(castform, install, tmp_path):
    install("import_error")
    done = castform("doctor", "--json", CASTFORM_HOME=str(tmp_path / "home"))
    shown = {f["check"]: f for f in json.loads(done.stdout)["findings"]}
    assert shown["import castform"]["level"] == shown["CASTFORM_HOME"]["level"] == "ok"
    assert shown["plugin import-error"]["level"] == "warning"
    assert done.returncode == 0
    assert not (tmp_path / "home").exists()


def test_doctor_refuses_a_second_owner_of_the_import_names(castform, install):
    site = install()
    info = site / "benchmax-0.2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: benchmax\nVersion: 0.2.5\n")
    (info / "top_level.txt").write_text("benchmax\n")
    done = castform("doctor")
    assert done.returncode == 3
    assert "claimed by benchmax" in done.stdout and "pip uninstall benchmax" in done.stderr


def test_doctor_finds_a_home_that_cannot_be_written(castform, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    done = castform("doctor", CASTFORM_HOME=str(file / "home"))
    assert done.returncode == 3 and "cannot be written to" in done.stdout


def test_env_show_of_a_file_shows_its_first_line_and_what_the_right_answer_earns(castform, tmp_path):
    (tmp_path / "spell.py").write_text(
        '"""Spell words."""\n'
        "from benchmax.envs import BaseEnv, Dataset, Example\n"
        "class Spell(BaseEnv):\n"
        "    max_turns = 1\n"
        "    async def create_dataset(self, split, base_dir, *, max_examples=None):\n"
        "        prompt = [{'role': 'user', 'content': 'Spell cat'}]\n"
        "        row = {'prompt_messages': prompt, 'ground_truth': 'c-a-t'}\n"
        "        return Dataset([Example(split, row)])\n"
        "    async def compute_reward(self, rollout):\n"
        "        said = rollout.messages[-1]['content']\n"
        "        return {'right': float('<answer>c-a-t</answer>' in said), 'nice': 0.5}\n"
    )
    done = castform("env", "show", str(tmp_path / "spell.py"))
    assert done.returncode == 0, done.stderr
    assert "Spell words." in done.stdout
    assert "right 1, nice 0.5 (for the right answer alone, in the form: <answer> tags)" in done.stdout
