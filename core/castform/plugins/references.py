"""Turn a spec's `"module:attribute"` string into the object, and a spec into what its factory makes."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from castform.errors import ConfigError, MissingError, UsageError
from castform.plugins.failure import ContainedError, PluginFailure, call_contained
from castform.plugins.requirements import find_missing

if TYPE_CHECKING:
    from castform.plugins.plugin import Plugin
    from castform.plugins.specs import Spec


def import_reference(reference: str) -> Any:  # any object a plugin names
    """Import `module:attribute`. Raises what the import raises."""
    module, _, attribute = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def check_requirements(plugin: Plugin, spec: Spec) -> None:
    """Raise MissingError when an extra that the spec needs is not installed."""
    distribution = plugin.entry.distribution
    for extra in spec.requires:
        missing = find_missing(distribution, extra)
        if missing is None:
            raise PluginFailure(
                plugin.name,
                distribution,
                "requirements",
                f"{spec.kind} {spec.name!r} requires the extra {extra!r}, which the distribution does not have",
            )
        if missing:
            raise MissingError(
                f"{plugin.name}/{spec.name} needs the {extra!r} extra of {distribution}: "
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed",
                hint=f"pip install '{distribution}[{extra}]'",
            )


def load_factory(plugin: Plugin, spec: Spec) -> Callable[..., Any]:
    """Return the factory of a spec, its requirements checked first."""
    check_requirements(plugin, spec)
    factory = _import_contained(plugin, spec.factory)
    if not callable(factory):
        raise _fail(plugin, f"{spec.factory} is {factory!r}, which cannot be called")
    return factory  # type: ignore[no-any-return]  # checked to be callable


def load_config_model(plugin: Plugin, spec: Spec) -> Any:  # a pydantic model class, not imported here
    """Return the pydantic model of a spec's arguments, or None."""
    if spec.config is None:
        return None
    model = _import_contained(plugin, spec.config)
    if not hasattr(model, "model_validate"):
        raise _fail(plugin, f"{spec.config} is not a pydantic model")
    return model


def call_factory(plugin: Plugin, spec: Spec, args: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Make what a spec describes; return it with the arguments in force, defaults filled in.

    Raises ConfigError with every wrong argument, MissingError for a missing extra, what the
    factory raises of these or as UsageError, and PluginFailure when the plugin's code raises other things.
    """
    factory = load_factory(plugin, spec)
    model = load_config_model(plugin, spec)
    name = f"{plugin.name}/{spec.name}"
    if model is not None:
        config = validate_args(model, args, name, what=spec.kind)
        return call_plugin(plugin, lambda: factory(config)), config.model_dump(mode="json")
    bind_args(factory, args, name, what=spec.kind)
    return call_plugin(plugin, lambda: factory(**args)), dict(args)


def validate_args(
    model: Any, args: Mapping[str, Any], name: str, *, what: str = "environment"
) -> Any:  # pydantic, not imported here
    """Return the model made of the arguments. Raises ConfigError with every fault."""
    import pydantic

    from castform.section import NO_TRUTH, find_truths

    faults = [f"{place} = {value!r}: {NO_TRUTH}" for place, value in find_truths(model, args)]
    wrong: pydantic.ValidationError | None = None
    try:
        made = model.model_validate(dict(args))
    except pydantic.ValidationError as error:
        wrong = error
        faults += [_describe_fault(item) for item in error.errors(include_url=False)]
    if not faults:
        return made
    count = f"{len(faults)} wrong argument{'s' if len(faults) > 1 else ''} of {what} {name!r}:"
    known = ", ".join(model.model_fields) or "none"
    raise ConfigError(
        "\n".join([count, *(f"  {fault}" for fault in faults)]), hint=f"its arguments are {known}"
    ) from wrong


def bind_args(
    factory: Callable[..., Any], args: Mapping[str, Any], name: str, *, what: str = "environment"
) -> None:
    """Raise ConfigError when a factory cannot be called with these keyword arguments."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # some C functions do not say
    try:
        signature.bind(**args)
    except TypeError as error:
        known = ", ".join(signature.parameters) or "none"
        raise ConfigError(f"{what} {name!r}: {error}", hint=f"its arguments are {known}") from error


def call_plugin(plugin: Plugin, function: Callable[[], Any]) -> Any:
    """Call a plugin's factory; errors that castform knows pass, others become its failure."""
    try:
        return call_contained(function)
    except ContainedError as contained:
        if isinstance(contained.cause, UsageError | MissingError):
            raise contained.cause from contained.cause.__cause__
        raise _fail(plugin, contained.cause) from contained.cause


def _import_contained(plugin: Plugin, reference: str) -> Any:
    try:
        return call_contained(lambda: import_reference(reference))
    except ContainedError as contained:
        raise _fail(plugin, contained.cause) from contained.cause


def _fail(plugin: Plugin, cause: BaseException | str) -> PluginFailure:
    return PluginFailure(plugin.name, plugin.entry.distribution, "factory", cause)


def _describe_fault(item: Any) -> str:  # pydantic's ErrorDetails
    name = ".".join(str(part) for part in item["loc"]) or "arguments"
    if item["type"] == "extra_forbidden":
        return f"{name}: unknown argument"
    if item["type"] == "missing":
        return f"{name}: is required"
    return f"{name} = {item['input']!r}: {str(item['msg']).removeprefix('Value error, ')}"
