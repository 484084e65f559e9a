"""Run a model's function on inputs, in a process of its own: `python candidate_child.py`.

One request comes in as JSON on stdin: the source, the function's name, the argument lists,
the limits. Results go out as lines of JSON. What the results should be is never told to this
process, so nothing in it is worth forging: a candidate that takes the whole process over can
still only send back values, and has to have computed them.

What the candidate may do is decided by the kernel: a seccomp filter, set after everything
needed is loaded, lets it compute and write to pipes that are open already. Opening any file,
starting a process or thread, a socket, a signal to anybody, sleeping: all refused. An audit
hook says the same within Python, for a clear error and for systems without seccomp.

Run as a file: it imports nothing of ours.
"""

from __future__ import annotations

import builtins
import json
import os
import sys

PLAIN_MODULES = (
    "bisect",
    "cmath",
    "collections",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "json",
    "math",
    "numbers",
    "operator",
    "random",
    "re",
    "statistics",
    "string",
    "textwrap",
    "typing",
    "unicodedata",
)
"""What a candidate may import. Loaded beforehand where its source names them, since it can open no file."""
REFUSED_EVENTS = (
    "open",
    "os.",
    "socket.",
    "subprocess.",
    "shutil.",
    "ctypes.",
    "fcntl.",
    "mmap.",
    "pty.",
    "resource.",
    "tempfile.",
    "glob.",
    "pathlib.",
    "sqlite3.",
    "signal.pthread_kill",
    "_thread.start",
)
ALLOWED_SYSCALLS = {
    # read write close fstat newfstatat lseek mmap mprotect munmap mremap brk madvise rt_sigaction
    # rt_sigprocmask rt_sigreturn sigaltstack getpid getppid gettid getuid geteuid getgid getegid exit
    # exit_group futex sched_yield sched_getaffinity clock_gettime clock_getres gettimeofday getrandom
    # getrusage times uname sysinfo getcwd restart_syscall set_robust_list rseq
    # Not fcntl and ioctl: they can have the kernel send signals to anybody (F_SETOWN, FIOASYNC).
    "x86_64": (
        0xC000003E,
        "0 1 3 5 262 8 9 10 11 25 12 28 13 14 15 131 39 110 186 102 107 104 108 60 231 202 24 204 228 229 "
        "96 318 98 100 63 99 79 219 273 334",
    ),
    "aarch64": (
        0xC00000B7,
        "63 64 57 80 79 62 222 226 215 216 214 233 134 135 139 132 172 173 178 174 175 176 177 93 94 98 124 "
        "123 113 114 169 278 165 153 160 179 17 128 99 293",
    ),
}
"""Machine to its audit architecture and the numbers of the system calls that computing needs."""
EPERM = 1
MAX_DEPTH = 50
MAX_DIGITS = 4000
"""Of one whole number."""


class NotPlainError(Exception):
    """A value is none of the plain kinds that are compared."""


def encode(value: object, depth: int = 0) -> object:
    """Return a plain value as JSON that keeps its type: exact builtin types only, no subclasses."""
    kind = type(value)
    if depth > MAX_DEPTH:
        raise NotPlainError("values nested too deep")
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        if value.bit_length() > MAX_DIGITS * 3:  # type: ignore[attr-defined]  # it is an int
            raise NotPlainError(f"a number of more than {MAX_DIGITS} digits")
        return value
    if kind is float:
        return {"float": repr(value)}
    if kind is list or kind is tuple:
        return {kind.__name__: [encode(item, depth + 1) for item in value]}  # type: ignore[attr-defined]
    if kind is dict:
        pairs = [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in value.items()]  # type: ignore[attr-defined]
        return {"dict": pairs}
    if kind is set or kind is frozenset:
        return {"set": sorted((encode(item, depth + 1) for item in value), key=json.dumps)}  # type: ignore[attr-defined]
    raise NotPlainError(f"a {kind.__name__}")


def decode(data: object) -> object:
    """Return the value that `encode` made JSON of."""
    if not isinstance(data, dict):
        return data
    ((kind, inner),) = data.items()
    if kind == "float":
        return float(inner)
    if kind == "dict":
        return {decode(key): decode(item) for key, item in inner}
    return {"list": list, "tuple": tuple, "set": set}[kind](decode(item) for item in inner)


def set_limits(limits: dict[str, int]) -> None:
    """Bound processor time, memory, files and processes of this process, for good."""
    import resource

    seconds = limits["cpu_seconds"]
    for name, soft, hard in (
        ("RLIMIT_CPU", seconds, seconds + 1),
        ("RLIMIT_AS", limits["memory_bytes"], limits["memory_bytes"]),
        ("RLIMIT_FSIZE", 0, 0),
        ("RLIMIT_NPROC", 0, 0),
        ("RLIMIT_NOFILE", 16, 16),
        ("RLIMIT_CORE", 0, 0),
    ):
        if hasattr(resource, name):
            try:
                resource.setrlimit(getattr(resource, name), (soft, hard))
            except (ValueError, OSError):  # macOS refuses some; a lower limit is in force already
                continue


def confine() -> bool:
    """Let the kernel refuse everything but computing from now on; False where it cannot."""
    known = ALLOWED_SYSCALLS.get(os.uname().machine) if sys.platform == "linux" else None
    if known is None:
        return False
    import ctypes
    import struct

    architecture, numbers = known[0], [int(number) for number in known[1].split()]
    load, equal, answer = 0x20, 0x15, 0x06
    refuse, allow = 0x00050000 | EPERM, 0x7FFF0000

    def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("HBBI", code, yes, no, value)

    program = step(load, 4) + step(equal, architecture, 1, 0) + step(answer, refuse) + step(load, 0)
    for left, number in zip(range(len(numbers), 0, -1), numbers, strict=True):
        program += step(equal, number, left, 0)
    program += step(answer, refuse) + step(answer, allow)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    steps = ctypes.create_string_buffer(program)
    filter_ = Program(len(program) // 8, ctypes.cast(steps, ctypes.c_void_p))
    libc = ctypes.CDLL(None)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0):
        return False
    return bool(libc.prctl(set_seccomp, filter_mode, ctypes.byref(filter_), 0, 0) == 0)


def refuse_events() -> None:
    """Let Python refuse the same, with an error that says what was refused."""
    refused, starts, error = REFUSED_EVENTS, str.startswith, PermissionError

    def hook(event: str, arguments: object) -> None:
        if starts(event, refused):
            raise error(f"{event} is not allowed here")

    sys.addaudithook(hook)


def main() -> None:
    """Answer the one request. Lines: {"ready": true, "confined": …}, {"defined": true}, then one a call."""
    request = json.loads(sys.stdin.buffer.read())
    results = os.fdopen(os.dup(1), "w", encoding="ascii", newline="\n")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    source, name, calls = request["source"], request["function"], request["calls"]
    words = set("".join(sign if sign.isalnum() else " " for sign in source).split())
    for module in ("encodings.ascii", "encodings.latin_1", *(words & set(PLAIN_MODULES))):
        __import__(module)
    set_limits(request["limits"])
    confined = confine() if request["seccomp"] else False
    if request["audit"]:
        refuse_events()

    def tell(**line: object) -> None:
        results.write(json.dumps(line) + "\n")
        results.flush()

    if request["required"] and not confined:
        tell(ready=False, error="the kernel does not confine it (seccomp)")
        os._exit(0)
    tell(ready=True, confined=confined)
    space: dict[str, object] = {"__name__": "candidate", "__builtins__": builtins}
    try:
        exec(compile(source, "<candidate>", "exec"), space)
        function = space[name]
        if not callable(function):
            raise TypeError(f"{name} is no function")
    except BaseException as error:  # noqa: BLE001 - the model's code, SystemExit included
        tell(defined=False, error=describe(error))
        os._exit(0)
    tell(defined=True)
    for arguments in calls:
        try:
            line = {"value": encode(function(*(decode(argument) for argument in arguments)))}
        except BaseException as error:  # noqa: BLE001 - the model's code
            line = {"error": describe(error)}
        tell(**line)
    os._exit(0)


def describe(error: BaseException) -> str:
    """Return the error's type and, when it has a usable one, its message."""
    try:
        return f"{type(error).__name__}: {str(error)[:200]}"
    except BaseException:  # noqa: BLE001 - an error whose text raises
        return type(error).__name__


if __name__ == "__main__":
    main()
