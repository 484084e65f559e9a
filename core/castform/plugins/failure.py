"""How a plugin fails, and how castform's own work is kept out of its reach.

Plugin code may raise anything, SystemExit included, and may print. None of that may end
a command that did not ask for the plugin, or get into a command's data on stdout.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Literal, TypeVar

from castform.errors import CastformError

T = TypeVar("T")
Stage = Literal[
    "metadata", "name clash", "castform version", "import", "registration", "requirements", "factory"
]
"""metadata: what the distribution says of itself; registration: hook signatures and what hooks returned."""


class PluginFailure(CastformError):  # noqa: N818  (design: it is data as often as it is raised)
    """One plugin cannot be used. Raised when it is asked for, listed otherwise."""

    def __init__(
        self,
        name: str,
        distribution: str,
        stage: Stage,
        cause: BaseException | str,
        *,
        hint: str | None = None,
    ) -> None:
        self.name = name
        self.distribution = distribution
        self.stage = stage
        self.cause = cause
        super().__init__(
            f"plugin {name!r} from {distribution} failed at {stage}: {describe_cause(cause)}",
            hint=hint or _suggest_way_out(distribution, cause),
        )
        if isinstance(cause, BaseException):
            self.__cause__ = cause


def _suggest_way_out(distribution: str, cause: BaseException | str) -> str:
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        return (
            f"`pip install {distribution}` brings what it requires, "
            f"`castform env install {distribution} --isolated` in an environment of its own; "
            f"where {cause.name!r} is not among that, ask the author of {distribution}"
        )
    return f"`castform plugins --check` looks at every plugin; ask the author of {distribution}"


class ContainedError(Exception):
    """Plugin code ended in an exception of any kind, kept as `cause`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(describe_cause(cause))
        self.cause = cause


def describe_cause(cause: BaseException | str) -> str:
    """Return a cause as one phrase: type and text, or the text alone for our own errors."""
    if isinstance(cause, str):
        return cause
    try:
        text = " ".join(str(cause).split())
    except Exception as unreadable:  # noqa: BLE001 - the plugin's own __str__
        text = f"its text cannot be read ({type(unreadable).__name__})"
    if isinstance(cause, CastformError):
        return text
    if isinstance(cause, SystemExit):
        return f"it called sys.exit({cause.code!r})"
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__


def call_contained(function: Callable[[], T]) -> T:
    """Call plugin code; raise ContainedError for whatever comes out of it.

    A Ctrl-C of the user passes through; a KeyboardInterrupt that the plugin raised
    itself does not. What the plugin prints in the main thread goes to stderr.
    """
    interrupted = threading.Event()
    with _watch_interrupts(interrupted), _keep_stdout():
        try:
            return function()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and interrupted.is_set():
                raise
            raise ContainedError(error) from error


def _keep_stdout() -> contextlib.AbstractContextManager[object]:
    """Send prints to stderr. In the main thread only: stdout is the process's, and two threads would mix it up."""
    if threading.current_thread() is threading.main_thread():
        return contextlib.redirect_stdout(sys.stderr)
    return contextlib.nullcontext()


@contextlib.contextmanager
def _watch_interrupts(seen: threading.Event) -> Iterator[None]:
    """Set `seen` when the user presses Ctrl-C, and let the handler in force do its work."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        seen.set()
        handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, handler)
