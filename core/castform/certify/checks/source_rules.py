"""Habits of code that make rewards lie or stall, as they look in an environment's source.

Each rule looks for one shape and leaves everything else alone: a warning that is often wrong
is soon not read any more.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from castform.certify.checks.source_names import Function, Names, own_nodes, reachable, read_names
from castform.certify.checks.sources import SourceFile

HOOKS = (
    "compute_reward",
    "compute_group_rewards",
    "run_rollout",
    "run_group",
    "rollout_context",
    "run_tool",
    "list_tools",
)
"""What runs for every rollout."""
BLOCKING = frozenset(
    {
        "time.sleep",
        "os.system",
        "urllib.request.urlopen",
        "urllib.request.urlretrieve",
        *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "getoutput")),
        *(f"requests.{name}" for name in ("get", "post", "put", "patch", "delete", "head", "request")),
        *(f"httpx.{name}" for name in ("get", "post", "put", "patch", "delete", "head", "request", "stream")),
    }
)
_SHARED = random._inst  # behind the functions of the module, whoever replaced those
RANDOM_DRAWS = frozenset(
    name for name, value in vars(random).items() if getattr(value, "__self__", None) is _SHARED
) - {"getstate", "setstate"}
OWN_NUMPY_GENERATORS = frozenset(
    {"default_rng", "Generator", "RandomState", "SeedSequence", "BitGenerator", "get_state", "set_state"}
    | {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
)
BROAD = frozenset({"Exception", "BaseException"})
OUTAGES = frozenset(
    {"TimeoutError", "ConnectionError", "OSError", "IOError", "TimeoutExpired", "CalledProcessError"}
    | {"HTTPError", "HTTPStatusError", "RequestException", "RequestError", "URLError", "RateLimitError"}
    | {"APIError", "APIConnectionError", "APITimeoutError", "JudgeError", "RolloutFailure", "CancelledError"}
)
"""Exceptions that say something of the machinery, not of the answer."""

_SCORES = re.compile(r"reward|score|grade|credit|points|judge", re.IGNORECASE)
"""Functions whose numbers are scores, by their names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Habit:
    """One place in the source."""

    code: str
    path: Path
    line: int
    message: str


def find_habits(sources: Sequence[SourceFile], *, tools: Collection[str] = ()) -> list[Habit]:
    """Return what the rules find in an environment's files.

    `tools` are names of plain functions that run on the event loop when the model calls them.
    """
    named = [(source, read_names(source.tree)) for source in sources]
    files = [names for _, names in named]
    in_rollouts = reachable((*HOOKS, *tools), files)
    scoring = reachable(("compute_reward", "compute_group_rewards"), files)
    on_loop = _on_loop(files, tools)
    found: list[Habit] = []
    for source, names in named:
        for functions in names.functions.values():
            for function in functions:
                found += _in_function(
                    source,
                    names,
                    function,
                    on_loop=id(function) in on_loop,
                    in_rollouts=id(function) in in_rollouts,
                    scoring=id(function) in scoring,
                )
        found += [
            _habit(source, node, "two_way_substring", "`a in b or b in a` calls the empty string right")
            for node in ast.walk(source.tree)
            if isinstance(node, ast.BoolOp) and _is_two_way(node)
        ]
    return found


def _on_loop(files: Sequence[Names], tools: Collection[str]) -> set[int]:
    """Return the functions that run on the event loop: coroutines, and what they call directly."""
    coroutines = {
        name
        for names in files
        for name, functions in names.functions.items()
        if any(isinstance(function, ast.AsyncFunctionDef) for function in functions)
    }
    return reachable((*coroutines, *tools), files)


def _in_function(
    source: SourceFile, names: Names, function: Function, *, on_loop: bool, in_rollouts: bool, scoring: bool
) -> Iterator[Habit]:
    for node in own_nodes(function):
        if isinstance(node, ast.Call):
            called = names.resolve(node.func)
            if on_loop and called in BLOCKING and (in_rollouts or called == "time.sleep"):
                yield _habit(
                    source,
                    node,
                    "blocking_call",
                    f"{called} in {function.name} stops every other rollout while it waits; "
                    "use an async client, or asyncio.to_thread",
                )
            if called is not None and _is_global_draw(called):
                yield _habit(
                    source,
                    node,
                    "global_random_call",
                    f"{called} in {function.name} uses a generator that the whole process shares; "
                    "make a random.Random(seed) or numpy.random.default_rng(seed)",
                )
            if in_rollouts and _evaluates_text(node, names):
                yield _habit(
                    source,
                    node,
                    "evaluates_model_text",
                    f"{function.name} gives text to {ast.unparse(node.func)}(), which runs whatever a model "
                    "writes there; parse it",
                )
        elif scoring and isinstance(node, ast.ExceptHandler) and _SCORES.search(function.name):
            yield from _judge_handler(source, names, function, node)


def _is_global_draw(called: str) -> bool:
    module, _, name = called.rpartition(".")
    if module == "random":
        return name in RANDOM_DRAWS
    return module == "numpy.random" and name not in OWN_NUMPY_GENERATORS


def _evaluates_text(node: ast.Call, names: Names) -> bool:
    if not isinstance(node.func, ast.Name) or node.func.id not in ("eval", "exec"):
        return False
    if node.func.id in names.functions or node.func.id in names.imported:
        return False
    return bool(node.args) and not isinstance(node.args[0], ast.Constant)


def _judge_handler(
    source: SourceFile, names: Names, function: Function, handler: ast.ExceptHandler
) -> Iterator[Habit]:
    scores = [
        score
        for statement in handler.body
        if isinstance(statement, ast.Return)
        for score in _constants(statement.value)
    ]
    if not scores:
        return
    caught = _caught(handler)
    if caught & BROAD:
        what = "any exception"
    elif caught & OUTAGES:
        what = sorted(caught & OUTAGES)[0]
    elif 0 < max(scores) <= 1:
        what = " or ".join(sorted(caught))
    else:
        return
    yield _habit(
        source,
        handler,
        "failure_becomes_score",
        f"{function.name} turns {what} into the score {max(scores):g}, so that a defect or an outage looks like a "
        "judged answer; let it raise, or raise RolloutFailure",
    )


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "?") for node in types}


def _constants(value: ast.expr | None) -> list[float]:
    """Return the numbers of a returned constant or dict of constants; empty for anything else."""
    if isinstance(value, ast.Dict):
        parts = [_constants(item) for item in value.values]
        return [number for part in parts for number in part] if parts and all(parts) else []
    if isinstance(value, ast.Constant):
        number = value.value
        return [float(number)] if isinstance(number, (int, float)) and not isinstance(number, bool) else []
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return [-number for number in _constants(value.operand)]
    return []


def _is_two_way(node: ast.BoolOp) -> bool:
    """Say whether an `or` holds `a in b` and `b in a`, the sides perhaps stripped or lowered alike."""
    if not isinstance(node.op, ast.Or):
        return False
    pairs = {
        (ast.dump(part.left), ast.dump(part.comparators[0]))
        for part in node.values
        if isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], ast.In)
    }
    return any((b, a) in pairs for a, b in pairs if a != b)


def _habit(source: SourceFile, node: ast.AST, code: str, message: str) -> Habit:
    line: int = getattr(node, "lineno", 0)
    return Habit(code=code, path=source.path, line=line, message=message)
