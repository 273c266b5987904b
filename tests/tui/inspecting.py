"""The inspector over a real kernel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.inspector.screen import InspectorScreen
from tests.tui.editor_app import screen_text, until
from tests.tui.screens_app import SessionScreensApp
from tests.tui.story import drawn

MakeApp = Callable[..., MahtabApp | SessionScreensApp]


def inspector(pilot: Pilot[int]) -> InspectorScreen:
    assert isinstance(pilot.app.screen, InspectorScreen)
    return pilot.app.screen


def shown(pilot: Pilot[int], part: str) -> str:
    whose = "viewing" if part == "status" else "inspector"
    return str(inspector(pilot).query_one(f"#{whose}-{part}", Static).content)


def lines(pilot: Pilot[int]) -> list[str]:
    return screen_text(pilot).splitlines()


def ran(app: App[int]) -> list[str]:
    cells: list[str] = app.__dict__.setdefault("cells_of_inspector", [])
    return cells


async def look(pilot: Pilot[int], code: str, name: str) -> None:
    app = pilot.app
    if isinstance(app, MahtabApp):
        await drawn(pilot)
        await asyncio.to_thread(app.session.start_kernel)
    assert isinstance(app, MahtabApp | SessionScreensApp)
    await asyncio.to_thread(app.session.cells.run, code)
    await app.push_screen(InspectorScreen(name, app.session.open_inspector(), ran(app).append))
    await until(pilot, lambda: bool(shown(pilot, "status")))


@asynccontextmanager
async def looking_at(
    app: MahtabApp | SessionScreensApp, code: str, name: str, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[Pilot[int]]:
    async with app.run_test(size=size) as pilot:
        await look(pilot, code, name)
        yield pilot


async def reads(pilot: Pilot[int], *wanted: str) -> None:
    def there() -> bool:
        return all(part in "\n".join(lines(pilot)) for part in wanted)

    try:
        await until(pilot, there)
    except AssertionError:
        raise AssertionError(f"{wanted} did not come: " + "\n".join(lines(pilot))) from None
