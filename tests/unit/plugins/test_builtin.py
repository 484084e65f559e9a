"""What castform brings itself, through the hooks that everybody uses."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from castform.errors import UsageError
from castform.plugins import EngineSpec, RewardSpec, load_engine_factory, load_registry
from castform.plugins.references import import_reference


def own_specs(kind):
    return load_registry().load("castform").specs(kind).values()


@pytest.mark.parametrize("spec", own_specs(RewardSpec), ids=lambda spec: spec.name)
def test_a_reward_of_castforms_own_is_a_function(spec):
    assert callable(import_reference(spec.factory))


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the train extra is not installed")
@pytest.mark.parametrize("spec", own_specs(EngineSpec), ids=lambda spec: spec.name)
def test_an_engine_of_castforms_own_can_be_made(spec):
    assert callable(load_engine_factory(spec.name))


def test_an_unknown_engine_says_which_there_are():
    with pytest.raises(UsageError, match="vlm") as caught:
        load_engine_factory("vlm")
    assert "vllm" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        load_engine_factory("sglang")
    assert "'transformers', 'vllm'" in caught.value.hint


def test_registering_imports_neither_torch_nor_benchmax():
    code = "import sys, castform.plugins.builtin; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "transformers", "benchmax", "pydantic", "castform_trainer"} & set(
        done.stdout.split()
    ) == set()
