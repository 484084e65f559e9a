"""`castform env new`: whole or not at all, nothing overwritten, and code that one can learn from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmax.envs import Environment
from castform.authoring.names import PREFIX
from castform.authoring.new import TEMPLATES, NewPlugin, castform_range, write_plugin
from castform.cli.main import main
from castform.environments import load_examples
from castform.errors import UsageError
from castform.plugins import load_environment, load_registry
from castform.testing import assert_conforms

WORDS = ("PLUGIN_NAME", "PACKAGE_NAME", "DISTRIBUTION_NAME", "CASTFORM_RANGE", "SUMMARY")
RULES = "E,F,W,I,UP,B,C4,SIM,RUF,PTH,ASYNC,BLE,N,PIE,RET"
LAYOUT = {".gitignore", "README.md", "pyproject.toml", "tests/test_environment.py"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_filled_in_and_complete(template: str, generated: dict[str, NewPlugin]) -> None:
    new = generated[template]
    package = new.names.package
    data = {f"{package}/data/{split}.jsonl" for split in ("train", "eval")}
    assert LAYOUT | data | {f"{package}/{name}" for name in ("__init__.py", "plugin.py", "py.typed")} <= set(
        new.files
    )
    for name in new.files:
        text = (new.folder / name).read_text(encoding="utf-8")
        assert not [word for word in WORDS if word in text or word in name], name
    project = tomllib.loads((new.folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == new.folder.name == f"{PREFIX}my-{template}"
    assert project["entry-points"]["castform"] == {f"my-{template}": f"{package}.plugin"}
    assert project["dependencies"] == [f"castform{castform_range()}"]


def test_the_code_of_all_templates_is_clean(generated: dict[str, NewPlugin]) -> None:
    folders = [new.folder for new in generated.values()]
    sources = ",".join(f'"{folder}"' for folder in folders)
    ruff = [sys.executable, "-m", "ruff"]
    common = ["--isolated", "--no-cache", "--config", f"src=[{sources}]", *map(str, folders)]
    for words in (["check", "--select", RULES, "--ignore", "E501"], ["format", "--check"]):
        done = subprocess.run([*ruff, *words, *common], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("template", TEMPLATES)
async def test_a_template_has_data_in_two_splits_that_share_nothing(template: str) -> None:
    loaded = load_environment(f"my-{template}")
    assert isinstance(loaded.environment, Environment)
    assert (loaded.id, loaded.spec.summary) == (f"my-{template}/default", TEMPLATES[template])
    train, held_out = [
        await load_examples(loaded.environment, split, loaded.base_dir) for split in ("train", "eval")
    ]
    assert len(train) >= 10 and len(held_out) >= 6
    assert not {e.id for e in train} & {e.id for e in held_out}
    truths = [e.payload["ground_truth"] for e in train]
    assert len(set(truths)) > len(truths) * 0.9  # no answer that is worth always giving
    await loaded.environment.aclose()


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("template", [name for name in TEMPLATES if name != "harness"])
def test_a_template_pays_what_is_right_and_nothing_else(template: str) -> None:
    """The other rules start processes: `make test-installs` checks them."""
    rules = ["any_answer_is_scored", "finite_rewards", "gold_is_paid", "max_examples", "probes_at_the_floor"]
    report = assert_conforms(f"my-{template}", examples=20, only=rules)
    assert [(result.rule, result.state) for result in report.results if result.state != "held"] == []


def test_the_tests_that_templates_bring_pass(generated: dict[str, NewPlugin], site: Path) -> None:
    """All but the rules, which the tests above and `make test-installs` check."""
    folders = [new.folder for new in generated.values()]
    words = ["-q", "--import-mode=importlib", "-p", "no:cacheprovider", "-k", "not keeps"]
    config = folders[0] / "pyproject.toml"
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            *words,
            "-c",
            config,
            *(folder / "tests" for folder in folders),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])},
        cwd=folders[0].parent,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 16 passed" in f" {done.stdout.splitlines()[-1]}", done.stdout


@pytest.mark.usefixtures("site")
def test_a_plugin_module_is_names_and_strings(generated: dict[str, NewPlugin]) -> None:
    for new in generated.values():
        plugin = load_registry().load(new.names.plugin)
        assert plugin.list_hooks() == ["register_environments"]
        source = (new.folder / new.names.package / "plugin.py").read_text()
        imports = [line for line in source.splitlines() if line.startswith(("import ", "from "))]
        assert imports == [
            "from __future__ import annotations",
            "from castform.plugins import EnvironmentSpec, hookimpl",
        ]


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "castform-env-mine").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        write_plugin("mine", directory=tmp_path)
    assert list((tmp_path / "castform-env-mine").iterdir()) == []
    (tmp_path / "castform-env-link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is there already"):
        write_plugin("link", directory=tmp_path)


def test_a_folder_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write") as caught:
        write_plugin("mine", directory=tmp_path / "file")
    assert caught.value.hint == "--dir names another place"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_folders_above_it_are_made_and_the_work_folder_is_gone(tmp_path: Path) -> None:
    new = write_plugin("mine", directory=tmp_path / "a" / "b")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["castform-env-mine"]
    assert new.folder.stat().st_mode & 0o777 == (tmp_path / "a").stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.1.0", ">=0.1,<0.3"), ("0.9.3", ">=0.9,<0.11"), ("1.0.0rc1", ">=1.0,<1.2"), ("2.5", ">=2.5,<2.7")],
)
def test_the_range_reaches_as_far_as_the_notice(version: str, expected: str) -> None:
    assert castform_range(version) == expected


def test_the_command_lists_what_it_wrote_and_says_what_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["env", "new", "mine", "--template", "tools"]) == 0
    out, err = capsys.readouterr()
    assert "castform-env-mine/castform_env_mine/catalogue.py" in out.splitlines()
    steps = [line.partition("#")[0].strip() for line in err.splitlines() if "#" in line]
    assert steps == [
        "castform env check castform-env-mine",
        "pip install -e ./castform-env-mine",
        "castform env certify mine",
    ]
    assert main(["env", "new", "mine"]) == 2
    assert "is there already" in capsys.readouterr().err


def test_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "new", "mine", "--dir", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["plugin"], told["package"], told["template"]) == ("mine", "castform_env_mine", "single")
    assert all((Path(told["folder"]) / name).is_file() for name in told["files"])


def test_an_installed_plugins_name_and_an_unknown_template_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["env", "new", "arith", "--dir", str(tmp_path)]) == 2
    assert "a plugin called 'arith' is installed" in capsys.readouterr().err
    assert main(["env", "new", "mine", "--template", "tool", "--dir", str(tmp_path)]) == 2
    assert "did you mean 'tools'?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
