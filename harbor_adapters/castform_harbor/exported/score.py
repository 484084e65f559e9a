"""Score one reply as its environment would. It runs where nothing of castform is installed.

Beside it lie `lib/` (the modules that scoring imports) and `example.json`, and, where that was asked
for, what a minimal Python lacks of the standard library.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STANDARD = HERE / f"std-{sys.version_info[0]}.{sys.version_info[1]}"
if STANDARD.is_dir():
    sys.path.append(str(STANDARD))

import asyncio  # noqa: E402 - a minimal Python has it from the folder above
import importlib  # noqa: E402
import inspect  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
from typing import Any  # noqa: E402

MAX_ANSWER_BYTES = 1 << 20


def make_environment(spec: dict[str, Any]) -> Any:  # Any: an environment, of a package that may not be there
    """Call the environment's factory with the arguments it was exported with."""
    config = spec.get("config")
    factory = find(spec["factory"])
    return factory(find(config).model_validate(spec["args"])) if config else factory(**spec["args"])


def find(reference: str) -> Any:  # Any: whatever the reference names
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def score_reply(environment: Any, example: dict[str, Any], reply: str) -> dict[str, float]:
    """Return the components that the environment gives a reply to the example's prompt."""
    from benchmax.envs import BaseRollout

    payload = dict(example["payload"])
    prompt = payload.pop("prompt_messages")
    rollout = BaseRollout(
        rollout_id="exported",
        termination_reason="finished",
        messages=[*prompt, {"role": "assistant", "content": reply}],
        example_args=payload,
        split=example["split"],
    )
    rewards = asyncio.run(settle(environment.compute_reward(rollout))) or {}
    return {str(name): float(value) for name, value in rewards.items()}


async def settle(value: Any) -> Any:  # Any: a map of rewards, or what gives one
    return await value if inspect.isawaitable(value) else value


def weigh(rewards: dict[str, float], weights: dict[str, float]) -> float:
    return sum(value * weights.get(name, 1.0) for name, value in rewards.items() if weights.get(name, 1.0))


def main(answer: Path, output: Path) -> None:
    """Write reward.json: the components, and `reward`, 1 for the right answer and 0 for none.

    Anything that goes wrong raises, and leaves no reward: that is no zero.
    """
    example = json.loads((HERE / "example.json").read_text(encoding="utf-8"))
    if example["python"] and example["python"] != list(sys.version_info[:2]):
        raise SystemExit(
            f"the scorer was exported for Python {example['python']}, not {sys.version_info[:2]}"
        )
    sys.path.insert(0, str(HERE / "lib"))
    sys.dont_write_bytecode = True
    reply = read_answer(answer)
    rewards = score_reply(make_environment(example["environment"]), example, reply)
    scale = example["gold_score"] - example["empty_score"]
    reward = (weigh(rewards, example["weights"]) - example["empty_score"]) / scale
    if not math.isfinite(reward):
        raise SystemExit(f"the reward is {reward}")
    document = {
        **{name: value for name, value in rewards.items() if name != "reward"},
        "reward": round(reward, 12),
    }
    output.write_text(json.dumps(document), encoding="utf-8")


def read_answer(path: Path) -> str:
    """Return the agent's answer; nothing where there is none, or one that is no plain file of usual size."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_ANSWER_BYTES:
        return ""
    return path.read_bytes().decode("utf-8", "replace").strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
