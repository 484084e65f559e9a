"""The first process of a box: starts commands that the host asks for, and ends them.

One packet of the socket is one message of at most 64 KiB. An order is a marshalled dict, and what can
be longer comes in a memory file beside it; a reply is `NUMBER kind words`, which the host trusts no
further. It never waits for a command, and allocates nothing that a command controls.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` and `socket` without `enum`, a third of a box's start
import _socket
import marshal
import os
import select
import sys
import time

from castform_sandbox_bubblewrap.inside import kernel, program, tree, watch

TYPE_CHECKING = False
if TYPE_CHECKING:  # without `typing`: each import is part of a box's start
    from typing import Any

PACKET_BYTES = 1 << 16
_INT_BYTES = 4
_TICK_SECONDS = 0.01
_LONGEST_POLL = 3_600_000.0
"""Milliseconds; poll takes 31 bits of them."""
_HOLD_SECONDS = 1.0
"""So long what is to end is killed without holding still all else in the box, which a shell with jobs may notice."""
_KILL_SECONDS = 10.0
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31})
"""chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, sys_chroot, setfcap."""


class Command:
    """A command that runs, or has left something that runs."""

    def __init__(self, number: int, holder: int, status_end: int, deadline: float | None) -> None:
        self.number = number
        self.holder = holder
        self.status_end = status_end
        self.deadline = deadline
        self.told = False
        self.answered = False
        self.said = b""
        self.timed_out = False
        self.killing_since: float | None = None
        self.asked_by: int | None = None


class Init:
    """The first process's state."""

    def __init__(self, link: _socket.socket) -> None:
        self.link = link
        self.commands: dict[int, Command] = {}
        self.ending: int | None = None
        self.held = False
        self.watcher = watch.Watcher()
        self.wake_end, wake_start = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # which the first process of a namespace ignores
        _signal.set_wakeup_fd(wake_start, warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve until the host is gone."""
        self.send(0, "ready")
        while True:
            self.wait()
            self.reap()
            self.expire()
            self.press_on()
            reason = self.watcher.check(start=self.ending is None)
            if reason is not None:
                self.send(0, "over", reason)
                return

    def wait(self) -> None:
        poll = select.poll()
        poll.register(self.link, select.POLLIN)
        poll.register(self.wake_end, select.POLLIN)
        statuses = {command.status_end: command for command in self.commands.values() if not command.told}
        for descriptor in statuses:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(self.patience()):
            if descriptor == self.link.fileno():
                self.receive()
            elif descriptor == self.wake_end:
                os.read(self.wake_end, 4096)
            elif descriptor in statuses:
                self.hear(statuses[descriptor])

    def patience(self) -> float | None:
        """Return for how many milliseconds nothing has to be looked at."""
        if self.ending is not None or any(one.killing_since for one in self.commands.values()):
            return _TICK_SECONDS * 1000
        times = [one.deadline for one in self.commands.values() if one.deadline is not None and not one.told]
        limit = self.watcher.pause()
        waits = [max(0.0, when - time.monotonic()) for when in times] + ([] if limit is None else [limit])
        return None if not waits else min(min(waits) * 1000 + 1, _LONGEST_POLL)

    def receive(self) -> None:
        data, extra, _, _ = self.link.recvmsg(PACKET_BYTES, _socket.CMSG_LEN(8 * _INT_BYTES))
        passed = b"".join(words for _, _, words in extra)
        places = range(0, len(passed) - _INT_BYTES + 1, _INT_BYTES)
        descriptors = [int.from_bytes(passed[at : at + _INT_BYTES], sys.byteorder) for at in places]
        if not data:
            os._exit(0)  # the host is gone; the kernel ends everything else
        message: dict[str, Any] = marshal.loads(data)  # Any: what the host has put in
        number = message["number"]
        try:
            match message["do"]:
                case "start":
                    self.start(number, descriptors)
                case "kill":
                    self.kill(number, message["which"])
                case "end":
                    self.ending = number
                case "hold" | "let go":
                    self.held = message["do"] == "hold"
                    tree.signal_all(_signal.SIGSTOP if self.held else _signal.SIGCONT)
                    self.send(number, "done")
                case "watch":
                    self.watcher.begin(message["memory_bytes"], message["disk_bytes"])
                    self.send(number, "done")
                case "listen":
                    self.listen(number)
        except OSError as error:
            self.send(number, "failed", error.strerror or str(error))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def start(self, number: int, descriptors: list[int]) -> None:
        body, *stdio = descriptors
        with os.fdopen(os.dup(body), "rb") as file:
            file.seek(0)
            order: dict[str, Any] = marshal.load(file)  # Any: as above
        status_end, status_start = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(status_end, False)
        timeout = order.get("timeout")
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            holder = os.fork()
        except OSError:
            os.close(status_end)
            os.close(status_start)
            raise
        if holder == 0:
            self.link.close()
            _signal.set_wakeup_fd(-1)
            program.hold(order, (stdio[0], stdio[1], stdio[2]), status_start)
        os.close(status_start)
        self.commands[holder] = Command(number, holder, status_end, deadline)

    def listen(self, number: int) -> None:
        """Hand out a listening socket on the box's own loopback."""
        listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)
            words = b"%d port %d" % (number, listener.getsockname()[1])
            passed = listener.fileno().to_bytes(_INT_BYTES, sys.byteorder)
            self.link.sendmsg([words], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
        finally:
            listener.close()

    def kill(self, number: int, which: int) -> None:
        for command in self.commands.values():
            if command.number == which:
                command.asked_by = number
                command.killing_since = command.killing_since or time.monotonic()
                return
        self.send(number, "done")

    def hear(self, command: Command) -> None:
        """Take what a holder says of its command: `exit N`, before it `refused WHY`; or `failed WHY`."""
        try:
            data = os.read(command.status_end, 4096)
        except BlockingIOError:  # its holder is dead and a child of that still has the other end
            data = b""
        command.said += data
        if b"exit " in command.said.rpartition(b"\n")[0] or not data:
            command.told = True
            os.close(command.status_end)
            if command.killing_since is None and self.ending is None:
                self.answer(command)

    def answer(self, command: Command) -> None:
        if command.answered:
            return
        command.answered = True
        code, refused = 128 + _signal.SIGKILL, ""
        for line in command.said.splitlines():
            kind, _, words = line.partition(b" ")
            if kind == b"exit":
                code = int(words)
            elif kind == b"failed":
                self.send(command.number, "failed", words.decode("utf-8", "replace"))
                return
            else:
                refused = words.decode("utf-8", "replace")
        self.send(command.number, "exit", f"{code} {int(command.timed_out)} {refused}")

    def reap(self) -> None:
        lost = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.all_gone()
                break
            if pid == 0:
                break
            if pid == self.watcher.pid:
                self.watcher.note_end(status, expected=self.ending is not None)
                continue
            command = self.commands.pop(pid, None)
            if command is None:
                continue
            lost = lost or status != 0
            if not command.told:
                self.commands[pid] = command  # for its last words
                self.hear_out(command)
                del self.commands[pid]
            elif command.killing_since is not None or self.ending is not None:
                self.answer(command)
            if command.asked_by is not None:
                self.send(command.asked_by, "done")
        if lost:  # somebody killed a holder: what it held hangs on us, and belongs to no command any more
            known = {*self.commands} | ({self.watcher.pid} if self.watcher.pid else set())
            tree.kill_strays(known, hold=not self.held)

    def hear_out(self, command: Command) -> None:
        while not command.told:
            self.hear(command)
        if command.killing_since is not None or self.ending is not None:
            self.answer(command)

    def all_gone(self) -> None:
        if self.ending is not None:
            self.send(self.ending, "done")
            self.ending = None

    def expire(self) -> None:
        now = time.monotonic()
        for command in self.commands.values():
            if command.deadline is not None and not command.told and now >= command.deadline:
                command.deadline = None
                command.timed_out = True
                command.killing_since = command.killing_since or now

    def press_on(self) -> None:
        """Kill, again, what is to end and has not."""
        if self.ending is not None and not tree.signal_all(_signal.SIGKILL):
            self.all_gone()
        for command in self.commands.values():
            if command.killing_since is None:
                continue
            seconds = time.monotonic() - command.killing_since
            tree.kill_below(command.holder, hold=seconds > _HOLD_SECONDS and not self.held)
            if seconds > _KILL_SECONDS:
                os.kill(command.holder, _signal.SIGKILL)  # what is left becomes a stray and is killed as such

    def send(self, number: int, kind: str, words: str = "") -> None:
        try:
            self.link.send(f"{number} {kind} {words}".encode("utf-8", "replace"))
        except OSError:
            os._exit(0)


def main(descriptor: int) -> None:
    """Run as the first process; `descriptor` is the host's socket."""
    kernel.deny_looks()  # and no program of the box takes its socket
    kernel.set_name(b"castform-init")
    kernel.limit_bounding_set(_KEPT_CAPABILITIES)
    os.umask(0o022)
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    Init(_socket.socket(fileno=descriptor)).run()
