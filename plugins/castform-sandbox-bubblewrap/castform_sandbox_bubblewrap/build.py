"""Running a Dockerfile in a box: what a local file, a folder or a program that is there can do.

FROM is ignored, since a box has this machine's programs. Whatever else cannot be done is refused
with its line, before anything runs where that can be told.
"""

from __future__ import annotations

import asyncio
import posixpath
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from castform.sandbox.contract import ImageBuild
from castform.sandbox.errors import SandboxBuildError, SandboxFileError, UsageError
from castform_sandbox_bubblewrap.box import BubblewrapBox
from castform_sandbox_bubblewrap.copying import Source, find_sources, write_archive, write_text
from castform_sandbox_bubblewrap.dockerfile import Instruction, parse_dockerfile, split_words, substitute
from castform_sandbox_bubblewrap.ignore import list_context
from castform_sandbox_bubblewrap.refusals import check_instructions, read_mode
from castform_sandbox_bubblewrap.roots import Image

_TAIL = 3000
_RUN_HINT = (
    "RUN lines have no network here, and /usr is this machine's and read-only: install what a task needs on this "
    "machine, or use the docker provider"
)


@dataclass
class _State:
    """What the instructions so far have set."""

    env: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "root"
    shell: tuple[str, ...] = ("/bin/sh", "-c")
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def fill(self, text: str) -> str:
        return substitute(text, self.variables)

    @property
    def variables(self) -> Mapping[str, str]:
        return {**self.arguments, **self.env}

    def words_of(self, line: Instruction) -> tuple[str, ...]:
        """Return what CMD or ENTRYPOINT runs."""
        words = line.exec_form()
        return (*self.shell, line.rest) if words is None else tuple(words)


async def build_image(build: ImageBuild, box: BubblewrapBox, *, users: bool) -> Image:
    """Run the Dockerfile of a folder in a box; return what it says of running in the root it leaves.

    UsageError for what is not done here, with its line; SandboxBuildError, with the end of the
    output, for what fails.
    """
    text = await asyncio.to_thread((build.context / build.dockerfile).read_text, "utf-8", "replace")
    lines = parse_dockerfile(text)
    check_instructions(lines, users=users)
    kept = await asyncio.to_thread(list_context, build)
    state = _State()
    for line in lines:
        try:
            await _do(line, state, box, build.context, kept)
        except SandboxFileError as error:
            raise SandboxBuildError(f"{_name(line)}: {error}", hint=_RUN_HINT) from error
    return Image(
        root="",
        env=state.env,
        workdir=state.workdir,
        user=state.user,
        entrypoint=state.entrypoint,
        command=state.command,
        notes=tuple(state.notes),
    )


async def _do(line: Instruction, state: _State, box: BubblewrapBox, context: Path, kept: list[str]) -> None:
    match line.word:
        case "FROM":
            state.arguments = {}  # those before FROM are for FROM
            state.notes.append(
                f"the image is not honoured: FROM {line.rest} is ignored, the box has this machine's programs"
            )
        case "ARG":
            for word in split_words(line.rest):
                name, found, value = word.partition("=")
                if found:
                    state.arguments[name] = state.fill(value)
        case "ENV":
            state.env |= read_env(line, state.variables)
        case "WORKDIR":
            state.workdir = posixpath.normpath(
                posixpath.join(state.workdir, state.fill(line.rest.strip("\"'")))
            )
            await _run(line, ["mkdir", "-p", state.workdir], state, box, cwd="/", user="root")
        case "USER":
            state.user = state.fill(line.rest)
        case "SHELL":
            state.shell = tuple(line.exec_form() or state.shell)
        case "CMD":
            state.command = state.words_of(line)
        case "ENTRYPOINT":
            state.entrypoint = state.words_of(line)
        case "VOLUME":
            for word in line.exec_form() or split_words(line.rest):
                await _run(line, ["mkdir", "-p", state.fill(word)], state, box, cwd="/", user="root")
        case "RUN":
            await _run_line(line, state, box)
        case "COPY" | "ADD":
            await _copy(line, state, box, context, kept)
        case _:
            pass  # it says nothing of files or commands; check_instructions knows them all


def read_env(line: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that ENV sets: `A=1 B=2`, or `A 1` with all the rest as its value."""
    words = split_words(line.rest)
    if words and "=" not in words[0]:
        name, _, value = line.rest.partition(" ")
        return {name: substitute(value.strip(), variables)}
    pairs: dict[str, str] = {}
    for word in words:
        name, found, value = word.partition("=")
        if not found or not name:
            raise line.refuse(f"{word!r} is no NAME=value")
        pairs[name] = substitute(value, variables)
    return pairs


async def _run_line(line: Instruction, state: _State, box: BubblewrapBox) -> None:
    words = line.exec_form()
    stdin = b""
    if words is None and line.heredocs and line.rest.strip().split("<<")[0] == "":
        script = line.heredocs[0].text
        first = script.partition("\n")[0]
        if first.startswith("#!"):
            words, stdin = [*first[2:].split(), "/dev/stdin"], script.encode()
        else:
            words = [*state.shell, script]
    elif words is None:
        below = "".join(f"\n{document.text}{document.name}" for document in line.heredocs)
        words = [*state.shell, line.rest + below]
    await _run(line, words, state, box, stdin=stdin)


async def _run(
    line: Instruction,
    words: list[str],
    state: _State,
    box: BubblewrapBox,
    *,
    cwd: str | None = None,
    user: str | None = None,
    stdin: bytes = b"",
) -> None:
    try:
        result = await box.exec(
            words,
            cwd=cwd or state.workdir,
            user=user or state.user,
            env=state.variables,
            stdin=stdin,
            max_output_bytes=1 << 16,
        )
    except UsageError as error:
        raise line.refuse(str(error)) from error
    if result.exit_code != 0:
        said = (result.text[-_TAIL:] + result.error_text[-_TAIL:]).strip()
        raise SandboxBuildError(
            f"{_name(line)}: exit code {result.exit_code}\n{said}".rstrip(), hint=_RUN_HINT
        )


async def _copy(line: Instruction, state: _State, box: BubblewrapBox, context: Path, kept: list[str]) -> None:
    flags = dict(line.flags)
    mode = read_mode(line)
    owner = state.fill(flags["chown"]) if "chown" in flags else None
    words = [state.fill(word) for word in line.exec_form() or split_words(line.rest)]
    *names, last = words
    target = posixpath.join(state.workdir, last)
    documents = {f"<<{document.name}": document for document in line.heredocs}
    names = [name for name in names if name.replace("<<-", "<<") not in documents]
    with tempfile.TemporaryFile() as archive:
        for document in documents.values():
            into = last.endswith("/") or await _is_folder(box, target)
            text = document.text if document.plain else state.fill(document.text)
            write_text(archive, document.name if into else posixpath.basename(target), text, mode)
            await _send(box, archive, target if into else posixpath.dirname(target), owner)
        if not names:
            return
        sources = await asyncio.to_thread(find_sources, context, kept, names, line)
        single = len(sources) == 1 and not sources[0].is_folder
        into = not single or last.endswith(("/", "/.")) or last in (".", "") or await _is_folder(box, target)
        if line.word == "ADD" and (unpacked := [one for one in sources if _is_archive(context, one)]):
            sources = [one for one in sources if one not in unpacked]
            for one in unpacked:
                await _add_archive(line, state, box, context, one, target)
            if not sources:
                return
        name = None if into else posixpath.basename(target)
        await asyncio.to_thread(write_archive, sources, context, kept, archive, name=name, mode=mode)
        await _send(box, archive, target if into else posixpath.dirname(target), owner)


async def _send(box: BubblewrapBox, archive: IO[bytes], folder: str, owner: str | None) -> None:
    archive.flush()
    await box.unpack(archive, folder, owner=owner)
    archive.seek(0)
    archive.truncate()


async def _is_folder(box: BubblewrapBox, path: str) -> bool:
    return (await box.exec(["test", "-d", path], user="root", cwd="/")).exit_code == 0


def _is_archive(context: Path, source: Source) -> bool:
    return not source.is_folder and tarfile.is_tarfile(context / source.path)


async def _add_archive(
    line: Instruction, state: _State, box: BubblewrapBox, context: Path, source: Source, target: str
) -> None:
    """ADD unpacks an archive. The box's own tar does it, since its content is whatever it is."""
    inside = "/tmp/.castform-archive"
    await box.upload(context / source.path, inside)
    script = 'mkdir -p "$1" && tar -xf "$0" -C "$1" && rm -f "$0"'
    await _run(line, ["/bin/sh", "-c", script, inside, target], state, box, cwd="/", user="root")


def _name(line: Instruction) -> str:
    return f"line {line.line} of the Dockerfile, {line.word} {line.rest[:200]}"
