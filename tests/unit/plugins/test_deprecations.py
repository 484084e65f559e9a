"""What a plugin is told that uses something on its way out, and what may change without a word."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.version import Version

import castform
from castform.plugins import (
    HOOKSPEC_VERSION,
    PluginDeprecationWarning,
    PluginFailure,
    RunInfo,
    ToolSpec,
    hookimpl,
    hookspecs,
)
from castform.plugins.deprecations import DEPRECATIONS, Deprecation, DeprecationTable
from castform.plugins.loader import BUILTIN
from castform.plugins.plugin import REGISTRATION_HOOKS, Plugin
from castform.plugins.registration import register_hooks
from castform.plugins.watchers import RUN_HOOKS

ROOT = Path(__file__).parents[3]
STATES = ROOT / "tests" / "golden"
HOOK = Deprecation(name="on_step_end", since="0.3", removal="0.4", replacement="on_group_scored")
ARGUMENT = Deprecation(name="on_step_end.run", since="0.3", removal="0.4", replacement="event.run")
FIELD = Deprecation(name="ToolSpec.tags", since="0.3", removal="0.4", replacement="summary")
UNKNOWN = Deprecation(name="on_old", since="0.1", removal="0.2", replacement="on_run_end")


def table(version: str, *entries: Deprecation) -> DeprecationTable:
    return DeprecationTable(entries=entries, version=version)


def load(found: DeprecationTable, **functions) -> Plugin:
    module = SimpleNamespace(**functions)
    manager = register_hooks(BUILTIN, "mine", module, table=found)
    return Plugin(name="mine", entry=BUILTIN, manager=manager, table=found)


def make_watcher():
    """Return a new function each time: the same one is warned of once in a process."""
    scope = {"hookimpl": hookimpl}
    exec("@hookimpl\ndef on_step_end(run, event):\n    pass\n", scope)
    return scope["on_step_end"]


def make_tools(**fields):
    scope = {"hookimpl": hookimpl, "ToolSpec": ToolSpec, "fields": fields}
    source = "@hookimpl\ndef register_tools():\n    return [ToolSpec(name='t', summary='s', factory='m:f', **fields)]\n"
    exec(source, scope)
    return scope["register_tools"]


def warned(action) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        action()
    assert all(issubclass(w.category, PluginDeprecationWarning) for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("version", ["0.3.0", "0.3.7", "0.3.1rc1"])
def test_a_hook_that_goes_away_is_warned_of_once_and_works(version):
    watcher = make_watcher()
    plugins = []
    said = warned(lambda: plugins.extend(load(table(version, HOOK), on_step_end=watcher) for _ in range(3)))
    assert said == ["plugin 'mine': on_step_end goes away in castform 0.4; use on_group_scored"]
    assert plugins[0].implements("on_step_end")


def test_the_warning_names_the_line_of_the_plugin():
    @hookimpl
    def on_step_end(event):
        pass

    with pytest.warns(PluginDeprecationWarning) as caught:
        load(table("0.3.0", HOOK), on_step_end=on_step_end)
    assert (caught[0].filename, caught[0].lineno) == (__file__, on_step_end.__code__.co_firstlineno)


def test_nothing_is_said_before_the_announcement_nor_of_what_is_not_used():
    assert warned(lambda: load(table("0.2.9", HOOK), on_step_end=make_watcher())) == []
    tools = make_tools()
    assert warned(lambda: load(table("0.3.0", HOOK, FIELD), register_tools=tools).specs(ToolSpec)) == []


def test_an_argument_that_goes_away_is_warned_of_where_it_is_taken():
    said = warned(lambda: load(table("0.3.0", ARGUMENT), on_step_end=make_watcher()))
    assert said == ["plugin 'mine': on_step_end.run goes away in castform 0.4; use event.run"]

    @hookimpl
    def on_step_end(event):
        pass

    assert warned(lambda: load(table("0.3.0", ARGUMENT), on_step_end=on_step_end)) == []


def test_a_field_that_goes_away_is_warned_of_where_it_is_given():
    plugin = load(table("0.3.0", FIELD), register_tools=make_tools(tags=("a",)))
    said = warned(lambda: [plugin.specs(ToolSpec) for _ in range(2)])
    assert said == ["plugin 'mine': ToolSpec.tags goes away in castform 0.4; use summary"]


@pytest.mark.parametrize("version", ["0.4.0", "0.4.0rc1", "1.0"])
@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (HOOK, "on_step_end is gone since castform 0.4; use on_group_scored"),
        (ARGUMENT, "on_step_end.run is gone since castform 0.4; use event.run"),
    ],
)
def test_past_its_end_a_hook_or_argument_is_an_error_that_says_the_same(version, entry, told):
    with pytest.raises(PluginFailure) as caught:
        load(table(version, entry), on_step_end=make_watcher())
    assert (
        caught.value.stage == "registration" and told in str(caught.value) and "'mine'" in str(caught.value)
    )


def test_a_hook_that_hookspecs_no_longer_has_is_named_with_its_replacement():
    @hookimpl
    def on_old(run):
        pass

    with pytest.raises(PluginFailure, match=r"on_old is gone since castform 0\.2; use on_run_end") as caught:
        load(table("0.3.0", UNKNOWN), on_old=on_old)
    assert "unknown hook" not in str(caught.value)


@pytest.mark.parametrize("fields", [{"tags": ("a",)}, {"colour": "red"}])
def test_a_field_that_is_gone_is_named_with_its_replacement(fields):
    (name,) = fields
    entry = dataclasses.replace(
        FIELD, name=f"ToolSpec.{name}"
    )  # still there, or not known to the class any more
    plugin = load(table("0.4.0", entry), register_tools=make_tools(**fields))
    with pytest.raises(PluginFailure, match=rf"register_tools: ToolSpec\.{name} is gone .* use summary"):
        plugin.specs(ToolSpec)


def test_a_field_that_never_was_is_still_the_authors_mistake():
    plugin = load(table("0.4.0", FIELD), register_tools=make_tools(colour="red"))
    with pytest.raises(PluginFailure, match="unexpected keyword argument 'colour'"):
        plugin.specs(ToolSpec)


def test_a_hook_may_get_more_arguments_than_a_plugin_takes():
    """An addition to a hook is no change to whoever was written before it."""
    seen = []

    @hookimpl
    def on_step_end():
        seen.append("called")

    load(table("0.1.0"), on_step_end=on_step_end).call("on_step_end", run=RunInfo(run_id="r"), event=None)
    assert seen == ["called"]


def test_every_announcement_leaves_a_minor_release_and_the_code_agrees_with_it():
    known = {**described()["hooks"], **described()["specs"]}
    for entry in DEPRECATIONS:
        since, removal = Version(entry.since), Version(entry.removal)
        assert removal.release[:2] > since.release[:2], f"{entry.name}: no release between warning and error"
        owner, _, part = entry.name.partition(".")
        is_there = owner in known and (not part or part in known[owner])
        assert is_there != entry.is_removed(castform.__version__), entry


def described() -> dict[str, dict[str, list[str]]]:
    """Return hooks with their arguments, specs and events with their fields, as the code has them."""
    hooks = {
        name: list(inspect.signature(function).parameters)
        for name, function in vars(hookspecs).items()
        if hasattr(function, "castform_spec")
    }
    specs = {kind.__name__: [f.name for f in dataclasses.fields(kind)] for kind in REGISTRATION_HOOKS}
    told = {kind.__name__: [f.name for f in dataclasses.fields(kind)] for kind in (RunInfo, *RUN_HOOKS)}
    return {"hooks": hooks, "specs": specs, "events": told}


def read_state(version: int) -> dict[str, dict[str, list[str]]]:
    return json.loads((STATES / f"hookspecs_{version}.json").read_text())


def test_a_change_of_what_plugins_are_written_against_is_a_new_version():
    assert read_state(HOOKSPEC_VERSION) == described(), (
        f"hooks, specs or events are not those of version {HOOKSPEC_VERSION}: raise HOOKSPEC_VERSION, write "
        f"tests/golden/hookspecs_{HOOKSPEC_VERSION + 1}.json and a row in docs/compatibility.md"
    )


@pytest.mark.parametrize("version", range(1, HOOKSPEC_VERSION + 1))
def test_nothing_that_was_ever_there_is_gone_without_an_announcement(version):
    now = described()
    gone = [
        owner if part is None else f"{owner}.{part}"
        for group, owners in read_state(version).items()
        for owner, parts in owners.items()
        for part in [None, *parts]
        if owner not in now[group] or (part is not None and part not in now[group][owner])
    ]
    announced = {entry.name for entry in DEPRECATIONS if entry.is_removed(castform.__version__)}
    assert set(gone) <= announced


def test_the_page_has_a_row_for_every_version_and_no_further_one():
    text = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    rows = [int(found) for found in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)]
    assert rows == list(range(1, HOOKSPEC_VERSION + 1))
