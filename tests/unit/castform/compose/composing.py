"""Write TOML, compose it, run groups of it: what these tests share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from castform.plugins import LoadedEnvironment, load_environment
from castform.rollouts import RolloutGroup
from castform.testing import FakeModel

ROWS = """
dataset = [
  {question = "1 + 1", answer = 2},
  {question = "1 + 2", answer = 3},
  {question = "1 + 3", answer = 4},
]
prompt = "What is {question}?"
"""
SUMS = f"""[environment]
{ROWS}
rewards = {{ "castform/answer" = 1.0 }}
"""


def write(folder: Path, text: str, name: str = "mix.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def compose(folder: Path, text: str, args: Mapping[str, Any] | None = None) -> LoadedEnvironment:
    return load_environment(str(write(folder, text)), args)


async def run(
    loaded: LoadedEnvironment, replies: Any, *, split: str = "train", **options: Any
) -> RolloutGroup:
    """Run the first example of a split; rollout i gets the i-th reply, "RIGHT" being the right answer."""
    environment = loaded.environment
    example = (await environment.create_dataset(split, loaded.base_dir))[0]
    script = replies
    if isinstance(replies, list):
        options = {"size": len(replies), **options}
        script = lambda request: replies[int(request.session_id[-1])].replace(  # noqa: E731
            "RIGHT", str(environment.gold(example))
        )
    try:
        async with FakeModel(script) as model:
            return await model.run_group(environment, example, split=split, **options)
    finally:
        await environment.aclose()
