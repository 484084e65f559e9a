"""Run an agent's shell commands in a box: a fresh shell each, in the folder where the last one ended."""

from __future__ import annotations

from dataclasses import dataclass

from castform.sandbox.contract import ExecResult, Sandbox
from castform.sandbox.errors import ExecTimeoutError

START = (
    'if [ -n "$2" ] && ! cd -- "$2" 2>/dev/null; then printf "[%s cannot be entered any more; this is /]\\n" "$2"; fi; '
    'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi'
)
"""The shell goes to its folder itself: one that a command removed is no fault of the box."""
MAX_SCRIPT_BYTES = 100_000
"""Linux takes arguments of 128 KiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandOutcome:
    """What one command did."""

    text: str
    """What it printed, both outputs as they came, cut in the middle; then how it ended."""
    exit_code: int | None
    """None: it took too long and was killed."""
    cwd: str | None
    """Where it ended; None where that is not known."""


async def run_command(
    sandbox: Sandbox,
    script: str,
    *,
    cwd: str | None,
    user: str | None,
    env: dict[str, str],
    timeout_seconds: float,
    max_characters: int,
    marker: str,
) -> CommandOutcome:
    """Run a script. `marker` is a text that no output has: the line after it is the folder at the end."""
    if len(script.encode("utf-8", "replace")) > MAX_SCRIPT_BYTES or "\0" in script:
        return CommandOutcome(text="[not run: the command is too long]", exit_code=None, cwd=cwd)
    wrapped = f'exec 2>&1\ntrap \'printf "\\n%s%s\\n" {marker} "$PWD"\' EXIT\n{script}\n'
    try:
        done = await sandbox.exec(
            ["sh", "-c", START, "sh", wrapped, cwd or ""],
            cwd=None if cwd is None else "/",
            user=user,
            env=env,
            timeout_seconds=timeout_seconds,
        )
    except ExecTimeoutError as error:
        shown = cut_middle(_text(error.result), max_characters)
        note = f"[killed: it took longer than {timeout_seconds:g} s]"
        return CommandOutcome(text=_join(shown, note), exit_code=None, cwd=cwd)
    text, found, rest = _text(done).rpartition(f"\n{marker}")
    place, _, late = rest.partition("\n") if found else ("", "", rest)
    text += late  # of what a command left running
    shown = cut_middle(text, max_characters)
    if done.stdout_dropped:
        shown = _join(f"[… {done.stdout_dropped} bytes before this are lost]", shown)
    note = "" if done.exit_code == 0 else f"[exit code {done.exit_code}]"
    return CommandOutcome(text=_join(shown, note), exit_code=done.exit_code, cwd=place or cwd)


def cut_middle(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with head and tail and a note of what is left out."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[len(text) - half :]}"


def _text(done: ExecResult) -> str:
    return done.text + done.error_text


def _join(*parts: str) -> str:
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())
