"""`castform env certify`: exit codes, findings with a command that shows them again, certificates."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from castform.certify.certificates import (
    FORMAT,
    CertificateState,
    read_certificate,
    read_states,
    summarize_states,
)
from castform.cli.main import main
from castform.plugins.catalog import CatalogEntry
from castform.plugins.pins import hash_content

ENVIRONMENT = '''
from benchmax.envs import BaseEnv, Dataset, Example


class Doubles(BaseEnv):
    """Twice a number; loose pays refusals too."""

    max_turns = 1

    def __init__(self, loose: bool = False, broken: bool = False):
        super().__init__()
        self.loose, self.broken = loose, broken

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        first = 10 if split == "train" else 60
        numbers = range(first, first + min(max_examples or 12, 12))
        return Dataset(
            [
                Example(
                    f"n{n}",
                    {
                        "prompt_messages": [{"role": "user", "content": f"Double {n}."}],
                        "answer": str(2 * n),
                    },
                )
                for n in numbers
            ]
        )

    def validation_diagnostics(self):
        from benchmax.envs import ValidationDiagnostic

        return [ValidationDiagnostic("error", "no_key", "a key is needed")] if self.broken else []

    async def compute_reward(self, rollout):
        text = rollout.messages[-1]["content"] or ""
        right = rollout.example_args["answer"] in text.split()[-1:]
        return {"correct": float(right or (self.loose and "sorry" in text))}
'''


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doubles.py").write_text(ENVIRONMENT)
    return tmp_path


def certify(capsys, *words):
    code = main(["env", "certify", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def certify_json(capsys, *words):
    code, out, _ = certify(capsys, *words, "--json")
    return code, json.loads(out)


def test_a_sound_environment_leaves_a_certificate_with_its_figures(place, capsys):
    code, data = certify_json(capsys, "doubles.py", "--examples", "6", "--output", "here.json")
    assert (code, data["passed"], data["examples"]) == (0, True, 6)
    certificate = read_certificate(data["certificate"])
    assert certificate == read_certificate(place / "here.json")
    assert Path(data["certificate"]).parent == place / "home" / "certificates"
    assert certificate["format"] == FORMAT
    assert certificate["environment"]["content_sha256"] == hash_content(place / "doubles.py")
    assert set(certificate["environment"]["datasets"]) == {"train", "eval"}
    assert {"castform", "python", "battery", "seed", "certified_at"} <= set(certificate)
    ceiling = certificate["rates"]["false_pass_ceiling"]
    assert (ceiling["share"], ceiling["n"], ceiling["low"]) == (0.0, 6, 0.0)
    assert ceiling["high"] == pytest.approx(0.390, abs=0.001)
    assert [finding["code"] for finding in certificate["unchecked"]] == ["model"]


def test_a_fault_exits_with_1_and_its_command_shows_it_again(place, capsys):
    code, data = certify_json(capsys, "doubles.py", "-a", "loose=true", "--examples", "4", "--seed", "3")
    assert code == 1
    assert data["passed"] is False
    [fault] = [finding for finding in data["findings"] if finding["level"] == "fault"]
    assert (fault["code"], fault["check"], fault["example_id"]) == ("reward_pays_refusal", "refusal", "n10")
    words = shlex.split(fault["reproduce"])
    assert words == [
        "castform", "env", "certify", "doubles.py", "--only", "refusal", "--example", "n10",
        "-a", "loose=true", "--examples", "4", "--seed", "3",
    ]  # fmt: skip
    code, out, _ = certify(capsys, *words[3:])
    assert code == 1
    assert "Double 10." in out
    assert "I'm sorry" in out
    assert "correct  1" in out
    assert "found again" in out
    sound = [word for word in words[3:] if word not in ("-a", "loose=true")]
    code, out, _ = certify(capsys, *sound)
    assert code == 0
    assert ": nothing found" in out


@pytest.mark.parametrize(
    "beginning",
    ["-n", "a b/'\"$(exit 9)`x`\\\\", "zwei\\n\\x1b[2J'1", "\\u202eä"],
    ids=["dash", "shell", "control", "unicode"],
)
def test_the_command_that_shows_a_finding_again_survives_a_shell(place, capsys, beginning):
    text = ENVIRONMENT.replace('f"n{n}"', f'"""{beginning}""" + str(n)').replace(
        "loose: bool = False", "loose: bool = False, mode: str = ''"
    )
    (place / "it's doubles.py").write_text(text)
    code, data = certify_json(
        capsys, "it's doubles.py", "-a", "loose=true", "-a", 'mode="1"', "--examples", "2",
        "--set", "environment.base_dir=some where",
    )  # fmt: skip
    [fault] = [finding for finding in data["findings"] if finding["level"] == "fault"]
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {fault['reproduce']}"], capture_output=True, check=True
    )
    words = shown.stdout.decode().split("\0")[:-1]
    assert fault["reproduce"].isprintable()
    assert "environment.base_dir=some where" in words
    code, data = certify_json(capsys, *words[3:])
    assert (code, data["conclusion"]) == (1, "refusal: found again")
    assert data["findings"][0]["example_id"] == fault["example_id"]


def test_an_accepted_fault_passes_with_its_reason_in_the_certificate(place, capsys):
    code, data = certify_json(
        capsys, "doubles.py", "-a", "loose=true", "--examples", "4",
        "--accept", "reward_pays_refusal=refusing is allowed here",
    )  # fmt: skip
    assert (code, data["passed"]) == (0, True)
    certificate = read_certificate(data["certificate"])
    assert certificate["accepted"] == {"reward_pays_refusal": "refusing is allowed here"}
    [finding] = [f for f in certificate["findings"] if f["code"] == "reward_pays_refusal"]
    assert finding["accepted"] == "refusing is allowed here"


def test_what_the_environment_knows_to_be_wrong_ends_it(place, capsys):
    code, data = certify_json(capsys, "doubles.py", "-a", "broken=true")
    assert code == 1
    assert [(f["code"], f["check"]) for f in data["findings"]] == [("no_key", "diagnostics")]
    assert data["probes"] is None


def test_no_time_left_is_said_and_not_taken_for_a_pass(place, capsys):
    code, data = certify_json(capsys, "doubles.py", "--max-seconds", "0.000001")
    assert code == 1
    unchecked = {(f["code"], f["check"]) for f in data["unchecked"]}
    assert {("no_time", "probes"), ("no_time", "static"), ("no_time", "isolation")} <= unchecked
    assert data["rates"] is None
    assert (data["passed"], data["complete"], data["verdict"]) == (False, False, "unchecked")
    assert data["conclusion"].startswith("unchecked: no answer was scored")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nosuch.py"], "nosuch.py does not exist"),
        (["doubles.py", "--only", "nosuch"], "no probe or check called 'nosuch'"),
        (["nosuch.py", "--only", "nosuch"], "no probe or check called 'nosuch'"),
        (["doubles.py", "--only", "empty", "--example", "nosuch"], "example 'nosuch' is not among"),
        (["doubles.py", "--example", "n10"], "--example needs --only"),
        (["doubles.py", "--accept", "reward_pays_empty"], "is not CODE=REASON"),
        (["doubles.py", "--accept", "reward_pays_empty= "], "is not CODE=REASON"),
        (["doubles.py", "--max-seconds", "0"], "not a positive number"),
        (["doubles.py", "--base-url", "http://127.0.0.1:9/v1"], "--base-url needs -m"),
    ],
)
def test_wrong_words_exit_with_2(place, capsys, words, message):
    code, out, err = certify(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_the_traceback_is_shown_wherever_v_stands(place, capsys):
    (place / "broken.py").write_text("raise ValueError('at import')\n")
    code, out, err = certify(capsys, "broken.py", "-v")
    assert (code, out) == (1, "")
    assert "in _import_file" in err or 'broken.py", line 1' in err
    assert err.rstrip().endswith("-v shows the traceback")
    _, _, err = certify(capsys, "broken.py")
    assert "Traceback" not in err


def test_a_folder_that_cannot_be_made_is_one_clear_error(place, capsys):
    (place / "file").write_text("")
    words = ["doubles.py", "--examples", "2", "--max-seconds", "0.001"]
    code, out, err = certify(capsys, *words, "--output", "file/c.json")
    assert code == 2
    assert "the certificate cannot be written to file/c.json" in err
    assert "no answer was scored" in out  # what was found is shown all the same
    code, out, err = certify(
        capsys, *words, "--accept", "nosuch=it is fine", "--json", "--output", "file/c.json"
    )
    assert (code, json.loads(out)["passed"]) == (2, False)
    assert "note: --accept nosuch: nothing was found under this code" in err


@pytest.fixture
def package(place):
    """A plugin's package beside its metadata, with a certificate that it ships."""
    folder = place / "site" / "made_up_plugin"
    (folder / "certificates").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    entry = CatalogEntry(
        "made-up",
        "made_up_plugin.plugin",
        "castform-env-made-up",
        "1.0",
        "",
        (),
        str(place / "site" / "x.dist-info"),
    )
    certificate = {
        "format": FORMAT,
        "passed": True,
        "environment_name": "sums",
        "package": "made_up_plugin",
        "arguments": {},
        "battery": "1",
        "environment": {
            "distribution": "castform-env-made-up",
            "version": "1.0",
            "content_sha256": hash_content(folder),
        },
    }
    return folder, entry, certificate


def write(path: Path, certificate: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(certificate))


def test_a_shipped_certificate_holds_until_what_it_is_about_changes(package):
    folder, entry, certificate = package
    assert read_states(entry) == []
    assert summarize_states([]) == "none"
    write(folder / "certificates" / "sums.json", certificate)
    [state] = read_states(entry)
    assert (state.environment, state.status, state.shipped, str(state)) == ("sums", "passed", True, "passed")
    (newer,) = read_states(entry._replace(version="1.1"))
    assert str(newer) == "expired: version 1.0 -> 1.1"
    (other,) = read_states(entry._replace(distribution="another"))
    assert str(other) == "expired: distribution castform-env-made-up -> another"
    (folder / "reward.py").write_text("# changed")
    assert [str(state) for state in read_states(entry)] == ["expired: files"]
    write(folder / "certificates" / "sums.json", {**certificate, "battery": "0"})
    assert [str(state) for state in read_states(entry)] == ["expired: files, probes 0 -> 1"]


class OneFolder:
    """What an editable install may put among the importers: it alone knows where the package lies."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        if name != self.folder.name:
            return None
        return importlib.util.spec_from_file_location(
            name, self.folder / "__init__.py", submodule_search_locations=[str(self.folder)]
        )


@pytest.mark.parametrize("way", ["on the path", "in the folder that the command is run in", "by a finder"])
def test_a_package_that_is_not_beside_its_metadata_is_found_where_an_import_would(
    package, place, monkeypatch, way
):
    folder, entry, certificate = package
    write(folder / "certificates" / "sums.json", certificate)
    moved = entry._replace(path=str(place / "elsewhere" / "x.dist-info"))
    assert read_states(moved) == []
    if way == "on the path":
        monkeypatch.syspath_prepend(str(folder.parent))
    elif way == "by a finder":
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, OneFolder(folder)])
    else:
        monkeypatch.chdir(folder.parent)
        monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert [(s.status, s.shipped) for s in read_states(moved)] == [("passed", True)]
    (folder / "reward.py").write_text("# changed")
    assert [str(s) for s in read_states(moved)] == ["expired: files"]


@pytest.mark.parametrize("beside", [True, False])
def test_a_plugin_that_is_one_module_holds_by_that_file(package, place, monkeypatch, beside):
    _, entry, certificate = package
    module = place / "modules" / "made_up_module.py"
    module.parent.mkdir()
    module.write_text("raise RuntimeError('imported')\n")
    if not beside:
        monkeypatch.syspath_prepend(str(module.parent))
    site = module.parent if beside else place / "elsewhere"
    entry = entry._replace(module="made_up_module:plugin", path=str(site / "x.dist-info"))
    pin = {**certificate["environment"], "content_sha256": hash_content(module)}
    made = place / "home" / "certificates" / "made-up--sums.json"
    write(made, {**certificate, "package": "made_up_module", "environment": pin})
    assert [str(state) for state in read_states(entry)] == ["passed"]
    (module.parent / "another.py").write_text("")
    assert [str(state) for state in read_states(entry)] == ["passed"]
    module.write_text("")
    assert [str(state) for state in read_states(entry)] == ["expired: files"]


def test_a_certificate_made_here_counts_before_the_shipped_one_unless_it_has_expired(package, place):
    folder, entry, certificate = package
    made = place / "home" / "certificates" / "made-up--sums.json"
    write(folder / "certificates" / "sums.json", certificate)
    write(made, {**certificate, "passed": False})
    assert [(s.status, s.shipped) for s in read_states(entry)] == [("failed", False)]
    write(made, {**certificate, "passed": False, "battery": "0"})
    assert [(s.status, s.shipped) for s in read_states(entry)] == [("passed", True)]
    write(made, {**certificate, "passed": False, "verdict": "unchecked"})
    assert [(s.status, s.shipped) for s in read_states(entry)] == [("unchecked", False)]
    made.unlink()
    write(made.with_name("made-up--other.json"), {**certificate, "environment_name": "other"})
    assert summarize_states(read_states(entry)) == "2 passed"


def test_what_is_no_certificate_or_of_other_arguments_is_not_listed(package, place):
    folder, entry, certificate = package
    write(folder / "certificates" / "a.json", {**certificate, "format": "something else"})
    write(folder / "certificates" / "b.json", {**certificate, "arguments": {"level": 2}})
    (folder / "certificates" / "c.json").write_text("{")
    assert read_states(entry) == []


def test_listing_shows_certificates_and_imports_nothing(place, capsys):
    assert main(["env", "certify", "arith/add", "--examples", "4", "--max-seconds", "20"]) == 0
    capsys.readouterr()
    assert main(["env", "list", "--json"]) == 0
    [arith] = [e for e in json.loads(capsys.readouterr().out) if e["plugin"] == "arith"]
    made = [each for each in arith["certificates"] if not each["shipped"]]
    assert made == [{"environment": "add", "status": "passed", "changes": [], "shipped": False}]
    assert {each["status"] for each in arith["certificates"]} == {"passed"}  # the package's own hold too
    assert main(["env", "list", "arith"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "CERTIFICATE" in lines[0]
    assert [line.split()[-1] for line in lines if line.startswith("arith/add ")] == ["passed"]
    assert main(["env", "list", "search"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("search/judged ")] == ["none"]


def test_a_plugins_certificates_are_counted_by_what_they_say():
    states = [CertificateState(str(i), s) for i, s in enumerate(["passed", "unchecked", "failed", "passed"])]
    assert summarize_states(states) == "2 passed, 1 failed, 1 unchecked"
