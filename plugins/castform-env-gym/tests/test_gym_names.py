from __future__ import annotations

import subprocess
import sys

import pytest

from castform.plugins import load_environment

factories = pytest.importorskip(
    "castform_env_gym.factories", reason="without a C compiler castform-env-gym is not installed"
)
names = pytest.importorskip(
    "castform_env_gym.names", reason="without a C compiler castform-env-gym is not installed"
)
BY_CATEGORY, DATASETS = names.BY_CATEGORY, names.DATASETS


def test_the_written_down_names_are_those_of_the_installed_package() -> None:
    from reasoning_gym.factory import DATASETS as installed

    categories = {name: cls.__module__.split(".")[1] for name, (cls, _) in installed.items()}
    assert {**DATASETS, "composite": "composite"} == categories
    assert len(DATASETS) == 105 == sum(map(len, BY_CATEGORY.values()))


def test_listing_106_environments_imports_no_reasoning_gym() -> None:
    code = (
        "import sys; from castform_env_gym.plugin import register_environments as r; specs = r()\n"
        "print(len(specs), 'reasoning_gym' in sys.modules, 'pydantic' in sys.modules, 'numpy' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["106", "False", "False", "False"]


def test_a_factory_exists_for_datasets_alone() -> None:
    assert factories.gcd.dataset == "gcd"
    with pytest.raises(AttributeError, match="no_such_set"):
        _ = factories.no_such_set


def test_underscores_and_dashes_name_the_same_environment() -> None:
    assert load_environment("gym/coin_flip").environment.dataset == "coin_flip"
    assert load_environment("gym/coin-flip").environment.dataset == "coin_flip"
