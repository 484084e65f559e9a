"""Everything that `benchmax.rewards` promises is there, and what is heavy only when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import benchmax.rewards


@pytest.mark.parametrize("name", benchmax.rewards.__all__)
def test_what_is_promised_is_there(name: str) -> None:
    assert getattr(benchmax.rewards, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'benchmax\.rewards' has no attribute 'Jugde'"):
        benchmax.rewards.Jugde


def test_importing_loads_no_client_and_no_mathematics() -> None:
    code = (
        "import sys, benchmax.rewards; from benchmax.rewards import Judge, Rubric; "
        "print(sorted({'openai', 'aiohttp', 'httpx', 'sympy', 'numpy', 'torch'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
