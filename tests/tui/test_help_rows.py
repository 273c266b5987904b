"""The rows of the help, in a room of any width."""

from __future__ import annotations

import pytest

from mahtab_tui.tui.screens.help import HelpScreen


@pytest.mark.parametrize("width", [50, 74, 120])
def test_no_row_is_wider_than_its_room(width: int) -> None:
    rows = HelpScreen({})._content("", width).plain.split("\n")
    assert max(map(len, rows)) <= width
