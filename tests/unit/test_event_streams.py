"""Streams of events, in pieces as a connection delivers them."""

from __future__ import annotations

import pytest

from mahtab_tui.llm.event_streams import read_events, read_lines

STREAM = b"data: 1\r\ndata: 2\r\n\r\ndata: 3\r\n\r\n"


@pytest.mark.parametrize("position", range(len(STREAM)))
def test_lines_do_not_depend_on_where_the_stream_is_cut(position: int) -> None:
    pieces = [STREAM[:position], b"", STREAM[position:]]
    assert [event.data for event in read_events(read_lines(pieces))] == [b" 1\n 2", b" 3"]
