"""A worker process: `python -m castform.workers.main REQUESTS ANSWERS PARENT`, started by a host.

REQUESTS and ANSWERS are file descriptors of pipes, PARENT the host's process id. Imports what an
environment is written with and the plugin host, and nothing that its virtual environment may have
in another version.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from castform import __version__
from castform.workers.channel import Channel, die_with_parent
from castform.workers.exceptions import describe_exception
from castform.workers.guard import end_guard, start_guard
from castform.workers.protocol import PROTOCOL_VERSION, Frame

if TYPE_CHECKING:
    from castform.plugins.environments import LoadedEnvironment


def main(arguments: Sequence[str]) -> None:
    """Load the environment that the host names and serve it until the host says close."""
    requests, answers, parent = (int(text) for text in arguments)
    die_with_parent(parent)
    guard = start_guard()
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's to handle
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    channel = Channel(requests, answers)
    channel.send({"t": "hello", "protocol": PROTOCOL_VERSION, "castform": __version__, "pid": os.getpid()})
    task = channel.receive()
    loaded = _load(task, channel)
    if loaded is not None:
        asyncio.run(_serve(loaded, channel))
    end_guard(guard)


def _load(task: Frame, channel: Channel) -> LoadedEnvironment | None:
    """Load, and say what it is; None when it cannot be loaded, which the host is told."""
    from castform.workers.describing import describe_loaded
    from castform.workers.loading import load_task
    from castform.workers.reporting import LogForwarder
    from castform.workers.service import Service  # noqa: F401  # before it says that it is ready

    sys.path += [entry for entry in task["import_path"] if entry not in sys.path]
    logging.basicConfig(level=task["log_level"], handlers=[LogForwarder(channel)])
    try:
        if task["protocol"] != PROTOCOL_VERSION:
            raise RuntimeError(f"the host speaks protocol {task['protocol']}, this worker {PROTOCOL_VERSION}")
        loaded = load_task(task)
        described = describe_loaded(loaded)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a plugin raises is the host's to tell
        channel.send({"t": "failed", "error": describe_exception(error)})
        return None
    channel.send({"t": "loaded", **described})
    return loaded


async def _serve(loaded: LoadedEnvironment, channel: Channel) -> None:
    from castform.workers.service import Service

    await Service(loaded.environment, channel).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
