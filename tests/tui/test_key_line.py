"""The line of keys at the bottom."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.widgets._footer import FooterKey

from mahtab_tui.tui.app import MahtabApp
from tests.tui.story import drawn, story


async def test_no_key_is_styled_again_once_it_stands(make_app: Callable[..., MahtabApp], monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[FooterKey] = []
    monkeypatch.setattr(FooterKey, "update_node_styles", lambda key, animate=True: again.append(key))
    app = make_app(*story())
    async with app.run_test() as pilot:
        await drawn(pilot)
        assert len(app.query(FooterKey)) > 5
    assert not again
