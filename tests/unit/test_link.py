"""Messages of a conversation that survives its wires are handled once, in order, whatever the wires
do."""

from __future__ import annotations

import pytest

from mahtab_tui.worker.station.kernel import FRAMES, Link, LinkError


def test_duplicate_frames_are_handled_once() -> None:
    here, there = Link(), Link()
    here.connect(0)
    there.connect(0)
    here.send(FRAMES, b"one")
    data = bytes(here.outgoing)
    assert [message.data for message in there.feed(data + data)] == [b"one"]


def test_undelivered_frames_are_sent_over_the_next_connection() -> None:
    here, there = Link(), Link()
    here.connect(0)
    there.connect(0)
    for data in (b"one", b"two"):
        here.send(FRAMES, data)
    first = there.feed(bytes(here.outgoing[:20]))
    there.disconnect()
    there.connect(0)
    here.connect(there.received)
    assert [message.data for message in [*first, *there.feed(bytes(here.outgoing))]] == [
        b"one",
        b"two",
    ]


def test_missing_message_closes_the_connection() -> None:
    here, there = Link(), Link()
    here.connect(0)
    here.send(FRAMES, b"one")
    here.outgoing.clear()
    here.send(FRAMES, b"two")
    with pytest.raises(LinkError, match="missing"):
        there.feed(bytes(here.outgoing))
