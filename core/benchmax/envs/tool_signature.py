"""A function's parameters as a pydantic model: the schema that is shown, and the conversion of what comes back.

pydantic is imported only here and only once a function needs it: an environment whose tools
have schemas of their own does without.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

from benchmax.envs.tool_docs import describe_parameters
from benchmax.envs.tool_faults import TOO_DEEP, argument_fault, describe_validation
from benchmax.envs.tool_schema import tidy_schema

if TYPE_CHECKING:
    from pydantic import BaseModel

LISTED_KINDS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


class ToolSignature:
    """What one function takes. TypeError or ValueError where a model could never call it.

    Values keep the type that the schema names: `"5"` is no integer, 5.0 is one.
    """

    def __init__(self, tool_name: str, function: Callable[..., object], *, skip_first: bool = False) -> None:
        _check_pydantic(tool_name)
        self._tool_name = tool_name
        parameters = _parameters(tool_name, function)[1 if skip_first else 0 :]
        self._parameters = [each for each in parameters if each.kind in LISTED_KINDS]
        self._rest = next((each for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD), None)
        self._hints = _resolve_hints(function)
        self._words = describe_parameters(function)
        try:
            self._model = self._make_model()
            self.schema = self._make_schema()
        except Exception as error:  # the author's hints, and pydantic's many ways to refuse them
            raise self._refusal(error) from error

    def convert(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and named arguments for the function; ArgumentFault says what does not fit."""
        from pydantic import ValidationError

        try:
            made = self._validated(arguments)
        except ValidationError as error:
            faults = describe_validation(error.errors(include_url=False, include_context=False), arguments)
            raise argument_fault(self._tool_name, faults, [each.name for each in self._parameters]) from None
        except RecursionError:
            raise argument_fault(
                self._tool_name, [TOO_DEEP], [each.name for each in self._parameters]
            ) from None
        positional: list[Any] = []
        named: dict[str, Any] = dict(made.__pydantic_extra__ or {})
        for place, parameter in enumerate(self._parameters):
            field = f"p{place}"
            if field in made.model_fields_set and parameter.name in arguments:
                value = made.__dict__[field]
            elif _is_field(parameter.default):
                value = parameter.default.get_default(call_default_factory=True)
            elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                value = parameter.default
            else:
                continue  # the function's own default applies
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[parameter.name] = value
        return positional, named

    def _validated(self, arguments: Mapping[str, Any]) -> BaseModel:
        from pydantic import ValidationError

        try:
            return self._model.model_validate_json(json.dumps(arguments), strict=True)
        except ValidationError as error:
            # JSON knows no difference between 2.0 and 2; pydantic does.
            if not any(_is_integral(each["input"]) for each in error.errors() if each["type"] == "int_type"):
                raise
            return self._model.model_validate_json(json.dumps(_with_integers(arguments)), strict=True)

    def _make_model(self) -> type[BaseModel]:
        from pydantic import BaseModel, ConfigDict, Field, create_model

        others: Any = self._hint(self._rest) if self._rest else None  # a type hint is any object
        extra = {"__pydantic_extra__": dict[str, others]} if self._rest else {}
        base: type[BaseModel] = type(
            "Arguments",
            (BaseModel,),
            {
                "__module__": __name__,
                "__annotations__": extra,
                "model_config": ConfigDict(extra="allow" if self._rest else "forbid", allow_inf_nan=False),
            },
        )
        # Fields have names of their own, so that a parameter may be called anything.
        fields: dict[str, Any] = {
            f"p{place}": (
                self._hint(parameter),
                Field(default=... if _is_required(parameter) else None, alias=parameter.name),
            )
            for place, parameter in enumerate(self._parameters)
        }
        return create_model("Arguments", __base__=base, **fields)

    def _make_schema(self) -> dict[str, Any]:
        made = tidy_schema(self._model.model_json_schema(by_alias=True))
        properties: dict[str, Any] = {}
        for parameter in self._parameters:
            schema = {
                key: value for key, value in made["properties"][parameter.name].items() if key != "default"
            }
            if "description" not in schema and parameter.name in self._words:
                schema["description"] = self._words[parameter.name]
            default = _plain_default(parameter.default)
            properties[parameter.name] = schema if default is None else {**schema, "default": default}
        required = [parameter.name for parameter in self._parameters if _is_required(parameter)]
        schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        schema["additionalProperties"] = made.get("additionalProperties", self._rest is not None)
        if "$defs" in made:
            schema["$defs"] = made["$defs"]
        return schema

    def _hint(self, parameter: inspect.Parameter) -> Any:  # Any: a type hint is any object
        hint = self._hints.get(parameter.name, Any)
        if _is_field(parameter.default):
            hint = Annotated[hint, parameter.default]
        if get_origin(hint) is Annotated:
            words = next((extra for extra in hint.__metadata__ if isinstance(extra, str)), None)
            if words is not None:
                from pydantic import Field

                hint = Annotated[hint, Field(description=words)]
        return hint

    def _refusal(self, cause: Exception) -> ValueError:
        """Return an error that names the parameter whose type cannot be used."""
        from pydantic import TypeAdapter

        for parameter in [*self._parameters, *([self._rest] if self._rest else [])]:
            try:
                TypeAdapter(self._hint(parameter)).json_schema()
            except Exception as error:  # noqa: BLE001 - as above
                words = str(error).strip().split("\n")[0]
                return ValueError(
                    f"tool {self._tool_name!r}: parameter {parameter.name!r} has the type "
                    f"{self._hints.get(parameter.name)!r}, which JSON cannot express: {words}"
                )
        return ValueError(f"tool {self._tool_name!r}: no schema can be made of its parameters: {cause}")


def _check_pydantic(tool_name: str) -> None:
    way_out = "or give it a schema by hand: FunctionTool(function=..., parameters={...})"
    try:
        import pydantic
    except ImportError as error:
        raise ImportError(
            f"tool {tool_name!r} needs pydantic: pip install 'pydantic>=2', {way_out}"
        ) from error
    if pydantic.VERSION.startswith("1."):
        raise ImportError(
            f"tool {tool_name!r} needs pydantic 2, and {pydantic.VERSION} is installed: "
            f"pip install 'pydantic>=2', {way_out}"
        )


def _parameters(tool_name: str, function: Callable[..., object]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"tool {tool_name!r}: Python does not know the parameters of {function!r}; "
            "give them: FunctionTool(function=..., parameters={...})"
        ) from error


def _resolve_hints(function: Callable[..., object]) -> dict[str, Any]:
    """Return the type hints by parameter; those that only exist for the type checker are left out."""
    while isinstance(function, partial):
        function = function.func
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        function = type(function).__call__
    plain: Any = inspect.unwrap(function)
    plain = getattr(plain, "__func__", plain)
    scope = _class_scope(plain)
    try:
        return get_type_hints(function, localns=scope or None, include_extras=True)
    except (NameError, TypeError, AttributeError):
        pass
    resolved: dict[str, Any] = {}
    for name, hint in getattr(plain, "__annotations__", {}).items():
        try:
            resolved |= get_type_hints(
                _Bearer({name: hint}), getattr(plain, "__globals__", {}), scope, include_extras=True
            )
        except (NameError, TypeError, AttributeError):  # this one alone stays open
            continue
    return resolved


def _class_scope(function: Any) -> dict[str, Any]:  # Any: whatever can be called
    """Return the names in the body of the class that a method is of, which its hints may use."""
    holder: object = sys.modules.get(getattr(function, "__module__", ""))
    for part in getattr(function, "__qualname__", "").split(".")[:-1]:
        holder = getattr(holder, part, None)
    return dict(vars(holder)) if inspect.isclass(holder) else {}


class _Bearer:
    """Something that has annotations and nothing else, for get_type_hints."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def _is_field(default: object) -> bool:
    """Whether a default is pydantic's `Field(...)`, which describes the parameter instead."""
    return type(default).__name__ == "FieldInfo" and type(default).__module__.startswith("pydantic.")


def _is_required(parameter: inspect.Parameter) -> bool:
    if _is_field(parameter.default):
        return bool(parameter.default.is_required())
    return parameter.default is inspect.Parameter.empty


def _plain_default(default: object) -> object:
    """Return a default as JSON, or None where it is not worth showing or has no form."""
    if _is_field(default):
        default = default.get_default()  # type: ignore[attr-defined]  # it is a FieldInfo
    value = default.value if isinstance(default, Enum) else default
    return (
        value
        if isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
        else None
    )


def _is_integral(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


def _with_integers(value: Any) -> Any:  # Any: JSON
    if isinstance(value, Mapping):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return int(value) if _is_integral(value) else value
