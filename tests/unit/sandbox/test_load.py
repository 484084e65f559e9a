"""Providers by name: castform's own, a plugin's, and what is said about the others."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from castform.errors import ConfigError, UsageError
from castform.sandbox import list_providers, load_provider
from castform.sandbox.process.provider import ProcessProvider

PLUGIN = """
from castform.plugins import SandboxSpec, hookimpl

@hookimpl
def register_sandboxes():
    return [
        SandboxSpec(name="default", summary="A box of cards", factory="castform_cards:make"),
        SandboxSpec(name="house", summary="A house of cards", factory="castform.sandbox.process.provider:ProcessProvider"),
    ]

def make(colour="red"):
    from castform.sandbox.process.provider import ProcessProvider
    made = ProcessProvider()
    made.colour = colour
    return made
"""


@pytest.fixture
def cards(tmp_path, monkeypatch):
    """A plugin `cards` with two providers, installed for this test."""
    site = tmp_path / "site"
    info = site / "castform_sandbox_cards-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "castform_cards.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: castform-sandbox-cards\nVersion: 1.0\n\n")
    (info / "entry_points.txt").write_text("[castform]\ncards = castform_cards\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("CASTFORM_PLUGINS", "cards")
    importlib.invalidate_caches()
    yield site
    sys.modules.pop("castform_cards", None)


def test_process_is_built_in():
    assert isinstance(load_provider("process"), ProcessProvider)
    assert isinstance(load_provider("Process", max_boxes=3), ProcessProvider)


def test_a_plugins_providers_go_by_its_name_and_theirs(cards):
    assert load_provider("cards").colour == "red"
    assert load_provider("cards/default", colour="blue").colour == "blue"
    assert isinstance(load_provider("cards/house"), ProcessProvider)


def test_every_provider_is_listed_by_the_name_that_loads_it(cards):
    listed = {p.name: p.summary for p in list_providers()}
    assert list(listed) == ["process", "cards", "cards/house"]
    assert listed["cards/house"] == "A house of cards"
    for name in listed:
        load_provider(name)


def test_wrong_options_are_named(cards):
    with pytest.raises(ConfigError, match=r"sandbox 'cards/default'.*'color'"):
        load_provider("cards", color="blue")
    for wrong in (0, "x", True):
        with pytest.raises(ConfigError, match="max_boxes"):
            load_provider("process", max_boxes=wrong)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("proces", "did you mean 'process'"),
        ("docker", "pip install castform-sandbox-docker"),
        ("jail", "there are"),
    ],
)
def test_a_name_that_is_not_there_gets_a_way_out(name, hint, cards, monkeypatch):
    from castform.plugins import load_registry

    registry = load_registry([str(cards)])
    with pytest.raises(UsageError) as caught:
        load_provider(name, registry=registry)
    assert name in str(caught.value) and hint in (caught.value.hint or "")


def test_naming_the_contract_imports_no_server_and_no_pydantic():
    code = "import sys, castform.sandbox.contract, castform.sandbox.errors; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"aiohttp", "pydantic", "pluggy", "openai", "asyncio"} & set(done.stdout.split()) == set()
