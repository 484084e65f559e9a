"""docs/hooks.md says what hookspecs.py declares, and docs/plugins.md has code that works."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from castform.plugins import EnvironmentSpec, RewardSpec, events, hookspecs, load_registry
from castform.plugins.failure import Stage
from castform.plugins.plugin import REGISTRATION_HOOKS
from castform.plugins.watchers import RUN_HOOKS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
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


def find_users(hook: str) -> set[str]:
    """Return the distributions here that implement a hook, castform itself among them."""
    sources = {"castform": ROOT / "core/castform/plugins/builtin.py"}
    sources |= {path.parts[-3]: path for path in ROOT.glob("plugins/*/*/plugin.py")}
    define = re.compile(rf"^def {hook}\(", re.MULTILINE)
    return {name for name, path in sources.items() if define.search(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if not hook.startswith("on_")])
def test_a_hook_has_the_users_that_the_page_names_or_says_what_it_waits_for(hook):
    body, users = sections()[HOOKS[hook]], find_users(hook)
    if not users:
        assert re.search(r"No user yet: it waits for \w+", body)
        return
    (told,) = re.findall(r"Used by (.*)", body)
    named = set(re.findall(r"`(castform-[\w-]+\w)`", told))
    named |= {"castform"} if "castform's own plugin" in told else set()
    assert named and named <= users, f"{hook} is used by {sorted(users)}"
    assert ("castform" in named) == ("castform" in users)


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook.startswith("on_")])
def test_a_run_hook_is_used_by_the_plugin_that_the_page_names(hook):
    assert "All six are used by `castform-watch-journal`" in (DOCS / "hooks.md").read_text(encoding="utf-8")
    assert "castform-watch-journal" in find_users(hook)


def test_the_rewards_that_the_page_names_are_castforms_own_and_all_of_them():
    told = re.findall(r"`castform/([\w-]+)`", sections()[HOOKS["register_rewards"]])
    assert told == list(load_registry().load("castform").specs(RewardSpec))


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
