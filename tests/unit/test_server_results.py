"""Value of a server's result, however it is made."""

from __future__ import annotations

import mcp_types as types
import pytest

from mahtab_tui.servers.schema import MOST_OUTSIDE_TEXTS, result_parts
from mahtab_tui.worker.frames import FrameError, check_bare


def test_slow_json_in_a_text_stays_a_text() -> None:
    long, short = f"[{'[1],' * 600_000}1]", "[[1],1]"
    result = types.CallToolResult(
        content=[types.TextContent(type="text", text=text) for text in (long, short)]
    )
    assert [part["kind"] for part in result_parts(result, None)] == ["text", "json"]


def test_texts_of_a_message_count_little_and_its_structure_counts_fully() -> None:
    check_bare(b'{"a": "' + b"[1]," * 2_000_000 + b'"}', MOST_OUTSIDE_TEXTS)
    with pytest.raises(FrameError):
        check_bare(b'{"a": [' + b"[1]," * 1_000_000 + b"1]}", MOST_OUTSIDE_TEXTS)
