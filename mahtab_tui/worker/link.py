"""The link between a remote kernel's station and its host, which survives broken connections.

It does no input or output. The host has one end, the station the other.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

MAGIC = "mahtab-far-1"
"""The first word sent by the loader. The number is the version of the protocol."""

FOLDER = "~/.mahtab/elsewhere"

FRAMES = b"f"
"""Bytes of the kernel's connection, in either direction."""
OUTPUT = b"o"
"""Bytes printed by the kernel."""
OFFSET = b"n"
"""The offset at which the next output was printed, in ASCII, if anything before it is no longer
available."""
STORED = b"r"
"""The offset up to which the host has stored the output, in ASCII."""
SIGNAL = b"s"
"""A signal for the kernel and its children: its number, in ASCII."""
END = b"e"
"""The host has gone. The kernel ends, or continues without it, as chosen by the host."""
EXITED = b"x"
"""The kernel's exit code, in ASCII."""
_RECEIVED = b"a"
"""The number of messages handled by this end, which is in the header."""
_ALIVE = b"p"

LINK_PIECE = 65_536
"""Bytes to read at a time, and so the usual length of a message."""
MAX_MESSAGE = 2**20
"""Maximum bytes of a message. A greater length means that something else was written to the
connection."""

_HEAD = struct.Struct("!cQI")
_NUMBERED = frozenset((FRAMES, OUTPUT, OFFSET, STORED, SIGNAL, END, EXITED))


class LinkError(ValueError):
    """Received data that is not part of the protocol."""


class Message(NamedTuple):
    kind: bytes
    data: bytes


class Link:
    """One end of a link. `outgoing` contains the bytes to send next; whoever sends some of them
    removes them from its start."""

    def __init__(self) -> None:
        self.outgoing = bytearray()
        self.received = 0
        self.waiting = 0
        """Bytes of messages that the other end may not have received."""
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
        """Use a new connection. received: how many messages the other end has handled."""
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
        """Return the messages completed by these bytes. Raises `LinkError`, after which the
        connection must be given up."""
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
