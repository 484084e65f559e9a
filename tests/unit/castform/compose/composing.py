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
    """Run the first example of a split; rollout i gets the i-th reply."""
    environment = loaded.environment
    examples = await environment.create_dataset(split, loaded.base_dir)
    answers = {f"{n}": reply for n, reply in enumerate(replies)} if isinstance(replies, list) else None
    script = replies if answers is None else (lambda request: answers[request.session_id[-1]])
    try:
        async with FakeModel(script) as model:
            size = len(replies) if isinstance(replies, list) else 1
            return await model.run_group(environment, examples[0], size=size, split=split, **options)
    finally:
        await environment.aclose()
