"""Messages to a kernel that does not read: nobody waits, and the order stays."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from mahtab_tui.kernel.requests import LIMIT, OutgoingFullError, SendQueue
from tests.waiting import wait_for

MEGABYTE = 2**20


@pytest.fixture
def ends() -> Iterator[tuple[SendQueue, socket.socket]]:
    """The host's side, and the kernel's end of the socket."""
    ours, theirs = socket.socketpair()
    outgoing = SendQueue(ours)
    yield outgoing, theirs
    theirs.close()
    outgoing.close()


def read(end: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += end.recv(MEGABYTE)
    return bytes(data)


def senders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mahtab-outgoing"]


@pytest.mark.timeout(60)
def test_messages_wait_for_the_kernel_and_arrive_in_order(
    ends: tuple[SendQueue, socket.socket],
) -> None:
    outgoing, kernel = ends
    messages = [bytes([number]) * MEGABYTE for number in range(20)]
    for message in messages:
        outgoing.send(message)
    assert read(kernel, 20 * MEGABYTE) == b"".join(messages)
    wait_for(lambda: not senders())
    outgoing.send(b"after that")
    assert not senders(), "what the socket takes at once needs no thread"
    assert read(kernel, 10) == b"after that"


@pytest.mark.timeout(60)
def test_backlog_is_limited_except_for_one_large_message(
    ends: tuple[SendQueue, socket.socket],
) -> None:
    outgoing, kernel = ends
    outgoing.send(bytes(2 * LIMIT))
    with pytest.raises(OutgoingFullError):
        outgoing.send(b"too much")
    assert len(read(kernel, 2 * LIMIT)) == 2 * LIMIT
    wait_for(lambda: not senders())
    outgoing.send(b"now there is room")
    assert read(kernel, 17) == b"now there is room"


@pytest.mark.timeout(60)
def test_closing_drops_what_waits_and_leaves_no_thread(
    ends: tuple[SendQueue, socket.socket],
) -> None:
    outgoing, _ = ends
    outgoing.send(bytes(10 * MEGABYTE))
    assert senders()
    outgoing.close()
    assert not senders()
    outgoing.send(b"nobody hears this")


@pytest.mark.timeout(60)
def test_kernel_exit_with_pending_messages_is_no_error(
    ends: tuple[SendQueue, socket.socket],
) -> None:
    outgoing, kernel = ends
    outgoing.send(bytes(10 * MEGABYTE))
    kernel.close()
    wait_for(lambda: not senders())
    outgoing.send(b"nobody hears this")
