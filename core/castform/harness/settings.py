"""`[harness]` of a TOML: how any agent program is started, and what its end means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, TypeVar

from pydantic import Field, field_validator, model_validator

from castform.harness.contract import HarnessStatus
from castform.harness.documents import (
    FileFormat,
    find_misplaced,
    guess_format,
    list_texts,
    parse_document,
)
from castform.harness.scripts import SHELLS, find_script, find_unsafe_script
from castform.harness.template import SECRET, STRUCTURED, TemplateError, list_placeholders
from castform.plugins.names import is_name
from castform.sandbox.errors import UsageError
from castform.sandbox.request import check_mode, check_path, check_user
from castform.section import Section

T = TypeVar("T")
NO_KEY = "{api_key} would be seen by every process of the box there; use [harness.env] or {api_key_file}"


def _check(check: Callable[[T], object], value: T) -> T:
    """Apply a check of what a box can be asked for."""
    try:
        check(value)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return value


class FileSection(Section):
    """A file that is written before the program starts."""

    content: str | dict[str, Any]  # Any: plain data of a JSON or TOML file
    """Text, or the file's data itself. In JSON and TOML values are placed in parsed data, in shell
    files they are quoted, in other texts they stand as they are."""
    format: FileFormat | None = None
    """Of the file; by default what its name tells."""
    literal: bool = False
    """The content stands as it is: its braces are braces."""
    mode: int = 0o600
    """As in `mode = 0o755`."""

    @field_validator("mode")
    @classmethod
    def _check_mode(cls, value: int) -> int:
        return _check(check_mode, value)

    @model_validator(mode="before")
    @classmethod
    def _read_short(cls, value: object) -> object:
        return {"content": value} if isinstance(value, str) else value


class StatusRule(Section):
    """Which end means what. The first rule that fits wins."""

    status: HarnessStatus
    output: str | None = None
    """A regular expression that is looked for in the tail of stdout and stderr."""
    exit_codes: tuple[int, ...] | None = None
    """Only these; by default every one that is no success."""

    @field_validator("output")
    @classmethod
    def _check_pattern(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"{value!r} is no regular expression: {error}") from error
        return value

    def fits(self, exit_code: int, output: str, success: tuple[int, ...]) -> bool:
        """Say whether this is such an end."""
        if exit_code in success if self.exit_codes is None else exit_code not in self.exit_codes:
            return False
        return self.output is None or re.search(self.output, output) is not None


class HarnessSection(Section):
    """A command template. Texts hold placeholders such as `{instruction}`; docs/harnesses.md lists them."""

    name: str = "agent"
    """By default the file's."""
    version: str | None = None
    """Of the program, for the record."""
    command: str | tuple[str, ...]
    """The program and its arguments; or a text, which `sh` runs with values quoted."""
    shell: str = "sh"
    """What runs texts: a name that is in the box."""
    stdin: str | None = None
    """What the program reads; nothing by default."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of the program."""
    files: dict[str, FileSection] = Field(default_factory=dict)
    """Files by their path in the box; relative ones start at the working folder."""
    upload: dict[str, str] = Field(default_factory=dict)
    """Files and folders that setup copies into the box: target = source, relative to this TOML."""
    check: str | None = None
    """A shell script that succeeds when the program is in the box."""
    install: str | tuple[str, ...] = ()
    """Shell scripts that bring it there, run where `check` fails."""
    install_user: str | None = None
    """Who runs them; by default the box's own user."""
    install_timeout_seconds: float = 360.0
    prepare: str | None = None
    """A shell script, with placeholders, run as the program's user just before it."""
    user: str | None = None
    """Who runs it, where the task names nobody."""
    workdir: str | None = None
    """Where it runs; by default the task's folder, else the box's own."""
    timeout_seconds: float = 3600.0
    """Where the task sets no limit; a task's limit wins."""
    success_exit_codes: tuple[int, ...] = (0,)
    status: tuple[StatusRule, ...] = ()
    """Rules of which the first that fits says how the program ended."""
    trajectory: str | None = None
    """Path of an ATIF file that the program writes."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not is_name(value):
            raise ValueError(f"{value!r} is no name: letters, digits, '-', '_' and '.'")
        return value

    @field_validator("command", mode="before")
    @classmethod
    def _check_command(cls, value: object) -> object:
        whole = isinstance(value, str) or (
            isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)
        )
        if (
            not whole
            or not value
            or not (value[0] if isinstance(value, list | tuple) else str(value)).strip()
        ):
            raise ValueError('must be ["program", "argument", …] or one text for the shell')
        return value

    @field_validator("shell")
    @classmethod
    def _check_shell(cls, value: str) -> str:
        if PurePosixPath(value).name not in SHELLS - {"busybox"}:
            known = ", ".join(sorted(SHELLS - {"busybox"}))
            raise ValueError(f"{value!r} is no shell that values can be quoted for; known: {known}")
        return value

    @field_validator("user", "install_user")
    @classmethod
    def _check_user(cls, value: str | None) -> str | None:
        return _check(check_user, value)

    @field_validator(
        "command", "env", "files", "upload", "check", "install", "prepare", "workdir", "trajectory"
    )
    @classmethod
    def _check_zero(cls, value: object) -> object:
        names = value.keys() if isinstance(value, Mapping) else ()
        texts = list_texts(value)
        if any("\0" in text for text in (*texts, *names)):
            raise ValueError("holds a zero byte, which no argument, variable or path can")
        return value

    @field_validator("env")
    @classmethod
    def _check_variables(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not name or "=" in name:
                raise ValueError(f"{name!r} is no name of a variable")
        return value

    @field_validator("files")
    @classmethod
    def _check_files(cls, value: dict[str, FileSection]) -> dict[str, FileSection]:
        for path in value:
            if not path.strip("/.") or path.endswith("/"):
                raise ValueError(f"{path!r} is no file's path")
        return value

    @field_validator("upload")
    @classmethod
    def _check_targets(cls, value: dict[str, str]) -> dict[str, str]:
        for target in value:
            _check(check_path, target)
        return value

    @field_validator("workdir")
    @classmethod
    def _check_workdir(cls, value: str | None) -> str | None:
        if value is not None and value[:1] not in ("/", "{"):
            raise ValueError(f"{value!r} is not an absolute path; {{workdir}} is the task's folder")
        return value

    @field_validator("timeout_seconds", "install_timeout_seconds")
    @classmethod
    def _check_positive(cls, value: float) -> float:
        if value <= 0:
            raise ValueError("must be more than 0 seconds")
        return value

    @property
    def arguments(self) -> tuple[str, ...]:
        """The program with its arguments, a text as what `shell` is given."""
        return (self.shell, "-c", self.command) if isinstance(self.command, str) else self.command

    @property
    def installs(self) -> tuple[str, ...]:
        return (self.install,) if isinstance(self.install, str) else self.install


def find_template_faults(section: HarnessSection) -> list[str]:
    """Return what is wrong with the placeholders of a section, each with its place."""
    faults: list[str] = []
    unsafe = find_unsafe_script(section.arguments)
    for place, text, shell, secret in _list_templates(section):
        try:
            names = list_placeholders(text, shell=shell)
        except TemplateError as error:
            faults.append(f"harness.{place}: {error}")
            continue
        if unsafe is not None and names and place == f"command[{unsafe[0]}]":
            faults.append(f"harness.{place}: {{{min(names)}}} cannot be put there: {unsafe[1]}")
        if SECRET in names and not secret:
            faults.append(f"harness.{place}: {NO_KEY}")
        if names & STRUCTURED:
            faults.append(
                f"harness.{place}: {{mcp_servers}} is a table; use it as a value in a file or {{mcp_config_file}}"
            )
    for path, file in section.files.items():
        faults += [f'harness.files."{path}": {fault}' for fault in _find_file_faults(path, file)]
    return faults


def _list_templates(section: HarnessSection) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield place, text, whether it is a shell script, whether the key may stand in it."""
    script = find_script(section.arguments)
    texts = (section.command,) if isinstance(section.command, str) else section.command
    for number, text in enumerate(section.arguments):
        place = "command" if len(texts) == 1 else f"command[{number}]"
        yield place, text, number == script, False
    for name in ("stdin", "workdir", "trajectory"):
        if (text := getattr(section, name)) is not None:
            yield name, text, False, False
    if section.prepare is not None:
        yield "prepare", section.prepare, True, False
    for key, text in section.env.items():
        yield f"env.{key}", text, False, True
    for path in section.files:
        yield f'files."{path}"', path, False, False


def _find_file_faults(path: str, file: FileSection) -> Iterator[str]:
    if file.literal:
        if not isinstance(file.content, str):
            yield "content is a table, which cannot be literal"
        return
    format = file.format or guess_format(path)
    content: str | Mapping[str, Any] = file.content
    if format in ("json", "toml") and isinstance(content, str):
        try:
            content = parse_document(content, format)
        except (ValueError, RecursionError) as error:
            yield f"not valid {format.upper()}: {error}"
            return
    elif not isinstance(content, str) and format not in ("json", "toml"):
        yield f'content is a table, and the format {format}; set format = "json" or "toml"'
        return
    structured = format in ("json", "toml")
    for text in list_texts(content):
        try:
            misplaced = (
                find_misplaced(text)
                if structured
                else list_placeholders(text, shell=format == "shell") & STRUCTURED
            )
        except TemplateError as error:
            yield str(error)
            continue
        if misplaced:
            yield "{mcp_servers} is a table: it stands alone as a value of a JSON or TOML file"
