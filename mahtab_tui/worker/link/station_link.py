"""The link between a station and its host: numbered messages, which are sent again after a new
connection unless the other side has confirmed them."""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

MAGIC = "mahtab-far-1"
"""Sent by the loader, with the protocol's version."""
FOLDER = "~/.mahtab/elsewhere"
"""Where the variables of remote kernels are saved."""

# Kinds of messages
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
"""The exit code of the kernel."""
_RECEIVED = b"a"
"""Confirms all messages up to a number."""
_ALIVE = b"p"

LINK_PIECE_BYTES = 65_536
"""Bytes that are read or written at once."""
MAX_MESSAGE_BYTES = 2**20

_HEAD = struct.Struct("!cQI")
"""The kind of a message, its number, and the length of its data in bytes."""
_NUMBERED = frozenset((FRAMES, OUTPUT, OFFSET, STORED, SIGNAL, END, EXITED))


class LinkError(ValueError):
    """The other side wrote what does not follow from what came before."""


class Message(NamedTuple):
    kind: bytes
    """One of the letters above, such as `FRAMES`."""
    data: bytes


class Link:
    """One side of the link. Any connection may end; the messages go on with the next one."""

    def __init__(self) -> None:
        self.outgoing = bytearray()
        """The bytes to send next; whoever sends some removes them."""
        self.received = 0
        """The number of the last message that came."""
        self.waiting = 0
        """Bytes of the messages that are not confirmed."""
        self._sent = 0
        """The number of the last message that was sent."""
        self._unconfirmed: deque[tuple[int, Message]] = deque()
        self._incoming = bytearray()
        """Bytes of the connection that are no complete message yet."""
        self._connected = False

    @property
    def settled(self) -> bool:
        """Whether the other side has confirmed everything."""
        return not self._unconfirmed

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a message now, or when there is a connection."""
        self._sent += 1
        self._unconfirmed.append((self._sent, Message(kind, data)))
        self.waiting += len(data)
        self._write(kind, self._sent, data)

    def alive(self) -> None:
        """Say only that this side is there."""
        self._write(_ALIVE, 0)

    def connect(self, received: int) -> None:
        """Begin to use a new connection. received: the last message that the other side has."""
        self.disconnect()
        self._confirm(received)
        self._connected = True
        for number, message in self._unconfirmed:
            self._write(message.kind, number, message.data)

    def disconnect(self) -> None:
        """Keep messages until there is a connection."""
        self._connected = False
        self.outgoing.clear()
        self._incoming.clear()

    def feed(self, data: bytes) -> list[Message]:
        """Take bytes of the connection, and return the messages that are complete and new.

        Raises:
            LinkError: the connection must be given up.
        """
        self._incoming += data
        messages: list[Message] = []
        start = 0
        while len(self._incoming) - start >= _HEAD.size:
            kind, number, length = _HEAD.unpack_from(self._incoming, start)
            if length > MAX_MESSAGE_BYTES:
                raise LinkError(f"a message of {length:,} bytes was announced")
            data_start = start + _HEAD.size
            end = data_start + length
            if len(self._incoming) < end:
                break
            if self._is_new(kind, number):
                messages.append(Message(kind, bytes(self._incoming[data_start:end])))
            start = end
        del self._incoming[:start]
        if messages:
            self._write(_RECEIVED, self.received)
        return messages

    def _is_new(self, kind: bytes, number: int) -> bool:
        """Note the head of a message; return whether it has data that did not come before."""
        if kind == _RECEIVED:
            self._confirm(number)
            return False
        if kind == _ALIVE:
            return False
        if kind not in _NUMBERED:
            raise LinkError("something else was written to the wire")
        if number > self.received + 1:
            raise LinkError("a message is missing")
        if number <= self.received:  # it was sent again
            return False
        self.received = number
        return True

    def _confirm(self, number: int) -> None:
        """Forget the messages up to this number: the other side has them."""
        if number > self._sent:
            raise LinkError("a message was confirmed that was never sent")
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self.waiting -= len(self._unconfirmed.popleft()[1].data)

    def _write(self, kind: bytes, number: int, data: bytes = b"") -> None:
        if self._connected:
            self.outgoing += _HEAD.pack(kind, number, len(data)) + data
