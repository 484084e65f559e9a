"""docs/hooks.md says what hookspecs.py declares, and docs/plugins.md has code that works."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from castform.plugins import EnvironmentSpec, events, hookspecs, load_registry
from castform.plugins.failure import Stage
from castform.plugins.plugin import REGISTRATION_HOOKS
from castform.plugins.watchers import RUN_HOOKS

DOCS = Path(__file__).parents[3] / "docs"
HOOKS = {
    name: f"{name}({', '.join(inspect.signature(function).parameters)})"
    for name, function in vars(hookspecs).items()
    if hasattr(function, "castform_spec")
}


def sections() -> dict[str, str]:
    text = (DOCS / "hooks.md").read_text(encoding="utf-8")
    parts = re.split(r"^### `(.+)`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_has_every_hook_with_its_signature_in_order():
    assert list(sections()) == list(HOOKS.values())


@pytest.mark.parametrize(("kind", "hook"), REGISTRATION_HOOKS.items())
def test_a_registration_hook_names_its_spec(kind, hook):
    assert kind.__name__ in sections()[HOOKS[hook]]


@pytest.mark.parametrize(("event", "hook"), RUN_HOOKS.items())
def test_a_run_hook_names_its_event_and_all_fields(event, hook):
    fields = ", ".join(f"`{f.name}`" for f in dataclasses.fields(event))
    assert sections()[HOOKS[hook]].strip().startswith(f"`{event.__name__}`: {fields}.")


def test_the_page_names_the_fields_of_a_run():
    fields = ", ".join(f"`{f.name}`" for f in dataclasses.fields(events.RunInfo))
    assert f"`RunInfo`: {fields}." in (DOCS / "hooks.md").read_text(encoding="utf-8")


def test_every_hook_says_who_uses_it():
    text = (DOCS / "hooks.md").read_text(encoding="utf-8")
    assert "All six are used by `castform-watch-journal`" in text
    for title, body in sections().items():
        assert title.startswith("on_") or "Used by" in body or "no user yet" in body, title


def test_the_plugins_page_names_every_stage_of_failure():
    text = (DOCS / "plugins.md").read_text(encoding="utf-8")
    assert all(f"`{stage}`" in text for stage in Stage.__args__)


def test_the_plugin_of_the_page_works_as_printed(install, castform):
    text = (DOCS / "plugins.md").read_text(encoding="utf-8")
    site = install()
    package = site / "castform_env_parrot"
    package.mkdir()
    for name, code in re.findall(
        r"```python\n# castform_env_parrot/(\w+\.py)\n(.*?)```", text, flags=re.DOTALL
    ):
        (package / name).write_text(code)
    (package / "phrases.jsonl").write_text(
        '{"phrase": "ahoy", "split": "eval"}\n{"phrase": "aye", "split": "train"}\n'
    )
    info = site / "castform_env_parrot-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Name: castform-env-parrot\nVersion: 0.1.0\nRequires-Dist: castform>=0.1\n"
    )
    (info / "entry_points.txt").write_text("[castform]\nparrot = castform_env_parrot.plugin\n")
    assert list(load_registry([str(site)]).load("parrot").specs(EnvironmentSpec)) == ["default"]
    done = castform("env", "show", "parrot")
    assert "1 train, 1 eval" in done.stdout and "same 1" in done.stdout and "Say: ahoy" in done.stdout, (
        done.stderr
    )
