"""The figures in our plugins' READMEs, and the findings in docs/certified/, are what certify finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from castform.certify.batch import certify_batch
from castform.certify.certification import Certification, CertifyOptions
from castform.certify.certify import certify_environment

ROOT = Path(__file__).parent.parent.parent
DOC = ROOT / "docs" / "certified" / "reasoning-gym.md"
EXAMPLES_OF_DOC = 12
KNOWN = {
    "game_of_life_halting": "reward_pays_dont_know",
    "puzzle24": "reward_pays_other_answer",
    "coin_flip": "reward_pays_common_start",
    "prime_factorization": "reward_raises",
}
"""Datasets whose scorers are known to be wrong, and how certify says so."""


def read_readme(plugin: str) -> dict[str, list[str]]:
    """Return the figures of a README's certificate by environment: ceiling, false fails, lazy policy."""
    text = (ROOT / "plugins" / f"castform-env-{plugin}" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)` \| (0\..*\)) \| (.*\)) \| (.*\)) \|$", text, re.MULTILINE)
    return {name: figures for name, *figures in rows}


def read_doc() -> dict[str, list[str]]:
    """Return the cells of the findings' table by dataset."""
    rows = [line.strip("| \n").split(" | ") for line in DOC.read_text(encoding="utf-8").splitlines()]
    return {row[0]: row for row in rows if len(row) > 2 and row[0] != "dataset"}


def test_the_readmes_of_our_plugins_show_what_certify_finds() -> None:
    shown = read_readme("arith") | read_readme("lookup")
    assert list(shown) == [
        "arith/default",
        "arith/add",
        "arith/add24",
        "arith/add2",
        "arith/subtract",
        "arith/mixed",
        "lookup",
    ]
    found = {}
    for result in certify_batch(list(shown), jobs=2):
        assert result.passed, result.describe()
        assert result.certification is not None and result.certification.rates is not None
        rates = result.certification.rates
        assert rates.false_pass_ceiling is not None and rates.false_pass_ceiling.share == 0.0
        found[result.id] = [str(r) for r in (rates.false_pass_ceiling, rates.false_fail, rates.lazy_policy)]
    assert found == shown


def certify(dataset: str) -> Certification:
    pytest.importorskip("castform_env_gym", reason="without a C compiler castform-env-gym is not installed")
    return certify_environment(f"gym/{dataset}", options=CertifyOptions(examples=EXAMPLES_OF_DOC))


@pytest.mark.parametrize("dataset", KNOWN)
def test_a_known_defect_of_reasoning_gym_is_caught_and_listed(dataset: str) -> None:
    found = certify(dataset)
    assert not found.passed
    assert KNOWN[dataset] in {finding.code for finding in found.faults}
    verdict, faults = read_doc()[dataset][1], read_doc()[dataset][6]
    assert verdict == "FAULT"
    assert KNOWN[dataset] in faults


def test_leg_counting_fails_right_answers_and_passes_no_wrong_one() -> None:
    found = certify("leg_counting")
    assert found.passed
    assert any(f.code.startswith("false_fail_") and f.level == "warning" for f in found.findings)
    assert found.rates is not None and found.rates.false_pass_ceiling is not None
    assert found.rates.false_pass_ceiling.share == 0.0
    assert read_doc()["leg_counting"][1:3] == ["no fault", "0.00"]


def test_the_page_lists_every_dataset_once_in_order() -> None:
    names = pytest.importorskip(
        "castform_env_gym.names", reason="without a C compiler castform-env-gym is not installed"
    )
    assert list(read_doc()) == list(names.DATASETS)
    text = DOC.read_text(encoding="utf-8")
    assert f"castform env certify gym --examples {EXAMPLES_OF_DOC} --json" in text
    faults = sum(row[1] == "FAULT" for row in read_doc().values())
    assert f"\n{faults} of 105 have a fault." in text
