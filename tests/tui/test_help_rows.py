"""The rows of the help, in a room of any width."""

from __future__ import annotations

import pytest

from mahtab_tui.tui.screens.help import HelpScreen, help_rows


@pytest.mark.parametrize("width", [50, 74, 120])
def test_no_row_is_wider_than_its_room(width: int) -> None:
    rows = HelpScreen({})._content("", width).plain.split("\n")
    assert max(map(len, rows)) <= width


def test_help_begins_with_the_keys_that_everybody_needs_first() -> None:
    assert [keys for _, keys, _ in help_rows({})][:3] == ["enter", "tab", "`"]
    groups = [group for group, _, _ in help_rows({})]
    assert groups == sorted(groups, key=groups.index), "each group stands once"
