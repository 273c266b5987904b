"""The fork server: has everything loaded, and forks a sandbox for each request.

It speaks JSON datagrams with its host. It says {"op": "hello", "missing": why there can be no sandbox, or ""}. Asked
{"id"} with two descriptors (a socket, a file of the text) it answers {"op": "forked", "id", "pid"} with the process's
descriptor, or {"op": "failed", "id", "why"}; and {"op": "ended", "id", "code"} when that process is over and reaped.
It ends with the connection, and its children with it. No code of a model's ever runs in it.
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
import time
from typing import Any, NamedTuple

from . import child, libc, lockdown, modules, zones

_REQUEST = 1024
"""Bytes."""
_TRIES, _PAUSE = 60, 0.05
"""How often it is tried to make a process, and the seconds between."""


class _Sandbox(NamedTuple):
    number: int
    pid: int


def main(fd: int) -> None:
    """Serve on a socket of whole messages (SOCK_SEQPACKET) until the host closes it."""
    host = socket.socket(fileno=fd)
    missing = lockdown.missing()
    if missing:
        _say(host, {"op": "hello", "missing": missing})
        return
    _go_first()
    modules.preload()
    zones.load()
    modules.close_imports()
    _tell_nothing()
    server = _Server(host, lockdown.prepare())
    gc.freeze()  # the collector of a child would write to all that is shared with it
    _say(host, {"op": "hello", "missing": ""})
    server.run()


def _go_first() -> None:
    """Where memory runs out, the system shall end a sandbox and not the host."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("500")


def _tell_nothing() -> None:
    """What all sandboxes have: neither folder, environment, interpreter nor machine to know of; and `help` and `exit`, which are site.py's."""
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
        self._sandboxes: dict[int, _Sandbox] = {}
        """By the descriptor of the process."""

    def run(self) -> None:
        while True:
            for fd, _ in self._poll.poll():
                if fd in self._sandboxes:
                    self._reap(fd)
                elif not self._request():
                    return

    def _request(self) -> bool:
        """Fork a sandbox; False where the host has gone."""
        data, fds, _, _ = socket.recv_fds(self._host, _REQUEST, 2)
        if not data:
            return False
        number = json.loads(data)["id"]
        parent = os.getpid()
        try:
            if len(fds) < 2:  # there was no room for them
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            pid = fork()
            if pid == 0:
                self._become(parent, *fds)
            self._forked(number, pid)
        except OSError as error:
            _say(self._host, {"op": "failed", "id": number, "why": error.strerror or "no process can be made"})
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _become(self, parent: int, channel: int, text: int) -> None:
        try:
            child.run(parent, channel, text, self._locks)
        finally:
            os._exit(1)

    def _forked(self, number: int, pid: int) -> None:
        """Raises `OSError` where there is no descriptor for it; the process is gone then."""
        try:
            process = libc.process_handle(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._sandboxes[process] = _Sandbox(number, pid)
        self._poll.register(process, select.POLLIN)
        _say(self._host, {"op": "forked", "id": number, "pid": pid}, process)

    def _reap(self, process: int) -> None:
        sandbox = self._sandboxes.pop(process)
        self._poll.unregister(process)
        os.close(process)
        _, status = os.waitpid(sandbox.pid, 0)
        _say(self._host, {"op": "ended", "id": sandbox.number, "code": os.waitstatus_to_exitcode(status)})


def fork() -> int:
    """As `os.fork`. A sandbox that makes threads without end takes all process numbers for a moment, until the host ends it: that is waited for."""
    for _ in range(_TRIES):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(_PAUSE)
    return os.fork()


def _say(host: socket.socket, message: dict[str, Any], *fds: int) -> None:
    try:
        socket.send_fds(host, [json.dumps(message).encode()], fds)
    except OSError:
        os._exit(0)  # the host has gone
