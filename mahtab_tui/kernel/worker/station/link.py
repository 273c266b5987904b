"""One end of a conversation that survives its wires: messages are numbered, kept until the other
end has them, and handled once.

It reads and writes nothing by itself. The host has one end, the station beside the kernel the
other.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

MAGIC = "mahtab-far-1"
"""The loader's first word. The number is of the protocol."""

FRAMES = b"f"
"""Bytes of the kernel's connection, either way."""
OUTPUT = b"o"
"""Bytes that the kernel has printed."""
AT = b"n"
"""The offset at which the next output was printed, in ASCII, where what lies before it is not there
any more."""
STORED = b"r"
"""The host has stored what was printed before an offset, in ASCII."""
SIGNAL = b"s"
"""A signal for the kernel and its children: its number, in ASCII."""
END = b"e"
"""The host says nothing more: the kernel ends, or goes on without it, as it was told before."""
EXITED = b"x"
"""The kernel's exit code, in ASCII."""
_RECEIVED = b"a"
"""How many messages this end has handled; the number is in the header."""
_ALIVE = b"p"
"""The wire carries something."""

LINK_PIECE = 65_536
"""Bytes that are read at a time, and so the usual length of a message."""
LONGEST = 2**20
"""Bytes of a message. A greater length means that something else was written to the wire."""

_HEAD = struct.Struct("!cQI")
_NUMBERED = frozenset((FRAMES, OUTPUT, AT, STORED, SIGNAL, END, EXITED))


class LinkError(ValueError):
    """Data came over the wire that is not part of this conversation."""


class Message(NamedTuple):
    """A message: its kind, and what it carries."""

    kind: bytes
    data: bytes


class Link:
    """One end. `outgoing` is what the wire has to carry next; whoever has written bytes of it
    removes them from its beginning."""

    def __init__(self) -> None:
        self.outgoing = bytearray()
        self.received = 0
        """How many messages of the other end were handled."""
        self.waiting = 0
        """Bytes of messages that the other end may not have."""
        self._sent = 0
        self._unconfirmed: deque[tuple[int, Message]] = deque()
        self._incoming = bytearray()
        self._connected = False

    @property
    def settled(self) -> bool:
        """Whether the other end has everything."""
        return not self._unconfirmed

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a message of at most `LONGEST` bytes, now or over the next wire."""
        self._sent += 1
        self._unconfirmed.append((self._sent, Message(kind, data)))
        self.waiting += len(data)
        if self._connected:
            self._write(kind, self._sent, data)

    def alive(self) -> None:
        if self._connected:
            self._write(_ALIVE, 0, b"")

    def connect(self, received: int) -> None:
        """Begin with a new wire. received: how many messages the other end says it has handled.
        Raises `LinkError`."""
        self.disconnect()
        self._confirmed(received)
        self._connected = True
        for number, message in self._unconfirmed:
            self._write(message.kind, number, message.data)

    def disconnect(self) -> None:
        """Forget the wire, and half messages with it."""
        self._connected = False
        self.outgoing.clear()
        self._incoming.clear()

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that these bytes complete. Raises `LinkError`, after which the wire
        must be given up."""
        self._incoming += data
        messages: list[Message] = []
        start, before = 0, self.received
        while len(self._incoming) - start >= _HEAD.size:
            kind, number, length = _HEAD.unpack_from(self._incoming, start)
            if length > LONGEST:
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
                self._confirmed(number)
            elif kind != _ALIVE:
                raise LinkError("something else was written to the wire")
            start = end
        del self._incoming[:start]
        if self.received > before:
            self._write(_RECEIVED, self.received, b"")
        return messages

    def _confirmed(self, number: int) -> None:
        if number > self._sent:
            raise LinkError("a message was confirmed that was never sent")
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self.waiting -= len(self._unconfirmed.popleft()[1].data)

    def _write(self, kind: bytes, number: int, data: bytes) -> None:
        self.outgoing += _HEAD.pack(kind, number, len(data)) + data
