"""Write an environment's examples as Harbor tasks: one question, one answer file, the same reward.

What is exported is an environment that asks once and judges the reply by itself, offline.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from benchmax.envs import BaseEnv, Environment, Example
from castform.errors import UsageError
from castform.gold import RENDERINGS, gold_text, read_gold
from castform.plugins.environments import LoadedEnvironment
from castform.sandbox.contract import BoxRequest
from castform.sandbox.request import check_request
from castform_harbor.export_scorer import (
    Probe,
    check_scorer,
    link_library,
    probe_scoring,
    write_library,
    write_standard_library,
)

ANSWER = "/app/answer.txt"
SCORE = Path(__file__).parent / "exported" / "score.py"
LIBRARY = ".scorer"
"""Folder of the export with the modules that every task links."""
WRONG_REPLIES = ("", "I do not know.")

_DOCKERFILE = "FROM {image}\nWORKDIR /app\n"
_TEST = """#!/bin/sh
# Scores the answer as the environment does. Whatever fails leaves no reward, which is no zero.
python3 /tests/score.py {answer} /logs/verifier/reward.json
"""
_INSTRUCTION = """{messages}

Write your reply, all of it and nothing else, to the file `{answer}`.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportOptions:
    split: Literal["train", "eval"] = "train"
    limit: int | None = None
    image: str = field(default_factory=lambda: f"python:{sys.version_info[0]}.{sys.version_info[1]}-slim")
    """What the task's box is made of: a Python of this version, when scoring imports compiled modules."""
    agent_timeout_seconds: float = 600.0
    standard_library: bool = False
    """Carry what scoring imports of the standard library too, for an image with a minimal Python."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    folder: Path
    tasks: tuple[Path, ...]
    python: tuple[int, int] | None
    """The one version of Python that the scorer runs on; None: any of 3.11 or newer."""
    without_solution: int
    """Tasks whose right answer the environment does not know, so that no oracle can solve them."""


async def export_environment(
    loaded: LoadedEnvironment, args: Mapping[str, Any], folder: Path, options: ExportOptions | None = None
) -> ExportResult:
    """Write the examples of a split as tasks to a folder that is new or empty.

    UsageError: the environment cannot be exported, and why; or no right answer is known at all.
    """
    options = options or ExportOptions()
    check_request(BoxRequest(image=options.image))
    environment, reference, paths = _describe(loaded, args)
    await asyncio.to_thread(_check_empty, folder)
    dataset = await environment.create_dataset(options.split, loaded.base_dir, max_examples=options.limit)
    examples = [_describe_example(example, options.split) for example in dataset]
    candidates = [_list_candidates(environment, example) for example in dataset]
    probe = await asyncio.to_thread(
        probe_scoring, reference, paths, examples, [[*WRONG_REPLIES, *replies] for replies in candidates]
    )
    plans = [
        _plan(example, replies, scores, probe)
        for example, replies, scores in zip(examples, candidates, probe.scores, strict=True)
    ]
    if not any(plan["gold"] is not None for plan in plans):
        raise UsageError(
            f"no example of {loaded.id} has a right answer that its reward pays, so no reward can be scaled",
            hint="give the environment a gold() method; `castform validate` shows whether it is paid",
        )
    return await asyncio.to_thread(_write_whole, loaded.id, reference, plans, probe, folder, options)


def _write_whole(
    id: str,
    reference: Mapping[str, Any],
    plans: Sequence[Mapping[str, Any]],
    probe: Probe,
    folder: Path,
    options: ExportOptions,
) -> ExportResult:
    """Write the tasks aside, and put them into the folder once their scorer is seen to work."""
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}") from error
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as made:
            fresh = Path(made)
            written = _write_all(id, reference, plans, probe, fresh, options)
            for path in fresh.iterdir():
                path.rename(folder / path.name)
    except BaseException:
        if is_new:
            folder.rmdir()
        raise
    return replace(
        written, folder=folder, tasks=tuple(folder / task.relative_to(fresh) for task in written.tasks)
    )


def _check_empty(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="export to a new folder")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", hint="export to a new folder")


def find_export_fault(environment: Environment[Any, Any]) -> str | None:
    """Return why an environment cannot be exported, in words; None when it seems that it can."""
    if not isinstance(environment, BaseEnv):
        return "it runs its rollouts itself, so only it knows what happens in them"
    kind = type(environment)
    for name in ("run_rollout", "run_group"):
        if getattr(kind, name) is not getattr(BaseEnv, name):
            return f"it has a {name} of its own"
    if kind.next_messages is not BaseEnv.next_messages:
        return "it talks on after a reply (next_messages), and a task asks once"
    if kind.compute_reward is BaseEnv.compute_reward:
        return "it has no compute_reward: nothing judges a reply by itself"
    if kind.compute_group_rewards is not BaseEnv.compute_group_rewards:
        return "it judges attempts beside each other, and a task is judged alone"
    if getattr(environment, "tools", ()) or kind.list_tools is not BaseEnv.list_tools:
        return "its tools are functions of the environment, which an agent in a box cannot call"
    if kind.rollout_context is not BaseEnv.rollout_context:
        return "it prepares something for every rollout (rollout_context)"
    return None


def _describe(
    loaded: LoadedEnvironment, args: Mapping[str, Any]
) -> tuple[Environment[Any, Any], dict[str, Any], list[str]]:
    environment = loaded.environment
    fault = "it is composed of parts" if loaded.parts else find_export_fault(environment)
    if loaded.remote is not None:
        fault = "it runs in processes of its own"
    if fault is not None:
        raise UsageError(
            f"{loaded.id} cannot be exported: {fault}",
            hint="exported are environments that ask once and score the reply with compute_reward",
        )
    if loaded.spec is not None:
        reference = {"factory": loaded.spec.factory, "config": loaded.spec.config, "args": dict(args)}
        return environment, reference, []
    file = Path(loaded.id.partition(":")[0])
    reference = {"factory": f"{file.stem}:{type(environment).__name__}", "config": None, "args": dict(args)}
    return environment, reference, [str(file.expanduser().absolute().parent)]


def _describe_example(example: Example[Any], split: str) -> dict[str, Any]:
    payload = dict(example.payload)
    for message in payload["prompt_messages"]:
        if not isinstance(message.get("content"), str):
            raise UsageError(
                f"example {example.id} cannot be exported: a message of its prompt is not plain text"
            )
    try:
        json.dumps(payload, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"example {example.id} cannot be exported: its payload is no JSON ({error})"
        ) from error
    return {"id": example.id, "split": split, "payload": payload}


def _list_candidates(environment: Environment[Any, Any], example: Example[Any]) -> list[str]:
    """Return ways to write the right answer down, of which the best paid one is the solution.

    Without white space around them, which the scorer takes from an answer.
    """
    try:
        text = gold_text(read_gold(environment, example))
    except RuntimeError as error:
        raise UsageError(f"example {example.id}: {error}") from error
    if text is None:
        return []
    return list(dict.fromkeys(rendering.write(text).strip() for rendering in RENDERINGS))


def _plan(
    example: dict[str, Any], replies: Sequence[str], scores: Sequence[Mapping[str, float]], probe: Probe
) -> dict[str, Any]:
    weighed = [_weigh(rewards, probe.weights) for rewards in scores]
    empty, paid = weighed[0], weighed[len(WRONG_REPLIES) :]
    best = max(range(len(paid)), key=lambda place: paid[place], default=None)
    if best is None or paid[best] <= empty:
        return {**example, "gold": None, "gold_score": None, "empty_score": empty}
    return {**example, "gold": replies[best], "gold_score": paid[best], "empty_score": empty}


def _weigh(rewards: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(value * weights.get(name, 1.0) for name, value in rewards.items() if weights.get(name, 1.0))


def _write_all(
    id: str,
    reference: Mapping[str, Any],
    plans: Sequence[Mapping[str, Any]],
    probe: Probe,
    folder: Path,
    options: ExportOptions,
) -> ExportResult:
    most = max(plan["gold_score"] - plan["empty_score"] for plan in plans if plan["gold"] is not None)
    python = [*sys.version_info[:2]] if probe.is_compiled or options.standard_library else None
    library = folder / LIBRARY
    write_library(probe, library / "lib")
    if options.standard_library:
        write_standard_library(probe, library / f"std-{sys.version_info[0]}.{sys.version_info[1]}")
    tasks = []
    for number, plan in enumerate(plans):
        task = folder / f"{number:05d}-{hashlib.sha256(plan['id'].encode()).hexdigest()[:8]}"
        full = plan["gold_score"] if plan["gold"] is not None else plan["empty_score"] + most
        document = {
            "environment": dict(reference),
            "id": plan["id"],
            "split": plan["split"],
            "payload": plan["payload"],
            "weights": dict(probe.weights),
            "gold_score": full,
            "empty_score": plan["empty_score"],
            "python": python,
        }
        _write_task(task, id, plan, document, library, options)
        tasks.append(task)
    with tempfile.TemporaryDirectory() as place:
        for task, plan in [(t, p) for t, p in zip(tasks, plans, strict=True) if p["gold"] is not None][:1]:
            answer = Path(place) / "answer.txt"
            check_scorer(task / "tests", answer, 0.0)
            answer.write_text(plan["gold"], encoding="utf-8")
            check_scorer(task / "tests", answer, 1.0)
    return ExportResult(
        folder=folder,
        tasks=tuple(tasks),
        python=None if python is None else (python[0], python[1]),
        without_solution=sum(plan["gold"] is None for plan in plans),
    )


def _write_task(
    task: Path,
    id: str,
    plan: Mapping[str, Any],
    document: Mapping[str, Any],
    library: Path,
    options: ExportOptions,
) -> None:
    for part in ("environment", "tests", "solution"):
        (task / part).mkdir(parents=True)
    _write(task / "task.toml", _make_toml(task.name, id, plan, options))
    _write(task / "instruction.md", _make_instruction(plan["payload"]["prompt_messages"]))
    _write(task / "environment" / "Dockerfile", _DOCKERFILE.format(image=options.image))
    _write(task / "tests" / "test.sh", _TEST.format(answer=ANSWER), mode=0o755)
    _write(task / "tests" / "score.py", SCORE.read_text(encoding="utf-8"))
    _write(task / "tests" / "example.json", json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    for shared in sorted(library.iterdir()):
        link_library(shared, task / "tests" / shared.name)
    if plan["gold"] is not None:
        _write(task / "solution" / "answer.txt", plan["gold"])
        _write(task / "solution" / "solve.sh", f"#!/bin/sh\ncp /solution/answer.txt {ANSWER}\n", mode=0o755)


def _make_toml(name: str, id: str, plan: Mapping[str, Any], options: ExportOptions) -> str:
    slug = re.sub("[^a-z0-9]+", "-", Path(id).stem.lower() if id.endswith(".py") else id.lower()).strip("-")
    return "\n".join(
        [
            'schema_version = "1.4"',
            f'artifacts = ["{ANSWER}"]',
            "",
            "[task]",
            f'name = "castform/{slug or "environment"}-{name}"',
            "",
            "[metadata]",
            f"environment = {_quote(id)}",
            f"example = {_quote(plan['id'])}",
            f"split = {_quote(plan['split'])}",
            "",
            "[agent]",
            f"timeout_sec = {options.agent_timeout_seconds:g}",
            "",
            "[verifier]",
            "timeout_sec = 120",
            "",
            "[environment]",
            'network_mode = "no-network"',
            "",
        ]
    )


def _quote(text: str) -> str:
    """Return a TOML string: JSON's, without its surrogates, and with the one control character it leaves."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _make_instruction(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return a prompt as one text; a conversation keeps who said what."""
    roles = {message["role"] for message in messages}
    if roles <= {"system", "user"}:
        text = "\n\n".join(str(message["content"]).strip() for message in messages)
    else:
        names = {"system": "Instructions", "user": "Asked", "assistant": "Replied"}
        text = "\n\n".join(
            f"{names.get(message['role'], message['role'])}: {str(message['content']).strip()}"
            for message in messages
        )
        text += "\n\nReply to what was asked last."
    return _INSTRUCTION.format(messages=text, answer=ANSWER)


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
