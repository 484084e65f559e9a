"""One plugin at a time, and the faults of one stay its own."""

from __future__ import annotations

import sys

import pytest

from castform.errors import MissingError, UsageError
from castform.plugins import EnvironmentSpec, PluginFailure, RewardSpec
from castform.plugins.check import check_plugins
from castform.plugins.loader import check_castform_version

EVERY_FOLDER = (
    "clash_one",
    "clash_two",
    "default_argument",
    "exit_at_import",
    "import_error",
    "interrupt_at_import",
    "newer_castform",
    "raising_hook",
    "sound",
    "unknown_hook",
    "unmarked_hook",
    "wrong_argument",
    "wrong_spec",
)
BROKEN = {
    "import_error": ("import-error", "import", "cuda_thing"),
    "exit_at_import": ("exit", "import", "sys.exit(3)"),
    "interrupt_at_import": ("interrupt", "import", "KeyboardInterrupt"),
    "wrong_argument": ("wrong-argument", "registration", "step_number"),
    "default_argument": ("default-argument", "registration", "default"),
    "unknown_hook": ("unknown-hook", "registration", "register_environments"),
    "unmarked_hook": ("unmarked", "registration", "@hookimpl"),
    "newer_castform": ("newer", "castform version", "castform>=99"),
}


@pytest.mark.parametrize("folder", BROKEN)
def test_a_broken_plugin_is_a_failure_with_distribution_stage_and_cause(registry, folder):
    name, stage, text = BROKEN[folder]
    with pytest.raises(PluginFailure) as caught:
        registry(folder, "sound").load(name)
    failure = caught.value
    assert (failure.name, failure.distribution, failure.stage) == (name, f"castform-env-{name}", stage)
    assert text in str(failure) and failure.distribution in str(failure)
    assert failure.hint


def test_a_healthy_plugin_loads_beside_every_broken_one(registry):
    plugins = registry(*EVERY_FOLDER)
    before = set(sys.modules)
    assert sorted(plugins.load("sound").specs(EnvironmentSpec)) == ["echo", "needy"]
    imported = [m for m in set(sys.modules) - before if m.startswith("castform_env_")]
    assert not [m for m in imported if "sound" not in m]


def test_a_check_names_every_broken_plugin_and_no_other(registry):
    reports = {r.name: r.failure for r in check_plugins(registry=registry(*EVERY_FOLDER))}
    assert reports["sound"] is None
    broken = {name for name, failure in reports.items() if failure is not None} - {"castform"}
    assert broken == {name for name, _, _ in BROKEN.values()} | {"twice", "raising", "wrong-spec"}


def test_a_failed_import_leaves_no_module_behind(registry):
    with pytest.raises(PluginFailure):
        registry("import_error").load("import-error")
    assert not [m for m in sys.modules if m.startswith("castform_env_import_error")]


def test_a_name_from_two_distributions_loads_neither_and_names_both(registry):
    plugins = registry("clash_one", "clash_two")
    with pytest.raises(PluginFailure) as caught:
        plugins.load("twice")
    assert caught.value.stage == "name clash"
    assert "castform-env-twice-one" in str(caught.value) and "castform-env-twice-two" in str(caught.value)


def test_a_plugin_for_a_newer_castform_is_refused_before_it_is_imported(registry):
    with pytest.raises(PluginFailure, match=r"needs castform>=99, and this is castform"):
        registry("newer_castform").load("newer")
    assert "castform_env_newer" not in sys.modules


def test_a_version_range_counts_prereleases_and_ignores_extras(registry):
    entry = registry("sound").load("sound").entry
    check_castform_version(entry, "0.2.0rc1")
    with pytest.raises(PluginFailure, match=r"0\.0\.9"):
        check_castform_version(entry, "0.0.9")


@pytest.mark.parametrize(
    ("folder", "name", "cause"),
    [
        ("raising_hook", "raising", "licence server"),
        ("wrong_spec", "wrong-spec", "castform_env_wrong_spec/env.py"),
    ],
)
def test_a_hook_that_fails_half_way_registers_nothing(registry, folder, name, cause):
    plugin = registry(folder).load(name)
    for _ in range(2):
        with pytest.raises(PluginFailure, match=cause) as caught:
            plugin.find_spec(EnvironmentSpec, None)
        assert caught.value.stage == "registration" and "register_environments" in str(caught.value)


def test_a_hook_may_return_one_spec(registry):
    assert list(registry("sound").load("sound").specs(RewardSpec)) == ["same"]


def test_loading_one_plugin_does_not_import_another(registry):
    plugins = registry("sound", "slow_import")
    plugins.load("sound")
    assert "castform_env_slow" not in sys.modules
    assert plugins.names() == ["castform", "slow", "sound"]


def test_what_a_plugin_prints_goes_to_stderr(registry, capsys):
    registry("noisy_import").load("noisy").specs(EnvironmentSpec)
    out = capsys.readouterr()
    assert out.out == "" and "hello from the import" in out.err and "hello from the hook" in out.err


def test_only_allowed_plugins_can_be_used(registry, monkeypatch):
    monkeypatch.setenv("CASTFORM_PLUGINS", " Noisy ,")
    plugins = registry("sound", "noisy_import")
    assert plugins.names() == ["castform", "noisy"]
    with pytest.raises(UsageError, match="CASTFORM_PLUGINS"):
        plugins.load("sound")


def test_an_empty_allow_list_leaves_castforms_own(registry, monkeypatch):
    monkeypatch.setenv("CASTFORM_PLUGINS", "")
    assert registry("sound").names() == ["castform"]


def test_a_pinned_version_that_is_not_installed_is_refused(registry):
    plugins = registry("sound")
    assert plugins.load("sound@1.2").name == plugins.load("acme/sound/echo@1.2.0").name == "sound"
    for pin in ("1.3", "main", "1.2.0.post1"):
        with pytest.raises(UsageError, match=r"castform-env-sound 1\.2\.0 is installed"):
            plugins.load(f"sound/echo@{pin}")


def test_a_plugin_without_the_default_environment_asks_for_a_name(registry):
    plugin = registry("sound").load("sound")
    with pytest.raises(UsageError, match="sound/echo"):
        plugin.find_spec(EnvironmentSpec, None)
    with pytest.raises(UsageError) as caught:
        plugin.find_spec(EnvironmentSpec, "ecko")
    assert "sound/echo" in str(caught.value.hint)


def test_a_missing_extra_is_named_with_the_command_that_installs_it(registry):
    from castform.plugins import load_environment

    with pytest.raises(MissingError, match="a-browser-that-is-not-there") as caught:
        load_environment("sound/needy", registry=registry("sound"))
    assert caught.value.hint == "pip install 'castform-env-sound[web]'"
    assert caught.value.exit_code == 3


def test_castforms_own_plugin_cannot_be_taken_over(registry, install, tmp_path):
    site = install("sound")
    info = site / "impostor-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: impostor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[castform]\nCASTFORM = castform_env_sound.plugin\n")
    assert registry().load("castform").entry.distribution == "castform"
