"""The part of a check that runs where the plugin is installed. Writes JSON to the file it is given.

python -P -m castform.authoring.inside plugin ANSWER PACKAGE... -- NAME...
python -P -m castform.authoring.inside environment ANSWER ID
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.errors import CastformError, MissingError

if TYPE_CHECKING:
    from benchmax.envs.shared_types import DatasetSplit

FEW = 8
"""Examples of a split that are looked at."""
TRACEBACK_LINES = 12
SPLITS: tuple[DatasetSplit, ...] = ("train", "eval")


def main(words: Sequence[str]) -> int:
    """Do one part. What it came to is in the answer as far as it came, whatever happens."""
    action, answer, *rest = words
    if action == "plugin":
        at = rest.index("--")
        examine_plugins(Path(answer), packages=rest[:at], names=rest[at + 1 :])
    else:
        examine_environment(Path(answer), rest[0])
    return 0


def examine_plugins(answer: Path, *, packages: Sequence[str], names: Sequence[str]) -> None:
    """Look for undeclared imports, load the plugins and list what they register."""
    from castform.authoring.undeclared import find_undeclared
    from castform.plugins.check import check_plugins
    from castform.plugins.loader import load_registry
    from castform.plugins.specs import EnvironmentSpec

    told: dict[str, Any] = {"undeclared": [], "plugins": [], "environments": []}
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            told["undeclared"] += map(dataclasses.asdict, find_undeclared(Path(spec.origin).parent))
    for name in names:
        (report,) = check_plugins(name)
        told["plugins"].append(report.as_dict())
        if report.failure is None:
            plugin = load_registry().load(name)
            told["environments"] += [
                {"id": f"{plugin.name}/{member}", "requires": list(spec.requires)}
                for member, spec in plugin.specs(EnvironmentSpec).items()
            ]
    _write(answer, told)


def examine_environment(answer: Path, id: str) -> None:
    """Load an environment and both splits of its data; where it can run here, hold it to the rules."""
    told: dict[str, Any] = {}
    try:
        told |= asyncio.run(_load(id))
    except Exception as error:  # noqa: BLE001 - the author's code
        told["error"] = _describe(error)
        _write(answer, told)
        return
    _write(answer, told)
    if "not_ready" in told or any("error" in told[split] for split in SPLITS):
        return
    if importlib.util.find_spec("hypothesis") is None:
        _write(answer, {**told, "rules": None})
        return
    _check_rules(id, answer, told)


async def _load(id: str) -> dict[str, Any]:
    from castform.environments import check_ready, close_environment, load_examples
    from castform.plugins.environments import load_environment

    loaded = load_environment(id)
    told: dict[str, Any] = {}
    try:
        for split in SPLITS:
            try:
                examples = await load_examples(loaded.environment, split, loaded.base_dir, limit=FEW)
                told[split] = {"examples": len(examples)}
            except Exception as error:  # noqa: BLE001 - the author's code
                told[split] = {"error": _describe(error)}
        try:
            await check_ready(loaded.environment)
        except CastformError as error:
            told["not_ready"] = {**_describe(error), "missing": isinstance(error, MissingError)}
    finally:
        await close_environment(loaded.environment)
    return told


def _check_rules(id: str, answer: Path, told: dict[str, Any]) -> None:
    """Tell what comes of every rule; and, in case that this process is ended over one, which it is at."""
    from castform.testing.conformance import RULES
    from castform.testing.conformance.run import check_rule, examine

    rules: list[dict[str, str]] = []
    with examine(id) as examined:
        for rule in RULES:
            _write(answer, {**told, "rules": rules, "at": rule.name})
            result = check_rule(rule, examined, {})
            rules.append({"rule": result.rule, "state": result.state, "told": result.describe()})
    _write(answer, {**told, "rules": rules})


def _describe(error: BaseException) -> dict[str, Any]:
    known = isinstance(error, CastformError)
    lines = traceback.format_exception(error)
    return {
        "message": str(error.args[0]) if known and error.args else f"{type(error).__name__}: {error}",
        "hint": error.hint if isinstance(error, CastformError) else None,
        "traceback": "".join(lines).rstrip().splitlines()[-TRACEBACK_LINES:],
    }


def _write(answer: Path, told: dict[str, Any]) -> None:
    whole = answer.with_suffix(".part")
    whole.write_text(json.dumps(told, default=str), encoding="utf-8")
    whole.replace(answer)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of the environment's that never end hold up no check
