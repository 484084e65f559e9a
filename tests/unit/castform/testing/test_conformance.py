"""Sound environments conform; a report says what held, what did not, and what was not checked."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import get_type_hints

import breakers
import pytest

from castform.errors import MissingError, UsageError
from castform.testing import assert_conforms, check_conformance
from castform.testing.conformance import RULES
from castform.testing.conformance.examined import Options, OptionWords
from castform.testing.conformance.run import examine

SOUND = Path(__file__).parents[3] / "environments" / "sound"
OTHER_PROCESS = {"stable_identity", "fixed_order", "no_heavy_import", "no_network"}
HERE = [rule.name for rule in RULES if rule.name not in OTHER_PROCESS]
"""The rules that start no interpreter."""
KINDS = ("guess_game", "polite_exchange", "ranked_group", "partial_credit")
"""Tools, several turns, siblings scored beside each other, partial credit."""


@pytest.mark.parametrize("name", KINDS)
def test_a_sound_environment_of_any_kind_keeps_every_rule(name):
    report = check_conformance(SOUND / f"{name}.py", only=HERE, examples=2, scripts=4)
    assert [(r.rule, r.state, r.reason) for r in report.results] == [(rule, "held", "") for rule in HERE]


def test_a_class_is_checked_here_and_in_another_process():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = assert_conforms(breakers.Doubles, examples=2, scripts=4)
    assert [result.rule for result in report.results] == [rule.name for rule in RULES]
    assert report.describe() == f"Doubles conforms ({len(RULES)} of {len(RULES)} held)"


def test_an_environment_that_hash_seeds_change_is_found_in_the_other_process():
    with pytest.raises(AssertionError, match="PYTHONHASHSEED, 3 of 3 examples have the same id and another"):
        assert_conforms(breakers.HashedPayloads(), only=["stable_identity"], examples=3)


def test_a_heavy_import_is_named_with_its_line(tmp_path):
    (tmp_path / "vllm.py").write_text("")  # stands in for the real one, which takes a minute
    own = (SOUND / "parity.py").read_text()
    (tmp_path / "imports_much.py").write_text(f"import os\nimport vllm\n{own}")
    told = r"imports vllm \(.*imports_much.py:2\)"
    with pytest.raises(AssertionError, match=told):
        assert_conforms(tmp_path / "imports_much.py", only=["no_heavy_import"])


def test_broken_rules_are_all_in_one_error_and_accepted_ones_are_not():
    rules = ["max_examples", "gold_is_paid", "probes_at_the_floor"]

    class Bad(breakers.PaysAnything, breakers.IgnoresMax):
        pass

    with pytest.raises(AssertionError) as caught:
        assert_conforms(Bad, only=rules, examples=3)
    text = str(caught.value)
    assert text.startswith("Bad breaks 3 rules (0 of 3 held)\n")
    assert [text.count(f"\n{rule}:") for rule in rules] == [1, 1, 1]
    report = check_conformance(
        Bad, only=rules, examples=3, accept={"max_examples": "the source has no index", "gold_is_paid": "odd"}
    )
    assert [result.state for result in report.results] == ["accepted", "accepted", "broken"]
    assert report.result("max_examples").reason == "the source has no index"


def test_what_is_not_checked_is_a_warning_of_an_environment_that_conforms():
    with pytest.warns(UserWarning, match="gold_is_paid: not checked: the environment gives no right answers"):
        report = assert_conforms(breakers.NoGold, only=["loads", "gold_is_paid"])
    assert [result.state for result in report.results] == ["held", "not_checked"]


def test_an_environment_without_examples_breaks_one_rule_and_leaves_the_others_open():
    class Empty(breakers.Doubles):
        def rows(self, split):
            return []

    report = check_conformance(Empty, only=["loads", "max_examples", "clean_cancel", "pickles"])
    assert [result.state for result in report.results] == ["broken"] + ["not_checked"] * 3
    assert report.results[0].breaches[0].message == "the train dataset has no examples"
    assert report.results[2].reason == "the examples cannot be loaded (rule loads)"


def test_rules_and_subjects_that_do_not_exist_are_refused_before_anything_runs():
    with pytest.raises(UsageError, match="no rule called 'gold_is_payed'") as caught:
        check_conformance(breakers.Doubles, only=["gold_is_payed"])
    assert caught.value.hint == "did you mean 'gold_is_paid'?"
    with pytest.raises(UsageError, match="no rule called 'pickle'"):
        check_conformance(breakers.Doubles, accept={"pickle": "why not"})
    with pytest.raises(UsageError, match="7 is no environment"):
        check_conformance(7)
    with pytest.raises(UsageError, match="made already"):
        check_conformance(breakers.Doubles(), args={"max_turns": 2})
    with pytest.raises(UsageError, match="made a PosixPath, not"):
        check_conformance(lambda: Path())


def test_every_entry_takes_the_same_options_and_refuses_others():
    said = {"loads", "max_examples"}
    for entry in (check_conformance, assert_conforms):
        report = entry(
            breakers.Doubles,
            args={"max_turns": 2},
            base_dir=Path(),
            split="eval",
            examples=2,
            scripts=1,
            weights={"correct": 2.0},
            seed=3,
            timeout_seconds=9.0,
            rule_seconds=60.0,
            only=said,
            accept={"pickles": "why not"},
        )
        assert {result.rule for result in report.results} == said
        with pytest.raises(TypeError, match="exampels"):
            entry(breakers.Doubles, exampels=2)
    fields = {field.name for field in dataclasses.fields(Options)}
    assert fields == set(get_type_hints(OptionWords)) and len(fields) == 9


def test_options_reach_what_is_examined():
    with examine(breakers.Doubles, split="eval", examples=2, timeout_seconds=9.0) as examined:
        assert examined.options == Options(split="eval", examples=2, timeout_seconds=9.0)
        assert len(examined.examples) == 2
    with examine(breakers.Doubles) as examined:
        assert examined.options == Options()


def test_without_hypothesis_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(MissingError, match="needs hypothesis") as caught:
        assert_conforms(breakers.Doubles)
    assert caught.value.hint == "pip install 'castform[test]'"


async def test_inside_an_event_loop_it_says_where_to_call_it():
    with pytest.raises(UsageError) as caught:
        assert_conforms(breakers.Doubles)
    assert "not `async def test_" in caught.value.hint


def test_the_suite_is_a_test_a_rule_with_options(tmp_path):
    (tmp_path / "env.py").write_text((SOUND / "parity.py").read_text())
    words = ["--castform-env", "env.py", "--castform-examples", "3", "--castform-accept", "max_examples=why"]
    ended = run_suite(tmp_path, *words, "-k", "loads or max_examples", "-v")
    assert ended.returncode == 0, ended.stdout
    assert [f"test_rule[{rule}] PASSED" in ended.stdout for rule in ("loads", "max_examples")] == [True, True]
    assert "2 passed" in ended.stdout


def test_the_suite_without_an_environment_says_which_option_names_it(tmp_path):
    ended = run_suite(tmp_path)
    assert ended.returncode != 0
    assert "--castform-env plugin/name" in ended.stdout + ended.stderr


def run_suite(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--pyargs", "castform.testing.suite", "-p", "no:cacheprovider"]
    plugin = ["-p", "castform.testing.pytest_plugin"]  # the name of its entry point: once, installed or not
    return subprocess.run(
        [*command, *plugin, *words],
        cwd=place,
        text=True,
        capture_output=True,
        check=False,
        env=dict(os.environ),
    )
