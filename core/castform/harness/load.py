"""From a harness's name, or a TOML file, to an agent program that can run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from castform.errors import ConfigError, UsageError
from castform.harness.contract import Harness
from castform.home import expand_home

if TYPE_CHECKING:
    from castform.harness.settings import HarnessSection
    from castform.plugins.plugin import Plugin
    from castform.plugins.registry import Registry

PARTS = ("name", "version", "setup", "run")


def load_harness(
    name_or_path: str | Path,
    *,
    registry: Registry[Plugin] | None = None,
    **options: Any,  # whatever the harness's factory takes
) -> Harness:
    """Return the harness that a name, `plugin/name` or a TOML file stands for.

    `options` are arguments of its factory; of a TOML they replace keys of `[harness]`. Raises
    UsageError for a name or a file that does not exist, ConfigError with everything that is
    wrong, MissingError for an extra that is not installed, PluginFailure for a broken plugin.
    """
    text = str(name_or_path)
    if text.endswith(".toml"):
        return load_harness_file(expand_home(text), options, registry=registry)
    if isinstance(name_or_path, Path) or text.startswith((".", "~", "/")):
        raise UsageError(
            f"{text} is not a TOML file", hint="a harness is a name, plugin/name or a .toml file"
        )
    return _load_registered(text, options, registry)


def load_harness_file(
    path: Path, options: Mapping[str, Any] | None = None, *, registry: Registry[Plugin] | None = None
) -> Harness:
    """Return the harness of a TOML: a command template, or another one by its `id` with `args`."""
    from castform.config import read_toml

    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"{path} {what}", hint="give the path of a TOML with [harness] in it")
    table = read_toml(path).get("harness")
    if not isinstance(table, dict) or not table:
        raise ConfigError(f"{path} has no [harness]", hint="docs/harnesses.md shows what stands there")
    if "id" in table:
        return _load_other(path, table, dict(options or {}), registry)
    from castform.harness.command import CommandHarness

    section = make_section({"name": path.stem, **table, **(options or {})}, where=str(path))
    base = path.absolute().parent
    missing = [
        source for source in section.upload.values() if not (base / Path(source).expanduser()).exists()
    ]
    if missing:
        raise ConfigError(
            f"{path}: harness.upload names {', '.join(missing)}, which {base} does not have",
            hint="sources are relative to the TOML's own folder",
        )
    return CommandHarness(section=section, base_dir=base)


def make_section(data: Mapping[str, Any], *, where: str) -> HarnessSection:
    """Check a command template. ConfigError with every fault at once."""
    from pydantic import ValidationError

    from castform.harness.settings import HarnessSection, find_template_faults

    faults: list[str] = []
    section: HarnessSection | None = None
    try:
        section = HarnessSection.model_validate(dict(data))
    except ValidationError as error:
        faults = list(dict.fromkeys(_describe(item) for item in error.errors(include_url=False)))
        wrong = {item["loc"][0] for item in error.errors(include_url=False)}
        rest = {"command": ["program"], **{k: v for k, v in data.items() if k not in wrong}}
        faults += find_template_faults(HarnessSection.model_validate(rest))
    else:
        faults = find_template_faults(section)
    if faults or section is None:
        head = f"{len(faults)} wrong setting{'s' if len(faults) != 1 else ''} of the harness in {where}:"
        raise ConfigError(
            "\n".join([head, *(f"  {fault}" for fault in faults)]),
            hint="docs/harnesses.md lists the keys of [harness] and the placeholders",
        )
    return section


def _describe(item: Any) -> str:  # pydantic's ErrorDetails
    from castform.harness.settings import HarnessSection
    from castform.plugins.names import suggest_names

    place = "harness." + ".".join(str(part) for part in item["loc"] if part not in ("str", "tuple[str, ...]"))
    if item["type"] == "extra_forbidden":
        close = suggest_names(str(item["loc"][-1]), HarnessSection.model_fields)
        return f"{place}: unknown key" + (f"; did you mean {close[0]!r}?" if close else "")
    if item["type"] == "missing":
        return f"{place}: is required"
    message = str(item["msg"]).removeprefix("Value error, ")
    return (
        f"{place}: {message}" if item["type"] == "value_error" else f"{place} = {item['input']!r}: {message}"
    )


def _load_other(
    path: Path, table: Mapping[str, Any], options: dict[str, Any], registry: Registry[Plugin] | None
) -> Harness:
    args = table.get("args", {})
    beside = sorted(table.keys() - {"id", "args"})
    if not isinstance(table["id"], str):
        raise ConfigError(f"{path}: harness.id is {table['id']!r}, not a harness's name")
    if beside or not isinstance(args, dict):
        raise ConfigError(
            f"{path}: [harness] has an id and {', '.join(beside) or 'args that are no table'}",
            hint="beside id stands args alone, a table with the options of that harness",
        )
    if table["id"].endswith(".toml"):
        raise UsageError(f"{path}: harness.id is {table['id']!r}, another TOML", hint="give that file itself")
    return _load_registered(table["id"], {**args, **options}, registry)


def _load_registered(name: str, options: Mapping[str, Any], registry: Registry[Plugin] | None) -> Harness:
    from castform.plugins.catalog import CORE
    from castform.plugins.loader import load_registry
    from castform.plugins.names import normalize_name, quote_names, suggest_names
    from castform.plugins.references import call_factory
    from castform.plugins.specs import HarnessSpec

    plugins = load_registry() if registry is None else registry
    core = plugins.load(CORE)
    own = core.specs(HarnessSpec)
    bare = normalize_name(name)
    if bare in own:
        plugin, spec = core, own[bare]
    elif "/" not in name and bare not in plugins.names():
        close = suggest_names(name, own)
        raise UsageError(
            f"no harness called {name!r}",
            hint=f"did you mean {close[0]!r}?" if close else f"castform has {quote_names(own, limit=20)}",
        )
    else:
        plugin = plugins.load(name)
        spec = plugin.find_spec(HarnessSpec, plugins.find(name).member)
    made, _ = call_factory(plugin, spec, options)
    missing = [part for part in PARTS if not hasattr(made, part)]
    if missing:
        raise plugin.fail(
            f"harness {spec.name!r} is {type(made).__name__}, which has no {', '.join(missing)}"
        )
    return cast("Harness", made)  # it has what the Protocol asks for
