"""Helpers for the approval row: questions to it, and its texts."""

from __future__ import annotations

from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui.widgets.approval_row import ApprovalRow
from tests import tags
from tests.tui.editor_app import app_of

CODE = "x = 1\nx"


def row_of(pilot: Pilot[None]) -> ApprovalRow:
    return pilot.app.query_one(ApprovalRow)


def about(pilot: Pilot[None]) -> str:
    return str(pilot.app.query_one("#about", Static).content)


async def ask(
    pilot: Pilot[None],
    code: str = CODE,
    request: str = "1",
    *,
    accept_keys: bool = True,
    block: int = 0,
    blocks: int = 1,
) -> None:
    """Code waits; unless told otherwise until the row hears."""
    app_of(pilot).fold(
        tags.APPROVAL,
        code,
        request=request,
        turn=1,
        block=block,
        blocks=blocks,
        state="waiting",
        reason="",
        party="claude",
    )
    await pilot.pause()
    if accept_keys:
        app_of(pilot).clock.now += 1


def decided(
    action: str,
    code: str | None = None,
    reason: str = "",
    request: str = "1",
    rules: tuple[str, ...] = (),
) -> tuple[object, ...]:
    return ("decided", request, action, code, reason, rules)
