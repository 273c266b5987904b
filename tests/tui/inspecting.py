"""Helpers for tests of the inspector over a real kernel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.inspector.screen import InspectorScreen
from tests.tui.editor_app import screen_text, until
from tests.tui.screens_app import SessionScreensApp
from tests.tui.scripted_session import drawn

Inspect = Callable[..., AbstractAsyncContextManager[Pilot[int]]]


def inspector(pilot: Pilot[int]) -> InspectorScreen:
    assert isinstance(pilot.app.screen, InspectorScreen)
    return pilot.app.screen


def shown(pilot: Pilot[int], area: str) -> str:
    widget = f"#{'viewing' if area == 'status' else 'inspector'}-{area}"
    return str(inspector(pilot).query_one(widget, Static).content)


def lines(pilot: Pilot[int]) -> list[str]:
    return screen_text(pilot).splitlines()


def ran(pilot: Pilot[int]) -> list[str]:
    """Cells that the inspector has asked to run."""
    assert isinstance(pilot.app, SessionScreensApp)
    return pilot.app.requested_cells


async def cell(pilot: Pilot[int], code: str) -> str:
    """Run a cell, and return its output."""
    assert isinstance(pilot.app, MahtabApp | SessionScreensApp)
    return (await asyncio.to_thread(pilot.app.session.cells.run, code)).output


async def exported(pilot: Pilot[int], following_code: str) -> str:
    """Wait for the cell that the inspector runs, and run it with more code."""
    await until(pilot, lambda: bool(ran(pilot)))
    (export,) = ran(pilot)
    return await cell(pilot, f"{export}\n{following_code}")


async def look(pilot: Pilot[int], code: str, name: str) -> None:
    app = pilot.app
    if isinstance(app, MahtabApp):
        await drawn(pilot)
        await asyncio.to_thread(app.session.start_kernel)
    await cell(pilot, code)
    assert isinstance(app, MahtabApp | SessionScreensApp)
    await app.push_screen(InspectorScreen(name, app.session.open_inspector()))
    await until(pilot, lambda: bool(shown(pilot, "status")))


@asynccontextmanager
async def looking_at(
    app: MahtabApp | SessionScreensApp, code: str, name: str, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        await look(pilot, code, name)
        yield pilot


async def reads(pilot: Pilot[int], *expected_texts: str) -> None:
    try:
        await until(pilot, lambda: all(part in screen_text(pilot) for part in expected_texts))
    except AssertionError:
        raise AssertionError(f"{expected_texts} not shown in time: {screen_text(pilot)}") from None
