"""What a host has to know of an environment that it does not hold itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.plugins.arguments import Argument, list_arguments, list_rewards, summarize_environment
from castform.plugins.environments import LoadedEnvironment
from castform.plugins.pins import EnvironmentPin, PinDetails
from castform.plugins.specs import EnvironmentSpec
from castform.workers.values import decode_value, encode_value

if TYPE_CHECKING:
    from benchmax.envs import Environment


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the host reads of the environment's class and instance."""

    kind: str
    """Name of its class."""
    scorable_termination_reasons: frozenset[str]
    max_concurrent_rollouts: int | None
    requires_public_model_endpoint: bool
    reward_weights: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class RemoteEnvironment:
    """A loaded environment without the environment."""

    id: str
    pin: EnvironmentPin
    base_dir: Path
    spec: EnvironmentSpec | None
    summary: str
    arguments: tuple[Argument, ...]
    rewards: tuple[str, ...]
    """Ids of rewards that its plugin registers."""
    facts: Facts


def describe_loaded(loaded: LoadedEnvironment) -> dict[str, Any]:
    """Return a loaded environment as JSON for `read_loaded`."""
    pin = loaded.pin
    spec = loaded.spec
    return {
        "id": loaded.id,
        "pin": {**pin.as_dict(), "args": encode_value(dict(pin.args)), "files": dict(pin.details.files)},
        "base_dir": str(loaded.base_dir),
        "spec": None if spec is None else spec.as_dict(),
        "summary": summarize_environment(loaded),
        "arguments": [asdict(argument) for argument in _list_arguments(loaded)],
        "rewards": list_rewards(loaded),
        "facts": _describe_facts(loaded.environment),
    }


def read_loaded(message: Mapping[str, Any]) -> RemoteEnvironment:
    """Return what `describe_loaded` was given."""
    pin, spec, facts = message["pin"], message["spec"], message["facts"]
    return RemoteEnvironment(
        id=message["id"],
        pin=EnvironmentPin(
            id=pin["id"],
            distribution=pin["distribution"],
            version=pin["version"],
            content_sha256=pin["content_sha256"],
            args=decode_value(pin["args"]),
            datasets=pin["datasets"],
            details=PinDetails(files=pin["files"]),
        ),
        base_dir=Path(message["base_dir"]),
        spec=None if spec is None else EnvironmentSpec.from_dict(spec),
        summary=message["summary"],
        arguments=tuple(Argument(**argument) for argument in message["arguments"]),
        rewards=tuple(message["rewards"]),
        facts=Facts(
            kind=facts["kind"],
            scorable_termination_reasons=frozenset(facts["scorable"]),
            max_concurrent_rollouts=facts["max_concurrent_rollouts"],
            requires_public_model_endpoint=facts["requires_public_model_endpoint"],
            reward_weights=facts["reward_weights"],
        ),
    )


def _list_arguments(loaded: LoadedEnvironment) -> list[Argument]:
    try:
        return list_arguments(loaded)
    except (Exception, SystemExit):  # noqa: BLE001 - a config model's schema is the author's; it is only shown
        return []


def _describe_facts(environment: Environment[Any, Any]) -> dict[str, Any]:
    limit = environment.max_concurrent_rollouts
    usable = isinstance(limit, int) and not isinstance(limit, bool) and limit > 0
    return {
        "kind": type(environment).__name__,
        "scorable": sorted(environment.scorable_termination_reasons),
        "max_concurrent_rollouts": limit if usable else None,  # a wrong one fails every group, as anywhere
        "requires_public_model_endpoint": bool(environment.requires_public_model_endpoint),
        "reward_weights": dict(environment.reward_weights),
    }
