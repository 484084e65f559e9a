"""Do global random generators have a say in what a rollout is shown or paid?

Whoever draws from `random` or `numpy.random` draws from one sequence with everything else in
the process: another rollout in between, and the outcome is another one. The same replies are
played with the generators in one state, in that state again, and in another state with
foreign draws in between; the states are put back afterwards. Nothing else may run meanwhile.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from benchmax.envs import Example
from castform.certify.checks.comparison import find_difference
from castform.certify.checks.scripts import list_examples, make_right, make_wrong, scores_groups
from castform.certify.context import CheckContext
from castform.playback import Playback
from castform.rollouts import Rollout
from castform.scripted_replies import Answer, Script, ScriptedRequest
from castform.seeds import derive_seed
from castform.validation import Finding, Level

CHECK = "global_randomness"
EXAMPLES = 4
FOREIGN_DRAWS = 3


async def check_global_randomness(context: CheckContext) -> list[Finding]:
    """Play right and wrong answers under two states of the global generators and compare."""
    examples = list_examples(context, EXAMPLES)
    if not examples:
        return [_finding("unchecked", "no_examples", "there are no examples to play")]
    with kept_generators():
        async with Playback() as playback:
            play = _Player(context, playback)
            drawn: set[str] = set()
            for example in examples:
                first = await play(example, state=1)
                again = await play(example, state=1)
                other = await play(example, state=2)
                drawn |= first.drawn | again.drawn | other.drawn
                if not drawn:
                    continue
                found = _compare(example, first, again, other)
                if found is not None:
                    place = await _locate(play, example)
                    return [_finding(found[0], found[1], f"{found[2]}{place}", example.id)]
            if not drawn:
                drawn = await _draws_of_dataset(context)
                if not drawn:
                    return []
                return [
                    _finding(
                        "warning",
                        "global_draws",
                        f"create_dataset draws from or seeds the global {_names(drawn)}, which everything in the "
                        "process shares; a random.Random(seed) of its own would not",
                    )
                ]
            place = await _locate(play, examples[0])
    return [
        _finding(
            "warning",
            "global_draws",
            f"rollouts draw from the global {_names(drawn)}{place}, though no reward or observation of "
            f"{len(examples)} examples changed by it",
        )
    ]


@dataclass(frozen=True, slots=True)
class _Played:
    rollouts: tuple[Rollout, ...]
    drawn: set[str]
    """Which global generators were not left as they were."""


class _Player:
    """Plays one example's answers, from a given state of the generators."""

    def __init__(self, context: CheckContext, playback: Playback) -> None:
        self.context = context
        self.playback = playback
        self.groups = 0

    async def __call__(self, example: Example[Any], *, state: int) -> _Played:
        context = self.context
        right = make_right(context, example)
        scripts = [*([right] if right else []), *make_wrong(context, example)[: 1 if right else 2]]
        if state != 1:
            scripts = [_drawing(script, foreign_draws) for script in scripts]
        groups = [scripts] if scores_groups(context.environment) else [[script] for script in scripts]
        rollouts: list[Rollout] = []
        drawn: set[str] = set()
        for group in groups:  # one after the other: side by side, their own draws would interleave
            self.groups += 1
            _seed_generators(derive_seed(context.seed, CHECK, state))
            before = _states()
            played = await self.playback.play(
                context.environment,
                example,
                group,
                group_id=f"random-{self.groups}",
                split=context.split,
                weights=context.weights,
                timeout_seconds=context.timeout_seconds,
            )
            if state == 1:
                after = _states()
                drawn |= {name for name in before if before[name] != after[name]}
            rollouts += played.rollouts
        return _Played(tuple(rollouts), drawn)


def _compare(
    example: Example[Any], first: _Played, again: _Played, other: _Played
) -> tuple[Level, str, str] | None:
    for one, same in zip(first.rollouts, again.rollouts, strict=True):
        changed = find_difference(one, same)
        if changed is not None:
            return (
                "unchecked",
                "not_repeatable",
                f"{changed.what} of example {example.id} differs between two runs that begin alike, so the part "
                f"of the global {_names(first.drawn | again.drawn)} in it cannot be told",
            )
    for one, second in zip(first.rollouts, other.rollouts, strict=True):
        changed = find_difference(one, second)
        if changed is not None:
            return (
                "fault",
                "global_randomness",
                f"{changed.what} of example {example.id} depends on the global {_names(first.drawn)}: given the "
                f"same replies it is {changed.first} with one state and {changed.second} with another",
            )
    return None


async def _draws_of_dataset(context: CheckContext) -> set[str]:
    before = _states()
    try:
        await context.environment.create_dataset(context.split, context.base_dir, max_examples=1)
    except Exception:  # noqa: BLE001 - the author's code; the static check reports what it raises
        return set()
    after = _states()
    return {name for name in before if before[name] != after[name]}


async def _locate(play: _Player, example: Example[Any]) -> str:
    """Return where `random` is drawn from, as ` (file:line)`; empty where that cannot be seen."""
    places: list[str] = []
    with _watched_draws(places):
        await play(example, state=1)
    return f" ({', '.join(dict.fromkeys(places))})" if places else ""


@contextmanager
def _watched_draws(places: list[str]) -> Iterator[None]:
    """Note the lines that call the global `random` in this thread."""
    shared = random._inst  # the generator behind the module's functions

    def watch(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_filename == random.__file__:
            if frame.f_locals.get("self") is shared:
                note(frame.f_back)
        elif event == "c_call" and getattr(arg, "__self__", None) is shared:
            note(frame)

    def note(frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename == random.__file__:
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename != __file__ and len(places) < 3:
            places.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")

    previous = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(previous)


def foreign_draws() -> None:
    """Draw a few numbers, as another rollout would."""
    for _ in range(FOREIGN_DRAWS):
        random.random()
    numbers = _numpy_random()
    if numbers is not None:
        numbers.random()


def _drawing(script: Script, draw: Callable[[], None]) -> Script:
    def answer(request: ScriptedRequest) -> Answer:
        draw()
        return script(request)

    return answer


@contextmanager
def kept_generators() -> Iterator[None]:
    """Put the global generators back as they were."""
    python, numbers = random.getstate(), _numpy_random()
    state = None if numbers is None else numbers.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        if numbers is not None:
            numbers.set_state(state)


def _seed_generators(seed: int) -> None:
    random.seed(seed)
    numbers = _numpy_random()
    if numbers is not None:
        numbers.seed(seed % 2**32)


def _states() -> dict[str, object]:
    """Return the state of each global generator that is loaded, in a form that can be compared."""
    states: dict[str, object] = {"random": random.getstate()}
    numbers = _numpy_random()
    if numbers is not None:
        states["numpy.random"] = [
            part.tobytes() if hasattr(part, "tobytes") else part for part in numbers.get_state()
        ]
    return states


def _numpy_random() -> Any:  # Any: numpy is not a dependency, and only looked at where it is loaded
    return sys.modules.get("numpy.random")


def _names(drawn: set[str]) -> str:
    return " and ".join(sorted(drawn))


def _finding(level: Level, code: str, message: str, example_id: str | None = None) -> Finding:
    return Finding(level=level, code=code, message=message, check=CHECK, example_id=example_id)
