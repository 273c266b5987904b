"""The inspector over a real kernel, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.pilot import Pilot
from textual.widgets import Static

from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.screens.inspector import InspectorScreen
from tests.tui.editor_app import until
from tests.tui.story import drawn

MakeApp = Callable[..., MahtabApp]


def inspector(pilot: Pilot[int]) -> InspectorScreen:
    """The screen."""
    assert isinstance(pilot.app.screen, InspectorScreen)
    return pilot.app.screen


def shown(pilot: Pilot[int], part: str) -> str:
    """What a line of the screen says: crumbs, facts, tabs or status."""
    return str(inspector(pilot).query_one(f"#inspector-{part}", Static).content)


def lines(pilot: Pilot[int]) -> list[str]:
    """The lines of the view that is seen."""
    view = inspector(pilot).view
    assert view is not None
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


async def look(pilot: Pilot[int], code: str, name: str) -> None:
    """Run a cell in a real kernel, open a variable, and wait until its view stands."""
    app = pilot.app
    assert isinstance(app, MahtabApp)
    await drawn(pilot)
    await asyncio.to_thread(app.session.kernel.start)
    await asyncio.to_thread(app.session.cells.run, code)
    await app.push_screen(InspectorScreen(name, app.session.look()))
    await until(pilot, lambda: bool(shown(pilot, "status")))


async def reads(pilot: Pilot[int], *wanted: str) -> None:
    """Wait until all of these are in the view or in the line below it."""

    def there() -> bool:
        view = inspector(pilot).view
        text = "\n".join([*(lines(pilot) if view is not None and view.size else []), shown(pilot, "status"), shown(pilot, "crumbs")])
        return all(part in text for part in wanted)

    await until(pilot, there)
