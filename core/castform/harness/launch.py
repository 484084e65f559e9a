"""What a command template comes to for one task: arguments, variables and files. No box is touched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from castform.harness.contract import AgentTask, HarnessError, McpServer
from castform.harness.documents import (
    FileFormat,
    guess_format,
    list_texts,
    merge_tables,
    parse_document,
    render_document,
    write_content,
    write_document,
)
from castform.harness.scripts import find_script
from castform.harness.settings import HarnessSection
from castform.harness.template import list_placeholders, render, render_shell, variable_name
from castform.sandbox.contract import ModelEndpoint

MAX_ARGUMENT_BYTES = 131_071
"""Of one argument or variable, Linux's MAX_ARG_STRLEN without the closing zero."""
DEADLINE = "CASTFORM_DEADLINE"
ALWAYS = ("deadline", "log_dir", "run_dir", "workdir")
"""What every program finds in CASTFORM_<NAME>, and CASTFORM_MODEL where there is a model."""
ENDPOINT_NAMES = frozenset({"base_url", "root_url", "api_key", "api_key_file", "model"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a run happens."""

    run_dir: str
    workdir: str
    home: str
    log_dir: str
    deadline: float
    """Unix time."""
    timeout_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BoxFile:
    """A file to write into the box."""

    path: str
    data: bytes = field(repr=False)
    mode: int = 0o600


@dataclass(frozen=True, kw_only=True, slots=True)
class Extras:
    """What a binding adds for one task, as it stands: no placeholders are looked for in it."""

    args: Sequence[str] = ()
    """After the template's own arguments."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # Any: plain data of a config file
    """Tables that are merged into the template's JSON or TOML files, by the path as the template has it."""


Extend = Callable[[AgentTask, Mapping[str, object]], Extras]
"""Given the task and the values of all placeholders."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """How to run the program."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    files: tuple[BoxFile, ...]
    stdin: bytes = field(repr=False)
    prepare: str | None
    trajectory: str | None
    user: str | None
    workdir: str


def make_values(task: AgentTask, endpoint: ModelEndpoint | None, place: Place) -> dict[str, object]:
    """Return the values of all placeholders; those of the model only where there is one."""
    values: dict[str, object] = {
        "instruction": task.instruction.encode("utf-8", "replace").decode(),  # no lone surrogates
        "instruction_file": f"{place.run_dir}/instruction.md",
        "workdir": place.workdir,
        "deadline": int(place.deadline),
        "timeout_seconds": int(place.timeout_seconds),
        "log_dir": place.log_dir,
        "run_dir": place.run_dir,
        "home": place.home,
        "skills_dir": task.skills_dir or "",
        "mcp_servers": {server.name: describe_server(server) for server in task.mcp_servers},
        "mcp_config_file": f"{place.run_dir}/mcp.json",
    }
    if endpoint is not None:
        values |= {
            "base_url": endpoint.base_url,
            "root_url": endpoint.root_url,
            "api_key": endpoint.api_key,
            "api_key_file": f"{place.run_dir}/api_key",
            "model": endpoint.model,
        }
    return values


def describe_server(server: McpServer) -> dict[str, Any]:  # Any: plain data
    """Return an MCP server as most agents write it: type, command and args, or url and headers."""
    if server.transport == "stdio":
        return {"type": "stdio", "command": server.command or "", "args": list(server.args)}
    kind = "http" if server.transport == "streamable-http" else "sse"
    return {
        "type": kind,
        "url": server.url or "",
        **({"headers": dict(server.headers)} if server.headers else {}),
    }


def make_launch(
    section: HarnessSection, task: AgentTask, values: Mapping[str, object], extras: Extras
) -> Launch:
    """Return what to run. HarnessError for a value that no argument can hold, or a model that is not there."""
    used = list_used(section)
    asked = sorted(used & ENDPOINT_NAMES)
    if asked and "model" not in values:
        raise HarnessError(
            f"the harness {section.name} needs a model for {{{asked[0]}}}, and the task has none"
        )
    script = find_script(section.arguments)
    carried = {name: str(values[name]) for name in ALWAYS}
    argv: list[str] = []
    for number, text in enumerate(section.arguments):
        if number == script:
            text, names = render_shell(text)
            carried |= {name: str(values[name]) for name in names}
            argv.append(text)
        else:
            argv.append(render(text, values))
    argv += extras.args
    prepare = None
    if section.prepare is not None:
        prepare, names = render_shell(section.prepare)
        carried |= {name: str(values[name]) for name in names}
    env = {variable_name(name): value for name, value in carried.items()}
    if "model" in values:
        env[variable_name("model")] = str(values["model"])
    env |= {key: render(text, values) for key, text in section.env.items()}
    env |= {**task.env, **extras.env}
    _check_sizes(section.name, argv, env)
    return Launch(
        argv=tuple(argv),
        env=env,
        files=tuple(_make_files(section, used, values, extras)),
        stdin=render(section.stdin, values).encode("utf-8", "replace") if section.stdin else b"",
        prepare=prepare,
        trajectory=render(section.trajectory, values) if section.trajectory else None,
        user=task.user or section.user,
        workdir=render(section.workdir, values) if section.workdir else str(values["workdir"]),
    )


def list_used(section: HarnessSection) -> set[str]:
    """Return the placeholders that a section uses anywhere."""
    script = find_script(section.arguments)
    used = {
        name
        for number, text in enumerate(section.arguments)
        for name in list_placeholders(text, shell=number == script)
    }
    plain = (section.stdin, section.workdir, section.trajectory, *section.env.values())
    used |= {name for text in (*plain, *section.files) if text for name in list_placeholders(text)}
    used |= list_placeholders(section.prepare or "", shell=True)
    for path, file in section.files.items():
        if file.literal:
            continue
        kind = file.format or guess_format(path)
        for text in _list_file_texts(file.content, kind):
            used |= list_placeholders(text, shell=kind == "shell")
    return used


def _list_file_texts(content: object, kind: FileFormat) -> Iterable[str]:
    if isinstance(content, str) and kind in ("json", "toml"):
        content = parse_document(content, kind)
    return list_texts(content)


def _make_files(
    section: HarnessSection, used: set[str], values: Mapping[str, object], extras: Extras
) -> Iterable[BoxFile]:
    if "instruction_file" in used:
        text = str(values["instruction"])
        yield BoxFile(path=str(values["instruction_file"]), data=text.encode("utf-8", "replace"))
    if "api_key_file" in used:
        yield BoxFile(path=str(values["api_key_file"]), data=str(values["api_key"]).encode())
    if "mcp_config_file" in used:
        data = json.dumps({"mcpServers": values["mcp_servers"]}, indent=2).encode()
        yield BoxFile(path=str(values["mcp_config_file"]), data=data)
    for template, file in section.files.items():
        path = _absolute(render(template, values), str(values["workdir"]))
        format = file.format or guess_format(template)
        more = extras.files.get(template)
        if file.literal:
            data = str(file.content).encode("utf-8", "replace")
        elif more is None:
            data = write_content(file.content, format, values)
        else:
            own = parse_document(file.content, format) if isinstance(file.content, str) else file.content
            data = write_document(merge_tables(render_document(own, values), more), format)
        yield BoxFile(path=path, data=data, mode=file.mode)


def _absolute(path: str, workdir: str) -> str:
    return path if path.startswith("/") else f"{workdir.rstrip('/')}/{path}"


def _check_sizes(name: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
    for what, text in [("an argument", a) for a in argv] + [
        (f"the variable {k}", f"{k}={v}") for k, v in env.items()
    ]:
        size = len(text.encode("utf-8", "replace"))
        if size > MAX_ARGUMENT_BYTES:
            raise HarnessError(
                f"{what} of the harness {name} would have {size} bytes, and {MAX_ARGUMENT_BYTES} fit: "
                "pass the instruction by {instruction_file} or stdin"
            )
        if "\0" in text:
            raise HarnessError(
                f"{what} of the harness {name} would hold a zero byte: pass it by a file or stdin"
            )
