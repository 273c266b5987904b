"""The link between a station and its host: numbered messages, which are sent again after a new
connection unless the other side has confirmed them."""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

MAGIC = "mahtab-far-1"
"""Sent by the loader, with the protocol's version."""

# Kinds of messages
FRAMES = b"f"
"""Bytes of frames, in either direction."""
OUTPUT = b"o"
"""Bytes that the kernel has printed."""
OFFSET = b"n"
"""The offset of the next output, if anything before it is no longer available."""
STORED = b"r"
"""The offset up to which the host has stored the output."""
SIGNAL = b"s"
"""The number of a signal for the kernel."""
END = b"e"
"""The host has gone."""
EXITED = b"x"
"""The exit code of the kernel."""
_RECEIVED = b"a"
"""Confirms all messages up to a number."""
_ALIVE = b"p"
"""Says only that a side is there."""

LINK_PIECE_BYTES = 65_536
"""Bytes that are read or written at once."""
MAX_MESSAGE_BYTES = 2**20
"""The largest data of a message."""

_HEAD = struct.Struct("!cQI")
"""The kind of a message, its number, and the length of its data in bytes."""
_NUMBERED = frozenset((FRAMES, OUTPUT, OFFSET, STORED, SIGNAL, END, EXITED))
"""Kinds of messages that are sent again until they are confirmed."""


class LinkError(ValueError):
    """The other side has sent a message that cannot come after the one before it."""


class Message(NamedTuple):
    """What one side has sent."""

    kind: bytes
    """One of the letters above, such as `FRAMES`."""
    data: bytes


class Link:
    """One side of the link. Any connection may end; the messages go on with the next one."""

    def __init__(self) -> None:
        self.outgoing = bytearray()
        """The bytes to send next; whoever sends some removes them."""
        self.received_number = 0
        """The number of the last message that came."""
        self.unconfirmed_bytes = 0
        """Bytes of the messages that are not confirmed."""
        self._sent_number = 0
        """The number of the last message that was sent."""
        self._unconfirmed: deque[tuple[int, Message]] = deque()
        """The messages that are not confirmed, with their numbers."""
        self._incoming = bytearray()
        """Bytes of the connection that are no complete message yet."""
        self._is_connected = False

    @property
    def is_settled(self) -> bool:
        """Whether the other side has confirmed everything."""
        return not self._unconfirmed

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a message now, or when there is a connection."""
        self._sent_number += 1
        self._unconfirmed.append((self._sent_number, Message(kind, data)))
        self.unconfirmed_bytes += len(data)
        self._write(kind, self._sent_number, data)

    def send_heartbeat(self) -> None:
        """Say only that this side is there, without a number."""
        self._write(_ALIVE, 0)

    def connect(self, received_number: int) -> None:
        """Begin to use a new connection.

        Args:
            received_number: Of the last message that the other side has.
        """
        self.disconnect()
        self._confirm(received_number)
        self._is_connected = True
        for number, message in self._unconfirmed:
            self._write(message.kind, number, message.data)

    def disconnect(self) -> None:
        """Keep messages until there is a connection."""
        self._is_connected = False
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
            if self._take_head(kind, number):
                messages.append(Message(kind, bytes(self._incoming[data_start:end])))
            start = end
        del self._incoming[:start]
        if messages:
            self._write(_RECEIVED, self.received_number)
        return messages

    def _take_head(self, kind: bytes, number: int) -> bool:
        """Note the head of a message; return whether it has data that did not come before."""
        if kind == _RECEIVED:
            self._confirm(number)
            return False
        if kind == _ALIVE:
            return False
        if kind not in _NUMBERED:
            raise LinkError("a message of an unknown kind arrived")
        if number > self.received_number + 1:
            raise LinkError("a message is missing")
        if number <= self.received_number:  # it was sent again
            return False
        self.received_number = number
        return True

    def _confirm(self, number: int) -> None:
        """Forget the messages up to this number: the other side has them."""
        if number > self._sent_number:
            raise LinkError("a message was confirmed that was never sent")
        while self._unconfirmed and self._unconfirmed[0][0] <= number:
            self.unconfirmed_bytes -= len(self._unconfirmed.popleft()[1].data)

    def _write(self, kind: bytes, number: int, data: bytes = b"") -> None:
        if self._is_connected:
            self.outgoing += _HEAD.pack(kind, number, len(data)) + data
