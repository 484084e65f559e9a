"""Look at an environment without a model: its data, tools and rewards, and its first example.

The first example is played once to a scripted endpoint that answers with the right
answer where the environment gives it, written the way that pays most: what the environment
sends shows its messages and tools, what comes back shows its reward components. Works for
any Environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmax.envs import Environment, Example
from castform.calls import Sampling
from castform.compose.parts import UsedPart
from castform.environments import load_examples
from castform.errors import CastformError
from castform.gold import RENDERINGS, Rendering, gold_script, gold_text, read_gold
from castform.plugins.arguments import Argument, list_arguments, list_rewards, summarize_environment
from castform.plugins.environments import LoadedEnvironment
from castform.rollouts import Rollout, Split, run_group
from castform.scripted_endpoint import ScriptedEndpoint
from castform.scripted_replies import Answer, Script, ScriptedRequest

SPLITS: tuple[Split, ...] = ("train", "eval")
PLAY_SECONDS = 60.0
"""An environment that takes longer over one scripted attempt is shown without rewards."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentDescription:
    """What `castform env show` shows."""

    id: str
    summary: str
    distribution: str
    version: str
    content_sha256: str
    sizes: Mapping[Split, int]
    """Examples a split."""
    faults: Mapping[Split, str]
    """Why a split has none."""
    arguments: Sequence[Argument]
    parts: Sequence[UsedPart]
    """What a composed environment is made of."""
    example_id: str
    payload: Any  # the author's own type
    """The first example of the eval split (or of train), as the dataset holds it."""
    messages: Sequence[Mapping[str, Any]] = ()
    """The same, as the model gets to see it."""
    gold: Any = None  # the author's own type
    """Its right answer; None when the environment does not say."""
    gold_rendering: str = ""
    """How the scripted attempt wrote it: the name of one of castform.gold.RENDERINGS."""
    tools: Sequence[Mapping[str, Any]] = ()
    """As the model is told about them."""
    seen_rewards: Mapping[str, float] = field(default_factory=dict)
    """Components and values that the scripted attempt got."""
    declared_rewards: Sequence[str] = ()
    """Ids of rewards that the plugin registers."""
    termination_reason: str | None = None
    error: str | None = None
    """What went wrong in the scripted attempt."""


async def describe_environment(loaded: LoadedEnvironment) -> EnvironmentDescription:
    """Load both splits, play the first example once, and say what there is.

    Raises what `load_examples` raises when no split has examples. Closes the environment.
    """
    environment = loaded.environment
    try:
        examples, faults = await _load_splits(loaded)
        split: Split = "eval" if "eval" in examples else "train"
        example = examples[split][0]
        played = await _play(loaded, example, split)
        gold = _read_gold(environment, example)
    finally:
        await environment.aclose()
    return EnvironmentDescription(
        id=loaded.id,
        summary=summarize_environment(loaded),
        distribution=loaded.pin.distribution,
        version=loaded.pin.version,
        content_sha256=loaded.pin.content_sha256,
        sizes={split: len(rows) for split, rows in examples.items()},
        faults=faults,
        arguments=list_arguments(loaded),
        parts=loaded.parts,
        example_id=example.id,
        payload=example.payload,
        gold=gold,
        declared_rewards=list_rewards(loaded),
        **played,
    )


async def _load_splits(loaded: LoadedEnvironment) -> tuple[dict[Split, list[Example[Any]]], dict[Split, str]]:
    """Return the examples by split, and what is wrong with a split that has none. Raises when none has any."""
    examples: dict[Split, list[Example[Any]]] = {}
    faults: dict[Split, CastformError] = {}
    for split in SPLITS:
        try:
            examples[split] = await load_examples(loaded.environment, split, loaded.base_dir)
        except CastformError as error:
            faults[split] = error
    if not examples:
        raise faults["train"]
    return examples, {split: str(error) for split, error in faults.items()}


def _read_gold(environment: Environment[Any, Any], example: Example[Any]) -> Any:  # the author's own type
    try:
        return read_gold(environment, example)
    except RuntimeError as error:
        raise CastformError(str(error), hint="-v shows the traceback") from error


async def _play(loaded: LoadedEnvironment, example: Example[Any], split: Split) -> dict[str, Any]:
    """Let the environment make attempts until one is paid best; return the fields that it fills."""
    gold = _read_gold(loaded.environment, example)
    if gold is None:
        rollout, requests = await _attempt(loaded, example, split, lambda request: "")
        return _show_attempt(rollout, requests, None)
    attempts: list[tuple[Rollout, list[Mapping[str, Any]], Rendering]] = []
    for rendering in RENDERINGS if gold_text(gold) is not None else RENDERINGS[:1]:
        attempts.append((*await _attempt(loaded, example, split, gold_script(gold, rendering)), rendering))
        if attempts[-1][0].score is None:
            break  # it fails or hangs: other words will not help, and each costs up to PLAY_SECONDS
    scores = [rollout.score for rollout, _, _ in attempts]
    best = max(
        range(len(attempts)), key=lambda place: -float("inf") if (score := scores[place]) is None else score
    )
    return _show_attempt(*attempts[best])


async def _attempt(
    loaded: LoadedEnvironment, example: Example[Any], split: Split, script: Script
) -> tuple[Rollout, list[Mapping[str, Any]]]:
    """Play the example once; return the rollout and the requests that the environment sent."""
    requests: list[Mapping[str, Any]] = []

    def answer(request: ScriptedRequest) -> Answer:
        requests.append(request.body)
        return script(request)

    endpoint = ScriptedEndpoint(answer)
    try:
        group = await run_group(
            loaded.environment,
            example,
            endpoint=endpoint,
            split=split,
            group_id="show",
            size=1,
            sampling=Sampling(),
            seed=0,
            weights={},
            timeout_seconds=PLAY_SECONDS,
        )
    finally:
        await endpoint.aclose()
    (rollout,) = group.rollouts
    return rollout, requests


def _show_attempt(
    rollout: Rollout, requests: Sequence[Mapping[str, Any]], rendering: Rendering | None
) -> dict[str, Any]:
    first = requests[0] if requests else {}
    return {
        "messages": first.get("messages", ()),
        "tools": first.get("tools") or (),
        "gold_rendering": rendering.name if rendering else "",
        "seen_rewards": dict(rollout.rewards),
        "termination_reason": rollout.termination_reason,
        "error": rollout.error,
    }
