"""The link between a station and its host, which survives broken connections. Does no input or
output."""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

MAGIC = "mahtab-far-1"
"""Sent by the loader, with the protocol's version."""

FOLDER = "~/.mahtab/elsewhere"

FRAMES = b"f"
OUTPUT = b"o"
OFFSET = b"n"
"""The offset of the next output, if anything before it is no longer available."""
STORED = b"r"
"""The offset up to which the host has stored the output."""
SIGNAL = b"s"
END = b"e"
"""The host has gone."""
EXITED = b"x"
_RECEIVED = b"a"
_ALIVE = b"p"

LINK_PIECE = 65_536
MAX_MESSAGE = 2**20

_HEAD = struct.Struct("!cQI")
_NUMBERED = frozenset((FRAMES, OUTPUT, OFFSET, STORED, SIGNAL, END, EXITED))


class LinkError(ValueError):
    pass


class Message(NamedTuple):
    kind: bytes
    data: bytes


class Link:
    """`outgoing` contains the bytes to send next; whoever sends some removes them."""

    def __init__(self) -> None:
        self.outgoing = bytearray()
        self.received = 0
        self.waiting = 0
        self._sent = 0
        self._unconfirmed: deque[tuple[int, Message]] = deque()
        self._incoming = bytearray()
        self._connected = False

    @property
    def settled(self) -> bool:
        return not self._unconfirmed

    def send(self, kind: bytes, data: bytes = b"") -> None:
        self._sent += 1
        self._unconfirmed.append((self._sent, Message(kind, data)))
        self.waiting += len(data)
        self._write(kind, self._sent, data)

    def alive(self) -> None:
        self._write(_ALIVE, 0)

    def connect(self, received: int) -> None:
        self.disconnect()
        self._confirm(received)
        self._connected = True
        for number, message in self._unconfirmed:
            self._write(message.kind, number, message.data)

    def disconnect(self) -> None:
        self._connected = False
        self.outgoing.clear()
        self._incoming.clear()

    def feed(self, data: bytes) -> list[Message]:
        """Raises `LinkError`, after which the connection must be given up."""
        self._incoming += data
        messages: list[Message] = []
        start = 0
        while len(self._incoming) - start >= _HEAD.size:
            kind, number, length = _HEAD.unpack_from(self._incoming, start)
            if length > MAX_MESSAGE:
                raise LinkError(f"a message of {length:,} bytes was announced")
            end = start + _HEAD.size + length
            if len(self._incoming) < end:
                break
            if kind in _NUMBERED:
                if number > self.received + 1:
                    raise LinkError("a message is missing")
                if number == self.received + 1:
                    self.received = number
                    messages.append(Message(kind, bytes(self._incoming[start + _HEAD.size : end])))
            elif kind == _RECEIVED:
                self._confirm(number)
            elif kind != _ALIVE:
                raise LinkError("something else was written to the wire")
            start = end
        del self._incoming[:start]
        if messages:
            self._write(_RECEIVED, self.received)
        return messages

    def _confirm(self, number: int) -> None:
        if number > self._sent:
            raise LinkError("a message was confirmed that was never sent")
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self.waiting -= len(self._unconfirmed.popleft()[1].data)

    def _write(self, kind: bytes, number: int, data: bytes = b"") -> None:
        if self._connected:
            self.outgoing += _HEAD.pack(kind, number, len(data)) + data
