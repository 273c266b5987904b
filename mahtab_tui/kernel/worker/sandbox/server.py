"""The fork server: loads everything once, and forks a sandbox for each request.

It exchanges JSON messages with its host:

    {"op": "hello", "missing"}       from the server at its start; why there can be no sandbox, or
    "" {"id"} + two descriptors         from the host: make a sandbox for this socket and this file
    of the text {"op": "forked", "id", "pid"}    from the server, with a descriptor of the process
    {"op": "failed", "id", "why"}    from the server instead {"op": "ended", "id", "code"}    from
    the server when the process has been reaped

It ends with the connection, and its children with it. A model's code never runs in it.
"""

from __future__ import annotations

import _sitebuiltins
import builtins
import contextlib
import errno
import gc
import json
import os
import platform
import select
import signal
import socket
import sys
from typing import Any

from . import child, libc, lockdown, modules

_REQUEST = 1024
"""Bytes."""


def main(fd: int) -> None:
    """Serve on a socket of whole messages (SOCK_SEQPACKET) until the host closes it."""
    host = socket.socket(fileno=fd)
    missing = lockdown.missing()
    if missing:
        _say(host, {"op": "hello", "missing": missing})
        return
    _prefer_to_die()
    modules.preload()
    modules.load_zones()
    modules.close_imports()
    _hide_machine()
    server = _Server(host, lockdown.prepare())
    gc.freeze()  # a child's garbage collector would write to all shared memory
    _say(host, {"op": "hello", "missing": ""})
    server.run()


def _prefer_to_die() -> None:
    """Make the system kill sandboxes, not the host, when memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")


def _hide_machine() -> None:
    """Hide folder, environment, interpreter and machine from the sandboxes, and add `help` and
    `exit`, which site.py would add."""
    os.chdir("/")
    os.environ.clear()
    sys.executable = ""
    sys.argv = [""]
    machine: Any = platform
    machine._uname_cache = platform.uname_result("Linux", "", "", "", "")
    builtins.help = _sitebuiltins._Helper()
    builtins.exit = builtins.quit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")


class _Server:
    def __init__(self, host: socket.socket, locks: lockdown.Locks) -> None:
        self._host = host
        self._locks = locks
        self._poll = select.poll()
        self._poll.register(host, select.POLLIN)
        self._sandboxes: dict[int, tuple[int, int]] = {}
        """The request's number and the process's, by the process's descriptor."""

    def run(self) -> None:
        while True:
            for fd, _ in self._poll.poll():
                if fd in self._sandboxes:
                    self._reap(fd)
                elif not self._request():
                    return

    def _request(self) -> bool:
        """Fork a sandbox; False if the host has gone."""
        data, fds, _, _ = socket.recv_fds(self._host, _REQUEST, 2)
        if not data:
            return False
        number = json.loads(data)["id"]
        parent = os.getpid()
        try:
            if len(fds) < 2:  # this process has no descriptors left
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            pid = os.fork()
            if pid == 0:
                try:
                    child.run(parent, fds[0], fds[1], self._locks)
                finally:
                    os._exit(1)
            self._forked(number, pid)
        except OSError as error:
            _say(
                self._host,
                {"op": "failed", "id": number, "why": error.strerror or "no process can be made"},
            )
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _forked(self, number: int, pid: int) -> None:
        """Report a new process. Kills it and raises `OSError` if it cannot get a descriptor."""
        try:
            process = libc.process_handle(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._sandboxes[process] = (number, pid)
        self._poll.register(process, select.POLLIN)
        _say(self._host, {"op": "forked", "id": number, "pid": pid}, process)

    def _reap(self, process: int) -> None:
        number, pid = self._sandboxes.pop(process)
        self._poll.unregister(process)
        os.close(process)
        _, status = os.waitpid(pid, 0)
        _say(self._host, {"op": "ended", "id": number, "code": os.waitstatus_to_exitcode(status)})


def _say(host: socket.socket, message: dict[str, Any], *fds: int) -> None:
    try:
        socket.send_fds(host, [json.dumps(message).encode()], fds)
    except OSError:
        os._exit(0)  # the host has gone
