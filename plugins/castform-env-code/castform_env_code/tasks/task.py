"""What a task is: a function with a docstring, and what to call it with."""

from __future__ import annotations

import ast
import copy
import hashlib
import inspect
import random
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from castform_env_code.candidate_child import encode

Split = Literal["train", "eval"]
Arguments = tuple[Any, ...]  # whatever the task's function takes

HELD_OUT_SHARE = 0.35
"""Share of the tasks that only evaluation sees."""
SHOWN_DRAWS = 6
"""Of so many calls, ordered by length, the middle one is shown and one after it."""
MOST_TRIES = 400
"""Draws for one set of tests, of which those that were drawn before do not count."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One function to write. What it should do is what `function` does."""

    function: Callable[..., Any]
    level: int
    inputs: Callable[[random.Random], Arguments]
    edges: tuple[Arguments, ...] = ()
    """Arguments that are always among the hidden tests."""

    @property
    def name(self) -> str:
        return self.function.__name__


@dataclass(frozen=True, kw_only=True, slots=True)
class Test:
    """One call, and what it has to return, as `encode` writes it."""

    arguments: Arguments
    expected: Any  # JSON


def task(
    level: int, inputs: Callable[[random.Random], Arguments], edges: Sequence[Arguments] = ()
) -> Callable[[Callable[..., Any]], Task]:
    """Make a task of the function below: its signature and docstring are what the model reads."""
    return lambda function: Task(function=function, level=level, inputs=inputs, edges=tuple(edges))


def collect_tasks(names: Mapping[str, object]) -> tuple[Task, ...]:
    """Return the tasks among a module's names, in the order they are written."""
    return tuple(value for value in names.values() if isinstance(value, Task))


def split_of(name: str) -> Split:
    """Return the split of a task, by its name alone."""
    digest = hashlib.sha256(f"castform-env-code:{name}".encode()).digest()
    return "eval" if int.from_bytes(digest[:8], "big") < HELD_OUT_SHARE * 2**64 else "train"


@cache
def read_signature(made: Task) -> str:
    """Return the first line of the function, annotations included, without the colon."""
    node, _ = _parsed(made)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"def {node.name}({ast.unparse(node.args)}){returns}"


@cache
def read_reference(made: Task) -> str:
    """Return the source of a right answer, without decorator and docstring."""
    node, lines = _parsed(made)
    body = lines[node.body[1].lineno - 1 : node.end_lineno]
    return "\n".join([read_signature(made) + ":", *body])


def read_statement(made: Task) -> str:
    """Return what the function should do, in words."""
    return inspect.cleandoc(made.function.__doc__ or "").replace("\n", " ")


def _parsed(made: Task) -> tuple[ast.FunctionDef, list[str]]:
    source = textwrap.dedent(inspect.getsource(made.function))
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    return node, source.splitlines()


@cache
def make_shown(made: Task) -> tuple[Test, Test]:
    """Return the two example calls that the model is shown, with different results; neither is a hidden test."""
    edges = {repr(arguments) for arguments in made.edges}
    drawn = _draw(made, random.Random(f"shown:{made.name}"), SHOWN_DRAWS, seen=edges)
    drawn.sort(key=lambda test: len(repr(test.arguments)))
    first = drawn[len(drawn) // 2]
    others = [
        test for test in drawn[len(drawn) // 2 + 1 :] + drawn if _key(test.expected) != _key(first.expected)
    ]
    return first, others[0]


@cache
def make_hidden(made: Task, *, count: int, seed: int) -> tuple[Test, ...]:
    """Return the hidden tests: the edges, then drawn ones until there are `count`, all different."""
    edges = [_run(made, arguments) for arguments in made.edges]
    seen = {repr(test.arguments) for test in (*make_shown(made), *edges)}
    drawn = _draw(made, random.Random(f"hidden:{seed}:{made.name}"), count - len(edges), seen=seen)
    return tuple(edges + drawn)


def chance_share(tests: Sequence[Test]) -> float:
    """Return the largest share of tests that an answer without any work passes.

    Such an answer is always the same value, or one of the arguments as it is.
    """
    expected = [_key(test.expected) for test in tests]
    constant = max(expected.count(each) for each in expected)
    places = range(min(len(test.arguments) for test in tests))
    echoed = [
        sum(_key(encode(test.arguments[place])) == _key(test.expected) for test in tests) for place in places
    ]
    return max([constant, *echoed]) / len(tests)


def _key(encoded: Any) -> str:
    return repr(encoded)


def _draw(made: Task, rng: random.Random, count: int, *, seen: set[str]) -> list[Test]:
    """Return up to `count` different tests; no value is expected of more than half of them."""
    tests: list[Test] = []
    for _ in range(MOST_TRIES):
        if len(tests) >= count:
            break
        arguments = made.inputs(rng)
        if repr(arguments) in seen:
            continue
        test = _run(made, arguments)
        if sum(_key(other.expected) == _key(test.expected) for other in tests) < (count + 1) // 2:
            seen.add(repr(arguments))
            tests.append(test)
    return tests


def _run(made: Task, arguments: Arguments) -> Test:
    """Return the test of a call; the reference gets a copy, as it may change what it is given."""
    return Test(arguments=arguments, expected=encode(made.function(*copy.deepcopy(arguments))))
