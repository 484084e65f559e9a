"""Which hooks a plugin may have, and what is said of the others."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from castform.plugins import EnvironmentSpec, PluginFailure, SpecError, hookimpl
from castform.plugins.loader import BUILTIN
from castform.plugins.plugin import Plugin
from castform.plugins.registration import register_hooks


def make_plugin(*functions, **named):
    module = SimpleNamespace(**{f.__name__: f for f in functions}, **named)
    return Plugin(name="p", entry=BUILTIN, manager=register_hooks(BUILTIN, "p", module))


def refused(*functions, **named):
    with pytest.raises(PluginFailure) as caught:
        make_plugin(*functions, **named)
    assert caught.value.stage == "registration"
    return str(caught.value)


def spec(name="a", **changes):
    return EnvironmentSpec(**{"name": name, "summary": "s", "factory": "m:f", **changes})


def test_an_async_hook_is_refused():
    @hookimpl
    async def on_step_end(event):
        pass

    assert "on_step_end is async" in refused(on_step_end)


def test_arguments_that_are_never_filled_are_refused():
    @hookimpl
    def on_step_end(*args):
        pass

    @hookimpl
    def on_run_end(event, **rest):
        pass

    text = refused(on_step_end, on_run_end)
    assert "*args" in text and "**rest" in text  # both faults at once


def test_a_hook_takes_the_arguments_it_wants():
    seen = []

    @hookimpl
    def on_step_end(event):
        seen.append(event)

    make_plugin(on_step_end).call("on_step_end", run=1, event=2)
    assert seen == [2]


def test_a_hook_of_a_later_castform_may_be_optional():
    @hookimpl(optionalhook=True)
    def on_the_moon(run):
        pass

    @hookimpl
    def explain_error(error):
        return "hint"

    plugin = make_plugin(on_the_moon, explain_error)
    assert plugin.list_hooks() == ["explain_error"]


def test_a_function_may_implement_a_hook_under_another_name():
    @hookimpl(specname="explain_error")
    def explain(error):
        return "hint"

    assert make_plugin(explain).call("explain_error", error=ValueError()) == ["hint"]


def test_an_object_can_be_a_plugin():
    class Hooks:
        @hookimpl
        def register_environments(self):
            return (spec(name) for name in ("one", "two"))

    manager = register_hooks(BUILTIN, "p", Hooks())
    assert list(Plugin(name="p", entry=BUILTIN, manager=manager).specs(EnvironmentSpec)) == ["one", "two"]


@pytest.mark.parametrize("result", ["text", 3, [3], [spec(), "x"], {"a": 1}])
def test_what_is_no_spec_is_refused(result):
    @hookimpl
    def register_environments():
        return result

    with pytest.raises(PluginFailure, match="register_environments returned"):
        make_plugin(register_environments).specs(EnvironmentSpec)


def test_a_name_registered_twice_is_refused_in_every_spelling():
    @hookimpl
    def register_environments():
        return [spec("two_words"), spec("Two-Words")]

    with pytest.raises(PluginFailure, match="'Two-Words' twice"):
        make_plugin(register_environments).specs(EnvironmentSpec)


def test_the_bare_name_is_the_only_environment_or_the_default():
    @hookimpl
    def register_environments():
        return specs

    specs = [spec("solo")]
    plugin = make_plugin(register_environments)
    assert plugin.find_spec(EnvironmentSpec, None).name == "solo"
    specs = [spec("solo"), spec("default")]
    assert plugin.find_spec(EnvironmentSpec, None).name == "default"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": None},
        {"summary": " "},
        {"summary": "two\nlines"},
        {"summary": "x" * 121},
        {"factory": "module"},
        {"factory": "module:"},
        {"factory": print},
        {"config": "module.Model"},
        {"requires": "web"},
        {"requires": ("",)},
        {"tags": ["a"]},
    ],
)
def test_a_spec_that_cannot_be_used_cannot_be_made(changes):
    with pytest.raises(SpecError):
        spec(**changes)


def test_a_description_comes_back_from_plain_data_and_is_checked_again():
    spec = EnvironmentSpec(
        name="add",
        summary="Sums.",
        factory="m:make",
        config="m:Config",
        requires=("solver",),
        tags=("a", "b"),
    )
    data = json.loads(json.dumps(spec.as_dict()))
    assert data == {
        "name": "add",
        "summary": "Sums.",
        "factory": "m:make",
        "config": "m:Config",
        "requires": ["solver"],
        "tags": ["a", "b"],
    }
    assert EnvironmentSpec.from_dict(data) == spec
    with pytest.raises(SpecError, match="factory is 'm'"):
        EnvironmentSpec.from_dict({**data, "factory": "m"})
