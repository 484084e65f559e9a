"""From type hints to a schema, and from a model's JSON to typed arguments or words on what is wrong."""

from __future__ import annotations

import functools
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from benchmax.envs import FunctionTool
from benchmax.envs.tool_docs import describe_parameters
from benchmax.envs.tool_faults import ArgumentFault
from benchmax.envs.tool_schema import MAX_INLINED_CHARS, tidy_schema
from benchmax.envs.tools import bind_tools


class Unit(Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    number: int | None = None


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def be_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


@dataclass
class Point:
    x: int
    y: list[float]


def schema_of(function: Callable[..., object]) -> Mapping[str, Any]:
    return FunctionTool(function=function, name="t").parameters


def converted(function: Callable[..., object], /, **arguments: Any) -> tuple[list[Any], dict[str, Any]]:
    return FunctionTool(function=function, name="t").convert(arguments)


def faults(function: Callable[..., object], /, **arguments: Any) -> str:
    with pytest.raises(ArgumentFault) as raised:
        converted(function, **arguments)
    return str(raised.value)


# --- schemas ---------------------------------------------------------------------------------------


def test_models_dataclasses_and_enums_are_written_out_without_titles_and_references() -> None:
    def visit(where: Address, at: Point, unit: Unit = Unit.CELSIUS, level: Level | None = None) -> None: ...

    address = {
        "type": "object",
        "description": "Where somebody lives.",
        "properties": {
            "street": {"type": "string"},
            "number": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
        "required": ["street"],
    }
    point = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "number"}}},
        "required": ["x", "y"],
        "additionalProperties": False,
    }
    assert schema_of(visit) == {
        "type": "object",
        "properties": {
            "where": address,
            "at": point,
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
            "level": {"anyOf": [{"type": "integer", "enum": [1, 2]}, {"type": "null"}]},
        },
        "required": ["where", "at"],
        "additionalProperties": False,
    }


def test_a_union_told_apart_by_a_field_needs_no_discriminator() -> None:
    def draw(shape: Annotated[Circle | Square, Field(discriminator="kind")]) -> None: ...

    shape = schema_of(draw)["properties"]["shape"]
    assert set(shape) == {"oneOf"}
    assert [member["properties"]["kind"]["const"] for member in shape["oneOf"]] == ["circle", "square"]


def test_limits_and_descriptions_of_a_field_reach_the_schema_either_way_it_is_written() -> None:
    def roll(
        sides: Annotated[int, Field(ge=2, le=100, description="Of the die.")],
        times: int = Field(3, ge=1, description="How often."),
    ) -> None: ...

    assert schema_of(roll)["properties"] == {
        "sides": {"type": "integer", "minimum": 2, "maximum": 100, "description": "Of the die."},
        "times": {"type": "integer", "minimum": 1, "description": "How often.", "default": 3},
    }
    assert schema_of(roll)["required"] == ["sides"]
    assert converted(roll, sides=6) == ([], {"sides": 6, "times": 3})


def test_a_type_that_contains_itself_keeps_its_reference_and_the_rest_is_written_out() -> None:
    def plant(tree: Tree, where: Address) -> None: ...

    schema = schema_of(plant)
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert set(schema["$defs"]) == {"Tree"}
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["properties"]["where"]["type"] == "object"
    _, named = converted(plant, tree={"value": 1, "children": [{"value": 2}]}, where={"street": "s"})
    assert named["tree"] == Tree(value=1, children=[Tree(value=2)])
    assert "'tree.children[0].value' must be integer, not \"x\"" in faults(
        plant, tree={"value": 1, "children": [{"value": "x"}]}, where={"street": "s"}
    )


def test_a_schema_that_would_be_long_without_references_keeps_them() -> None:
    definitions: dict[str, Any] = {"N0": {"type": "object", "properties": {}}}
    for level in range(1, 20):  # written out, the last one has 2**19 copies of the first
        link = {"$ref": f"#/$defs/N{level - 1}"}
        definitions[f"N{level}"] = {"type": "object", "properties": {"a": link, "b": link}, "title": "N"}
    schema = {"properties": {"top": {"$ref": "#/$defs/N19"}}, "$defs": definitions}
    tidied = tidy_schema(schema)
    assert len(json.dumps(tidied)) < MAX_INLINED_CHARS
    assert set(tidied["$defs"]) == set(definitions) and "title" not in tidied["$defs"]["N9"]
    small = tidy_schema({"properties": {"top": {"$ref": "#/$defs/N2"}}, "$defs": definitions})
    assert "$defs" not in small
    assert small["properties"]["top"]["properties"]["b"]["properties"]["a"] == definitions["N0"]


def test_a_parameter_called_title_stays() -> None:
    def name(title: str, model_config: str, schema: int = 1) -> None: ...

    assert list(schema_of(name)["properties"]) == ["title", "model_config", "schema"]


@pytest.mark.parametrize("default", [None, [1], math.inf, math.nan, object()])
def test_a_default_that_says_nothing_in_json_is_not_shown(default: object) -> None:
    def f(a: Any = default) -> None: ...

    assert schema_of(f) == {"type": "object", "properties": {"a": {}}, "additionalProperties": False}


@pytest.mark.parametrize("bare", [Callable[[int], int], subprocess.Popen])
def test_a_type_that_no_json_can_be_is_refused_with_tool_and_parameter(bare: Any) -> None:
    def f(fine: int, odd: Any) -> None: ...

    f.__annotations__["odd"] = bare
    with pytest.raises(
        ValueError, match=r"tool 't': parameter 'odd' has the type .* which JSON cannot express"
    ):
        FunctionTool(function=f, name="t")


def test_a_function_that_hides_its_parameters_needs_them_by_hand() -> None:
    with pytest.raises(ValueError, match=r"tool 'least': Python does not know the parameters .* parameters="):
        FunctionTool(function=min, name="least")
    assert FunctionTool(function=min, name="least", parameters={"type": "object"}).parameters == {
        "type": "object"
    }


class Shelf:
    class Row(Enum):
        TOP = "top"

    def put(self, row: Row) -> None: ...


def test_hints_of_a_method_may_name_what_is_in_its_class() -> None:
    assert schema_of(Shelf.put)["properties"] == {"row": {"type": "string", "enum": ["top"]}}


# --- docstrings ------------------------------------------------------------------------------------


def google(city: str, days: int = 1, *rest: str, **more: int) -> None:
    """Tell the weather.

    Args:
        city (str): Name of the city,
            in English.

        days: How many: one to ten.
        *rest: Ignored.
        **more: Also ignored.

    Returns:
        nothing: at all
    """


def numpy_style(city: str, days: int = 1) -> None:
    """Tell the weather.

    Parameters
    ----------
    city : str
        Name of the city,
        in English.
    days : int, optional
        How many: one to ten.

    Returns
    -------
    nothing : int
        At all.
    """


def sphinx(city: str, days: int = 1) -> None:
    """Tell the weather.

    :param str city: Name of the city,
        in English.
    :param days: How many: one to ten.
    :returns: nothing
    """


@pytest.mark.parametrize("function", [google, numpy_style, sphinx])
def test_the_three_docstring_styles_describe_parameters(function: Callable[..., object]) -> None:
    described = describe_parameters(function)
    assert described["city"] == "Name of the city, in English."
    assert described["days"] == "How many: one to ten."
    assert "nothing" not in described
    tool = FunctionTool(function=function)
    assert tool.description == "Tell the weather."
    assert tool.parameters["properties"]["city"] == {
        "type": "string",
        "description": "Name of the city, in English.",
    }


def test_an_annotation_wins_over_the_docstring_and_other_colons_are_no_parameters() -> None:
    def f(a: Annotated[int, "from the hint"], b: int) -> None:
        """Do it: now.

        Args:
            a: from the docstring
            b:
        Note: nothing.
        """

    assert schema_of(f)["properties"] == {
        "a": {"type": "integer", "description": "from the hint"},
        "b": {"type": "integer"},
    }


@given(st.text(max_size=200))
@settings(deadline=None, max_examples=30)
def test_no_docstring_breaks_the_tool(text: str) -> None:
    def f(a: int) -> None: ...

    f.__doc__ = text
    assert schema_of(f)["properties"]["a"]["type"] == "integer"


# --- conversion ------------------------------------------------------------------------------------


def test_values_arrive_as_the_types_that_the_function_names() -> None:
    def f(
        unit: Unit,
        level: Level,
        where: Address,
        at: Point,
        when: datetime,
        price: Decimal,
        tags: set[str],
        pair: tuple[int, str],
        near: int | str,
        maybe: Optional[int],  # noqa: UP045 - the old form counts too
        half: float,
    ) -> None: ...

    _, named = converted(
        f,
        unit="f",
        level=2,
        where={"street": "Main", "number": 3},
        at={"x": 1, "y": [1, 2.5]},
        when="2020-02-03T04:05:06Z",
        price="1.50",
        tags=["a", "b"],
        pair=[1, "x"],
        near="here",
        maybe=None,
        half=2,
    )
    assert named == {
        "unit": Unit.FAHRENHEIT,
        "level": Level.HIGH,
        "where": Address(street="Main", number=3),
        "at": Point(1, [1.0, 2.5]),
        "when": datetime(2020, 2, 3, 4, 5, 6, tzinfo=timezone.utc),  # noqa: UP017
        "price": Decimal("1.50"),
        "tags": {"a", "b"},
        "pair": (1, "x"),
        "near": "here",
        "maybe": None,
        "half": 2.0,
    }
    assert isinstance(named["level"], Level)


def test_json_numbers_are_integers_when_they_are_whole_and_text_is_no_number() -> None:
    def f(a: int, b: list[int] | None = None) -> None: ...

    assert converted(f, a=2.0, b=[3.0, 4]) == ([], {"a": 2, "b": [3, 4]})
    assert "'a' must be integer, not \"2\"" in faults(f, a="2")
    assert "'a' must be integer, not true" in faults(f, a=True)
    assert "'a' must be integer, not 2.5" in faults(f, a=2.5)


def test_arguments_that_are_left_out_leave_the_functions_own_defaults() -> None:
    marker = object()

    def f(a: int = 1, /, b: int = 2, *, c: Any = marker) -> None: ...

    assert converted(f) == ([1], {})
    assert converted(f, a=5, c=None) == ([5], {"c": None})


def test_other_names_of_a_function_with_kwargs_have_their_type() -> None:
    def f(a: int, **others: int) -> None: ...

    assert schema_of(f)["additionalProperties"] == {"type": "integer"}
    assert converted(f, a=1, p0=2, p7=3) == ([], {"a": 1, "p0": 2, "p7": 3})
    assert "'p0' must be integer, not \"x\"" in faults(f, a=1, p0="x")


RESERVED = (
    "self",
    "cls",
    "rollout_id",
    "tool_name",
    "arguments",
    "kwargs",
    "name",
    "p0",
    "_private",
    "model_fields",
)


def test_parameters_may_be_called_anything() -> None:
    scope: dict[str, Any] = {}
    exec(f"def f(*, {', '.join(f'{name}: int' for name in RESERVED)}): pass", scope)
    given_values = {name: place for place, name in enumerate(RESERVED)}
    assert converted(scope["f"], **given_values) == ([], given_values)
    assert schema_of(scope["f"])["required"] == list(RESERVED)


def test_partials_decorated_functions_and_objects_are_read_through() -> None:
    def f(a: int, unit: Unit) -> None: ...

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    class Callee:
        def __call__(self, unit: Unit) -> None: ...

    assert schema_of(functools.partial(f, 1))["properties"] == {
        "unit": {"type": "string", "enum": ["c", "f"]}
    }
    assert converted(wrapped, a=1, unit="c")[1]["unit"] is Unit.CELSIUS
    assert converted(Callee(), unit="c")[1]["unit"] is Unit.CELSIUS


def test_replacing_a_setting_keeps_the_conversion_and_a_schema_by_hand_has_none() -> None:
    def f(unit: Unit) -> Unit:
        return unit

    tool = replace(FunctionTool(function=f), timeout_seconds=5)
    assert tool.convert({"unit": "c"}) == ([], {"unit": Unit.CELSIUS})
    by_hand = FunctionTool(function=f, parameters={"properties": {"unit": {"enum": ["c"]}}})
    assert by_hand.convert({"unit": "c"}) == ([], {"unit": "c"})
    with pytest.raises(ArgumentFault, match="'unit' must be one of"):
        by_hand.convert({"unit": "f"})


def test_a_tool_pickles_and_converts_afterwards() -> None:
    tool = pickle.loads(pickle.dumps(FunctionTool(function=google, name="g", exclusive=True)))
    assert (tool.name, tool.exclusive, tool.parameters) == ("g", True, schema_of(google))
    assert tool.convert({"city": "Oslo"}) == ([], {"city": "Oslo"})


# --- what the model is told ------------------------------------------------------------------------


def test_every_fault_is_told_with_its_place() -> None:
    def f(
        where: Address,
        shape: Circle | Square,
        unit: Unit,
        when: datetime,
        even: Even,
        near: int | str = 0,
        tags: list[str] = [],
    ) -> None: ...

    assert faults(
        f,
        where={"number": "x"},
        shape={"kind": "circle"},
        unit="k",
        when="soon",
        even={"number": 3},
        near=None,
        tags=["a", 1],
        town="Oslo",
    ) == (
        "Invalid arguments for tool 't': 'where.street' is missing; 'where.number' must be integer, not \"x\"; "
        "'shape.radius' is missing; 'shape.kind' must be 'square', not \"circle\"; 'shape.side' is missing; "
        "'unit' must be 'c' or 'f', not \"k\"; "
        "'when' must be a valid datetime, input is too short, not \"soon\"; "
        "'even.number': must be even; and 3 more. "
        "Its parameters: 'where', 'shape', 'unit', 'when', 'even', 'near', 'tags'."
    )
    assert "'near' must be integer or string, not null" in faults(f, near=None)
    assert "'tags[1]' must be string, not 1" in faults(
        f, tags=["a", 1], where=1, shape=1, unit=1, when=1, even=1
    )


@pytest.mark.parametrize("function", [google, "hand"])
def test_a_value_of_a_megabyte_is_not_repeated(function: Any) -> None:
    if function == "hand":
        tool = FunctionTool(
            function=print, name="t", parameters={"properties": {"days": {"type": "integer"}}}
        )
    else:
        tool = FunctionTool(function=function, name="t")
    for value in ("x" * 2**20, ["x" * 2**20] * 9, {"x" * 2**20: 1}):
        with pytest.raises(ArgumentFault) as raised:
            tool.convert({"days": value, "y" * 2**20: 1})
        assert len(str(raised.value)) < 600
        assert "'days' must be integer, not " in str(raised.value)


def test_a_hundred_faults_and_parameters_are_counted() -> None:
    names = [f"a{place}" for place in range(100)]
    scope: dict[str, Any] = {}
    exec(f"def f({', '.join(f'{name}: int' for name in names)}): pass", scope)
    told = faults(scope["f"])
    assert "'a7' is missing; and 92 more. Its parameters: 'a0', " in told
    assert told.endswith("'a19', ....")


def test_text_that_is_no_unicode_and_numbers_that_are_none_are_told() -> None:
    def f(a: str = "", b: float = 0) -> None: ...

    assert "they hold text that is not valid Unicode" in faults(f, a="\ud800")
    assert "'b' must be a finite number, not Infinity" in faults(f, b=math.inf)


def test_arguments_that_are_nested_without_end_are_told() -> None:
    def f(a: Any) -> None: ...

    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    assert "they are nested too deeply" in faults(f, a=deep)
    for _ in range(100_000):
        deep = [deep]
    assert "they are nested too deeply" in faults(f, a=deep)


async def test_a_validator_that_breaks_is_told_like_a_function_that_raises() -> None:
    class Broken(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def look_up(cls, number: int) -> int:
            return {}[number]  # type: ignore[no-any-return]

    def f(a: Broken) -> None: ...

    assert schema_of(f)["properties"] == {"a": {}}  # a local class, known by its name alone
    f.__annotations__["a"] = Broken
    assert await FunctionTool(function=f).call({"a": {"number": 1}}) == "Error: KeyError: 1"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["where", "shape", "near", "tags", "zz"]), JSON))
@settings(deadline=None, max_examples=60)
def test_any_json_is_converted_or_told_in_few_words(arguments: dict[str, Any]) -> None:
    try:
        _, named = TYPED.convert(arguments)
    except ArgumentFault as fault:
        assert str(fault).startswith("Invalid arguments for tool 'typed': ") and len(str(fault)) < 4_000
    else:
        assert isinstance(named["where"], Address) and isinstance(named["shape"], (Circle, Square))


def typed(
    where: Address, shape: Circle | Square, near: int | str = 0, tags: list[str] | None = None
) -> None: ...


TYPED = FunctionTool(function=typed)


# --- refused when it is made -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["größe", "a b", "a.b", "x" * 65, "", "a\n", "<lambda>"])
def test_a_name_that_openai_does_not_take_is_refused_with_the_way_out(name: str) -> None:
    def f() -> None: ...

    f.__name__ = name or "a/b"
    with pytest.raises(ValueError, match=r"a tool cannot be called .* FunctionTool\(function=\.\.\., name="):
        FunctionTool(function=f, name=name)
    assert FunctionTool(function=f, name="x" * 64).name == "x" * 64


def test_a_lambda_in_tools_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="a tool cannot be called '<lambda>'"):
        bind_tools([lambda: 1], object())


def test_a_schema_that_contains_itself_is_refused_with_its_place() -> None:
    circular: dict[str, Any] = {"type": "object", "properties": {"a": {"items": []}}}
    circular["properties"]["a"]["items"].append(circular)
    with pytest.raises(ValueError) as raised:
        FunctionTool(function=print, parameters=circular)
    assert str(raised.value) == (
        "tool 'print': parameters.properties.a.items[0] contains itself; "
        "write a recursive schema with $defs and $ref"
    )


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (
            {"properties": {"a": {"default": object()}}},
            "parameters.properties.a.default is object, which JSON",
        ),
        ({"properties": {1: {}}}, "parameters.properties has the key 1"),
        ({"type": "array"}, "must be the schema of an object, not of 'array'"),
        (["a"], "must be a JSON schema"),
        (functools.reduce(lambda inner, _: {"items": inner}, range(70), {"a": 1}), "more than 64 levels"),
    ],
)
def test_parameters_that_are_no_json_schema_are_refused(parameters: Any, words: str) -> None:
    with pytest.raises(ValueError, match="tool 'print': ") as raised:
        FunctionTool(function=print, parameters=parameters)
    assert words in str(raised.value)


def test_one_schema_in_two_places_is_no_circle() -> None:
    shared = {"type": "string"}
    FunctionTool(function=print, parameters={"properties": {"a": shared, "b": shared}})


@pytest.mark.parametrize("limit", [0, -1, True, "5", math.nan])
@pytest.mark.parametrize(("field", "kind"), [("timeout_seconds", "number"), ("max_result_chars", "integer")])
def test_limits_are_positive_numbers(field: str, kind: str, limit: Any) -> None:
    with pytest.raises(ValueError, match=f"tool 'print': {field} must be a positive {kind} or None"):
        FunctionTool(function=print, parameters={"type": "object"}, **{field: limit})


def test_pydantic_is_needed_only_for_functions_without_a_schema() -> None:
    program = """
import sys, types
from benchmax.envs import BaseEnv, Dataset, FunctionTool
assert "pydantic" not in sys.modules, "imported without need"
class Env(BaseEnv):
    max_turns = 1
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset([])
Env()
def f(a: int): pass
old = types.ModuleType("pydantic"); old.VERSION = "1.10.2"
for module, words in ((None, "pip install 'pydantic>=2'"), (old, "needs pydantic 2, and 1.10.2 is installed")):
    sys.modules["pydantic"] = module
    try:
        type("Tools", (Env,), {"tools": (f,)})()
    except ImportError as error:
        assert words in str(error) and "tool 'f'" in str(error) and "parameters={...}" in str(error), error
    else:
        raise AssertionError("no error")
    tool = FunctionTool(function=f, parameters={"properties": {"a": {"type": "integer"}}})
    assert type("Tools", (Env,), {"tools": (tool,)})().function_tools["f"].convert({"a": 1}) == ([], {"a": 1})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
