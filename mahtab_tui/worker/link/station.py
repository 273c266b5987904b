"""What the loader starts on the other machine: it connects a host to the session's station, and
starts the station if there is none."""

from __future__ import annotations

import json
import os
import select
import socket

from .station_link import LINK_PIECE_BYTES
from .station_server import StationServer

_MAX_RELAYED_LINE_BYTES = 65_536
"""Bytes of a host's first line."""
_GONE = b'{"error": "the kernel is not there any more"}\n'


def main(folder: str, above: str) -> None:
    """Connect stdin and stdout to the session's station.

    Args:
        above: The folder of all files.
    """
    line = os.fdopen(0, "rb", buffering=0, closefd=False).readline(_MAX_RELAYED_LINE_BYTES)
    if not line.endswith(b"\n") and len(line) < _MAX_RELAYED_LINE_BYTES:
        return
    request = json.loads(line)
    folder_here = os.getcwd()
    os.chdir(above)  # because the path of a socket must be short
    name = f"{request.pop('session')}.sock"
    station = socket.socket(socket.AF_UNIX)
    try:
        if "start" in request:
            request["start"]["cwd"] = request["start"]["cwd"] or folder_here
            station = _start(name, folder, request)
            del request["start"]
        else:
            station.connect(name)
        station.sendall(json.dumps(request).encode() + b"\n")
    except OSError as error:
        if "start" in request:
            answer = {"error": f"no kernel can be started there: {error.strerror}"}
            os.write(1, json.dumps(answer).encode() + b"\n")
        else:
            os.write(1, _GONE)
        return
    _copy(station)


def _start(name: str, folder: str, request: dict[str, object]) -> socket.socket:
    """Start a station in a process of its own; return a connection to it.

    Args:
        name: the file name of the socket on which it listens.
        folder: of the worker and of cloudpickle.
        request: of the host.
    """
    listener = socket.socket(socket.AF_UNIX)
    old_umask = os.umask(0o077)
    listener.bind(name)
    os.umask(old_umask)
    listener.listen(8)
    our_end, station_end = socket.socketpair()
    if os.fork():
        station_end.close()
        listener.close()
        return our_end

    # Fork twice, so that nobody waits for it, detached from this connection's terminal and
    # descriptors.
    os.setsid()
    if os.fork():
        os._exit(0)
    our_end.close()
    null_fd = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null_fd, descriptor)
    os.close(null_fd)
    try:
        StationServer(listener, folder, request).run(station_end)
    finally:
        os.unlink(name)
        os._exit(0)


def _copy(station: socket.socket) -> None:
    """Copy until one side ends. A station that ends before it answers is reported as gone."""
    station_fd = station.fileno()
    has_answered = False
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(station_fd, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            try:
                data = os.read(descriptor, LINK_PIECE_BYTES)
                if not data:
                    return
                has_answered = has_answered or descriptor == station_fd
                target_fd = 1 if descriptor == station_fd else station_fd
                unwritten = memoryview(data)
                while unwritten:
                    written_bytes = os.write(target_fd, unwritten)
                    unwritten = unwritten[written_bytes:]
            except OSError:
                if descriptor == station_fd and not has_answered:
                    os.write(1, _GONE)
                return
