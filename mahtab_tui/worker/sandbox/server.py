"""The fork server of sandboxes: forks a process for each of them.

It exchanges JSON messages with its host:

    {"op": "hello", "missing"}        from the server at its start: why there can be no sandbox, or ""
    {"id"} + a socket                 from the host: make a sandbox, which gets its text over the socket
    {"id", "load": true} + one        from the host: make a server for sandboxes that share a text
    {"op": "forked", "id", "pid"}     from the server, with a descriptor of the process
    {"op": "failed", "id", "reason"}  from the server instead
    {"op": "ended", "id", "code"}     from the server when the process has been reaped

The hello of a server for a text comes when it has read the text, or could not.

The server ends with the connection, and its children end with it. A model's code never runs in it, but
in the processes that it forks (`process`).
"""

from __future__ import annotations

import errno
import gc
import json
import os
import select
import signal
import socket
from contextlib import suppress
from typing import Any, NamedTuple

from . import confinement, system_calls
from .pieces import Source
from .preparation import prepare_interpreter
from .process import CHANNEL_FD, error_clause, keep_only, receive_text, run_sandbox

_MAX_REQUEST_BYTES = 1_024


def main(fd: int) -> None:
    """Serve on a socket of whole messages (SOCK_SEQPACKET) until the host closes it."""
    host = socket.socket(fileno=fd)
    missing = confinement.missing_support()
    if missing:
        _send(host, {"op": "hello", "missing": missing})
        return
    # When memory runs out, sandboxes are to be killed, not the host.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")
    prepare_interpreter()
    _Server(host, confinement.prepare()).run()


def _serve_text(parent: int, channel: int, locks: confinement.Locks) -> None:
    """Become a server for a text, until the host closes its socket."""
    try:
        system_calls.die_with_parent(parent)
        locks = keep_only(channel, locks)
        channel = CHANNEL_FD
        text = receive_text()
    except (OSError, MemoryError) as error:
        _send(socket.socket(fileno=channel), {"op": "hello", "missing": error_clause(error)})
        return
    _Server(socket.socket(fileno=channel), locks, text).run()


class _Child(NamedTuple):
    """A process that the server has forked."""

    request: int
    """The number of the request for it."""
    pid: int


class _Server:
    """Forks a process for each request, and reports when it ends."""

    def __init__(
        self, host: socket.socket, locks: confinement.Locks, text: Source | None = None
    ) -> None:
        """
        Args:
            host: Where requests come from.
            locks: For the sandboxes.
            text: What they share; None if each gets its own.
        """
        self._host = host
        self._locks = locks
        self._text = text
        self._poll = select.poll()
        self._poll.register(host, select.POLLIN)
        self._children: dict[int, _Child] = {}
        """The processes that have not ended, by their descriptors."""

    def run(self) -> None:
        """Serve until the host closes the connection."""
        gc.freeze()  # a child's garbage collector would write to all shared memory
        _send(self._host, {"op": "hello", "missing": ""})
        while True:
            for fd, _ in self._poll.poll():
                if fd in self._children:
                    self._reap(fd)
                elif not self._handle_request():
                    return

    def _handle_request(self) -> bool:
        """Fork a sandbox, or a server for a text; return False if the host has gone."""
        data, fds, *_ = socket.recv_fds(self._host, _MAX_REQUEST_BYTES, 1)
        if not data:
            return False
        request = json.loads(data)
        number = request["id"]
        try:
            if not fds:  # this process has no descriptors left
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            pid = self._fork(request, fds[0])
            self._report_fork(number, pid)
        except OSError as error:
            reason = error.strerror or "no process can be made"
            _send(self._host, {"op": "failed", "id": number, "reason": reason})
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _fork(self, request: dict[str, Any], channel: int) -> int:
        """Fork the process of a request, and return its number. Raises `OSError`."""
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            if request.get("load"):
                _serve_text(parent, channel, self._locks)
            else:
                run_sandbox(parent, channel, self._text, self._locks)
        finally:
            os._exit(1)

    def _report_fork(self, number: int, pid: int) -> None:
        """Report a new process. Kills it and raises `OSError` if it cannot get a descriptor, or the
        descriptor cannot be sent."""
        process = -1
        try:
            process = system_calls.process_handle(pid)
            _send(self._host, {"op": "forked", "id": number, "pid": pid}, process)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if process >= 0:
                os.close(process)
            raise
        self._children[process] = _Child(number, pid)
        self._poll.register(process, select.POLLIN)

    def _reap(self, process: int) -> None:
        """Report the end of a process."""
        child = self._children.pop(process)
        self._poll.unregister(process)
        os.close(process)
        status = os.waitpid(child.pid, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        _send(self._host, {"op": "ended", "id": child.request, "code": code})


def _send(host: socket.socket, message: dict[str, object], *fds: int) -> None:
    """Send a message with descriptors; the process ends if the host is gone. Raises `OSError` if the
    system refuses to send it."""
    try:
        socket.send_fds(host, [json.dumps(message).encode()], fds)
    except ConnectionError:
        os._exit(0)
