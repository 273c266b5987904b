"""What the loader starts on the other machine: it connects a host to the session's station, and starts the
station if there is none.

The host speaks through stdin and stdout of this process. Its first line is a request: the name of the session,
and how to start a kernel if there may be none yet. All that follows is copied between the host and the station.
"""

from __future__ import annotations

import json
import os
import select
import socket

from .station_link import LINK_PIECE_BYTES
from .station_server import StationServer

_HOST_IN = 0
_HOST_OUT = 1
"""The descriptors by which the host speaks."""
_MAX_RELAYED_LINE_BYTES = 65_536
"""Bytes of a host's first line."""
_MAX_WAITING_CONNECTIONS = 8
"""Connections to a station that it has not accepted yet."""
_GONE = b'{"error": "the kernel is not there any more"}\n'


def main(folder: str, above: str) -> None:
    """Connect the host to the session's station.

    Args:
        folder: The folder of the worker and of cloudpickle.
        above: The folder of all our files.
    """
    first_line = os.fdopen(_HOST_IN, "rb", buffering=0, closefd=False).readline(
        _MAX_RELAYED_LINE_BYTES
    )
    is_whole = first_line.endswith(b"\n") or len(first_line) == _MAX_RELAYED_LINE_BYTES
    if not is_whole:  # the host has gone
        return
    request = json.loads(first_line)
    folder_here = os.getcwd()
    os.chdir(above)  # because the path of a socket must be short
    socket_name = f"{request.pop('session')}.sock"
    try:
        if "start" in request:
            request["start"]["cwd"] = request["start"]["cwd"] or folder_here
            station = _start(socket_name, folder, request)
            del request["start"]
        else:
            station = socket.socket(socket.AF_UNIX)
            station.connect(socket_name)
        station.sendall(json.dumps(request).encode() + b"\n")
    except OSError as error:
        answer = _GONE
        if "start" in request:  # it was not started
            reason = f"no kernel can be started there: {error.strerror}"
            answer = json.dumps({"error": reason}).encode() + b"\n"
        os.write(_HOST_OUT, answer)
        return
    _relay(station)


# Starting a station


def _start(name: str, folder: str, request: dict[str, object]) -> socket.socket:
    """Start a station in a process of its own; return a connection to it.

    Args:
        name: The file name of the socket on which it listens.
        folder: The folder of the worker and of cloudpickle.
        request: What the host has asked for.

    Raises:
        OSError: The socket cannot be made, or the process cannot be forked.
    """
    listener = socket.socket(socket.AF_UNIX)
    old_umask = os.umask(0o077)
    listener.bind(name)
    os.umask(old_umask)
    listener.listen(_MAX_WAITING_CONNECTIONS)
    our_end, station_end = socket.socketpair()
    if os.fork():
        station_end.close()
        listener.close()
        return our_end

    our_end.close()
    _detach()
    try:
        StationServer(listener, folder, request).run(station_end)
    finally:
        os.unlink(name)
        os._exit(0)


def _detach() -> None:
    """Go on in a process for which nobody waits, without this connection's terminal and descriptors."""
    os.setsid()
    if os.fork():
        os._exit(0)
    null_fd = os.open(os.devnull, os.O_RDWR)
    for standard_fd in (0, 1, 2):
        os.dup2(null_fd, standard_fd)
    os.close(null_fd)


# Copying


def _relay(station: socket.socket) -> None:
    """Copy between the host and a station until one of them ends. A station that ends before it answers
    is reported as gone."""
    station_fd = station.fileno()
    target_fds = {_HOST_IN: station_fd, station_fd: _HOST_OUT}
    has_answered = False
    poll = select.poll()
    for source_fd in target_fds:
        poll.register(source_fd, select.POLLIN)
    while True:
        for source_fd, _events in poll.poll():
            try:
                data = os.read(source_fd, LINK_PIECE_BYTES)
                if not data:
                    return
                has_answered = has_answered or source_fd == station_fd
                _write_all(target_fds[source_fd], data)
            except OSError:
                if source_fd == station_fd and not has_answered:
                    os.write(_HOST_OUT, _GONE)
                return


def _write_all(fd: int, data: bytes) -> None:
    unwritten = memoryview(data)
    while unwritten:
        written_bytes = os.write(fd, unwritten)
        unwritten = unwritten[written_bytes:]
