"""Render one environment for `castform env show`."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from castform.cli.output import print_fields, print_json, print_table, print_text
from castform.config import parse_value
from castform.description import EnvironmentDescription, describe_environment
from castform.errors import UsageError
from castform.plugins.environments import load_environment

MAX_TEXT = 2000
"""Characters of one message that are shown; --json has all of it."""


def show_environment(id: str, assignments: Sequence[str], *, as_json: bool) -> int:
    """Load an environment with the given arguments and show what there is to it."""
    loaded = load_environment(id, parse_arguments(assignments))
    description = asyncio.run(describe_environment(loaded))
    if as_json:
        print_json(dataclasses.asdict(description))
    else:
        _print_description(description)
    return 0


def parse_arguments(assignments: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE words; values are TOML, or text where they are not."""
    arguments: dict[str, Any] = {}
    for text in assignments:
        name, sep, value = text.partition("=")
        if not sep or not name.strip():
            raise UsageError(f"--arg {text!r} is not NAME=VALUE", hint="as in --arg seed=2")
        arguments[name.strip()] = parse_value(value)
    return arguments


def _print_description(shown: EnvironmentDescription) -> None:
    source = f"{shown.distribution} {shown.version}".strip() or "a file"
    print_fields(
        {
            "environment": shown.id,
            "summary": shown.summary,
            "from": f"{source} (sha256 {shown.content_sha256[:12]})",
            "examples": ", ".join(
                [*(f"{count} {split}" for split, count in shown.sizes.items()), *shown.faults.values()]
            ),
            "tools": ", ".join(_tool_names(shown.tools)) or "none",
            "rewards": _describe_rewards(shown),
        }
    )
    if shown.parts:
        print_text("\nparts")
        print_table(
            ["  KIND", "ID", "WEIGHT", "FROM", "SUMMARY"],
            [
                [
                    f"  {part.kind}",
                    f"{part.id} as {part.name}" if part.name else part.id,
                    "" if part.weight is None else f"{part.weight:g}{'' if part.weight else ' (metric)'}",
                    f"{part.distribution} {part.version}".strip(),
                    part.summary,
                ]
                for part in shown.parts
            ],
        )
    if shown.arguments:
        print_text("\narguments")
        print_table(
            ["  NAME", "TYPE", "DEFAULT", "DESCRIPTION"],
            [[f"  {a.name}", a.type, a.default or "(required)", a.description] for a in shown.arguments],
        )
    for tool in shown.tools:
        function = tool.get("function", {})
        print_text(f"\ntool {function.get('name')}: {function.get('description', '')}")
        print_text(f"  {json.dumps(function.get('parameters', {}), ensure_ascii=False)}")
    split = "eval" if shown.sizes.get("eval") else "train"
    print_text(f"\nfirst example of {split} ({shown.example_id})")
    if shown.messages:
        for message in shown.messages:
            _print_message(message)
    else:
        print_text(f"  {_cut(json.dumps(shown.payload, ensure_ascii=False, default=str))}")
    if shown.gold is not None:
        print_text(f"  {'(right)':<9}  {_cut(str(shown.gold))}")


def _print_message(message: Mapping[str, Any]) -> None:
    content = message.get("content")
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    lines = _cut(text).splitlines() or [""]
    print_text(f"  {message.get('role', '?'):<9}  {lines[0]}")
    for line in lines[1:]:
        print_text(f"  {'':<9}  {line}")


def _describe_rewards(shown: EnvironmentDescription) -> str:
    parts = []
    if shown.seen_rewards:
        values = ", ".join(f"{name} {value:g}" for name, value in shown.seen_rewards.items())
        written = shown.gold_rendering
        answer = "an empty answer" if shown.gold is None else "the right answer"
        form = "" if written in ("", "as given") else f", in the form: {written}"
        parts.append(f"{values} (for {answer} alone{form})")
    elif shown.error:
        parts.append(f"none seen: {shown.termination_reason}: {shown.error}")
    elif shown.termination_reason:
        parts.append(f"none seen: the scripted attempt ended with {shown.termination_reason}")
    if shown.declared_rewards:
        parts.append(f"registered: {', '.join(shown.declared_rewards)}")
    return "; ".join(parts) or "none"


def _tool_names(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(tool.get("function", {}).get("name")) for tool in tools]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text)} characters)"
