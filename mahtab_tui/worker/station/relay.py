"""The end of one connection on the other machine: copies between stdin, stdout and the station,
which outlives the connection."""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from typing import Any

from .kernel import LINK_PIECE

_ONE_LINE = 65_536
"""Maximum bytes of the host's first line."""
_GONE = b'{"error": "the kernel is not there any more"}\n'


def main(folder: str, above: str) -> None:
    """Connect to the session's station; start the station if requested by the host. above: the
    folder of all files."""
    asked = json.loads(_first_line())
    here = _working_directory()
    os.chdir(above)  # because the path of a socket must be short
    if "clean" in asked:
        from .station import clean

        os.write(1, json.dumps({"received": 0, **clean(above)}).encode() + b"\n")
        return
    name = f"{asked['session']}.sock"
    if "start" in asked:
        asked["start"]["cwd"] = asked["start"]["cwd"] or here
        try:
            station = _start(name, folder, asked)
        except OSError as error:  # a full disk, too many processes
            os.write(
                1,
                json.dumps({"error": f"no kernel can be started there: {error.strerror}"}).encode()
                + b"\n",
            )
            return
    else:
        station = socket.socket(socket.AF_UNIX)
    try:
        if "start" not in asked:
            station.connect(name)
        station.sendall(
            json.dumps(
                {key: asked[key] for key in asked if key not in ("start", "session")}
            ).encode()
            + b"\n"
        )
    except OSError:
        os.write(1, _GONE)
        return
    _copy(station)


def _start(name: str, folder: str, asked: dict[str, Any]) -> socket.socket:
    """Fork the station, and return a connection to it. name: of the socket for further
    connections."""
    from .station import Station

    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o077)
    listener.bind(name)
    os.umask(before)
    listener.listen(8)
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        listener.close()
        return ours
    # Fork twice, so that nobody waits for it, detached from this connection's terminal and
    # descriptors.
    os.setsid()
    if os.fork():
        os._exit(0)
    ours.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    try:
        Station(listener, folder, asked).run(theirs)
    finally:
        os.unlink(name)
        os._exit(0)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # the folder was deleted
        return os.path.expanduser("~")


def _first_line() -> bytes:
    """Read a line of stdin byte by byte, and nothing after it."""
    line = os.fdopen(0, "rb", buffering=0, closefd=False).readline(_ONE_LINE)
    if not line.endswith(b"\n") and len(line) < _ONE_LINE:
        sys.exit(0)
    return line


def _copy(station: socket.socket) -> None:
    """Copy until one side ends. A station that ends before it answers is reported as gone."""
    inside, answered = station.fileno(), False
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(inside, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            try:
                data = os.read(descriptor, LINK_PIECE)
                if not data:
                    return
                answered = answered or descriptor == inside
                view = memoryview(data)
                while view:
                    view = view[os.write(1 if descriptor == inside else inside, view) :]
            except OSError:
                if descriptor == inside and not answered:
                    os.write(1, _GONE)
                return
