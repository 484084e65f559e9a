"""What of a folder a build sees: everything but what its .dockerignore names."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from castform.sandbox.contract import ImageBuild
from castform.sandbox.errors import SandboxBuildError
from castform.sandbox.images import check_build


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    keeps: bool


def list_context(build: ImageBuild) -> list[str]:
    """Return the paths that a build sees, relative to its folder, folders before what they hold."""
    check_build(build)
    rules = read_rules(build)
    found: list[str] = []
    _walk(build.context, "", rules, found)
    return found


def read_rules(build: ImageBuild) -> list[_Rule]:
    """Return the rules of `NAME.dockerignore` beside the Dockerfile, or of `.dockerignore`."""
    for name in (f"{build.dockerfile}.dockerignore", ".dockerignore"):
        try:
            text = (build.context / name).read_text("utf-8")
        except FileNotFoundError:
            continue
        return parse_rules(text)
    return []


def parse_rules(text: str) -> list[_Rule]:
    """Read lines of `pattern` and `!pattern`; the last one that matches decides."""
    rules: list[_Rule] = []
    for line in text.lstrip("\ufeff").splitlines():
        words = line.strip()
        if not words or line.startswith("#"):
            continue
        keeps = words.startswith("!")
        pattern = os.path.normpath(words.removeprefix("!").strip()).strip("/")
        if pattern not in ("", "."):
            rules.append(
                _Rule(pattern=re.compile(translate(pattern) + r"(?:/.*)?\Z", re.DOTALL), keeps=keeps)
            )
    return rules


def is_ignored(path: str, rules: Sequence[_Rule]) -> bool:
    """Say whether a path, relative to the folder, is left out."""
    ignored = False
    for rule in rules:
        if rule.pattern.match(path):
            ignored = not rule.keeps
    return ignored


def translate(pattern: str) -> str:
    """Return a regular expression for a pattern with `*`, `?`, `[…]` and, for any depth, `**`."""
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        sign = pattern[place]
        if pattern.startswith("**/", place):
            parts.append("(?:.*/)?")
            place += 3
            continue
        if pattern.startswith("**", place):
            parts.append(".*")
            place += 2
            continue
        if sign == "*":
            parts.append("[^/]*")
        elif sign == "?":
            parts.append("[^/]")
        elif sign == "[" and "]" in pattern[place + 1 :]:
            end = pattern.index("]", place + 1)
            body = pattern[place + 1 : end].replace("\\", "\\\\")
            parts.append(f"[^{body[1:]}]" if body.startswith("^") else f"[{body}]")
            place = end
        elif sign == "\\" and place + 1 < len(pattern):
            place += 1
            parts.append(re.escape(pattern[place]))
        else:
            parts.append(re.escape(sign))
        place += 1
    return "".join(parts)


def _walk(context: Path, below: str, rules: Sequence[_Rule], found: list[str]) -> None:
    try:
        entries = sorted(os.scandir(context / below), key=lambda entry: entry.name)
    except OSError as error:
        raise SandboxBuildError(f"{context / below} cannot be read: {error.strerror}") from error
    exceptions = any(rule.keeps for rule in rules)
    for entry in entries:
        path = f"{below}/{entry.name}" if below else entry.name
        ignored = is_ignored(path, rules)
        if not ignored:
            found.append(path)
        if entry.is_dir(follow_symlinks=False) and (not ignored or exceptions):
            _walk(context, path, rules, found)
