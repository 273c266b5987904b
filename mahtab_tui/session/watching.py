"""Follows a session of another program: its recent records, then new ones."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from mahtab_tui.bus.codec import InvalidRecord, as_json, from_json
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.worker.frames import Frame, FrameError, FrameReader, encode
from mahtab_tui.session.shared_sessions import RunningSession


def record_frame(record: Record) -> Frame:
    return {"op": "record", **as_json(record)}


def follow(running: RunningSession) -> Iterator[Record]:
    """Yield the recent records of a session, then new ones until it ends. Raises `OSError` if it cannot be reached."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(running.path))
        connection.sendall(encode({"op": "watch"}))
        reader = FrameReader()
        while data := connection.recv(65536):
            try:
                frames = reader.feed(data)
            except FrameError:
                return
            for frame in frames:
                with contextlib.suppress(InvalidRecord):  # the session is damaged, or not a session
                    if frame.get("op") == "record" and (record := from_json(frame)) is not None:
                        yield record
