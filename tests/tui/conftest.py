"""Fixtures of the whole application over records."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from textual import strip
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.filter import LineFilter
from textual.geometry import Region
from textual.notifications import Notification
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input, TextArea

from mahtab_tui.bus.records import Record
from mahtab_tui.settings.model import load_settings
from mahtab_tui.store.input_history import History
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.terminal_driver import StdioRedirect, TextOnly
from tests.tui.contrast import find_faults
from tests.tui.inspecting import Inspect, looking_at
from tests.tui.screens_app import SessionScreensApp
from tests.tui.scripted_session import MakeApp, ScriptedSession


@pytest.fixture(autouse=True)
def still_cursors(monkeypatch: pytest.MonkeyPatch) -> None:
    for widget in (TextArea, Input):
        monkeypatch.setattr(vars(widget)["cursor_blink"], "_default", False)


@pytest.fixture(autouse=True)
def world_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def lasting_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notification, "time_left", 3600.0)


@pytest.fixture(autouse=True, scope="session")
def sheets_parsed_once() -> Iterator[None]:
    """Parse each style sheet once for all applications, and hash rules by identity."""
    parse = Stylesheet._parse_rules
    parsed_sheets: dict[object, list[RuleSet]] = {}

    def once(sheet: Stylesheet, *arguments: Any, **named: Any) -> list[RuleSet]:
        key = arguments, *named.items(), *sheet._variables.items()
        if key not in parsed_sheets:
            parsed_sheets[key] = parse(sheet, *arguments, **named)
        return parsed_sheets[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", once)
        patch.setattr(RuleSet, "__hash__", object.__hash__)
        yield


class _NoCache(dict[object, object]):
    def __setitem__(self, key: object, value: object) -> None:
        """Stay empty."""


@pytest.fixture(autouse=True, scope="session")
def strips_without_caches() -> Iterator[None]:
    """Make no caches for lines that are drawn once or twice: they cost a sixth of a test's time."""
    empty = _NoCache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strip, "FIFOCache", lambda maxsize: empty)
        yield


@pytest.fixture(autouse=True)
def lines_only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw lines but no whole screens, which cost a fifth of a test's time, unless the test is
    marked `terminal`."""
    if request.node.get_closest_marker("terminal"):
        return
    update = Compositor.render_update
    filters = Widget.get_line_filters
    unseen = False

    def render_update(compositor: Compositor, full: bool = False, **options: Any) -> Any:
        nonlocal unseen
        if full:
            return update(compositor, full, **options)
        visible_screen_stack.set(options.get("screen_stack") or [])
        changed = list(compositor._dirty_regions)
        unseen = True
        compositor._dirty_regions.clear()
        try:
            if changed:
                visible = Region.from_union(changed).intersection(compositor.size.region)
                list(compositor._get_renders(visible))
        finally:
            unseen = False
        return None

    def get_line_filters(widget: Widget) -> Sequence[LineFilter]:
        line_filters = filters(widget)
        if not unseen:
            return line_filters
        return [line_filter for line_filter in line_filters if isinstance(line_filter, TextOnly)]

    monkeypatch.setattr(Compositor, "render_update", render_update)
    monkeypatch.setattr(Widget, "get_line_filters", get_line_filters)


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool]) -> Callable[..., bool]:
    """Compare pictures as the plugin does. Each screen must be readable in all of our themes, too."""
    compare_picture = snap_compare

    def compare(
        app: App[Any], *, run_before: Callable[..., Any] | None = None, **options: Any
    ) -> bool:
        faults: list[str] = []

        async def read_screen(pilot: Pilot[Any]) -> None:
            if run_before is not None:
                await run_before(pilot)
            faults.extend(await find_faults(pilot))

        is_same = compare_picture(app, run_before=read_screen, **options)
        assert not faults, "\n".join(faults)
        return is_same

    return compare


@pytest.fixture
def make_app(project: Path, home: Path) -> Iterator[MakeApp]:
    """Make applications over sessions that were never started."""
    sessions: list[ScriptedSession] = []

    def make(*records: Record, theme: str = "mahtab", kernel: str | None = None) -> MahtabApp:
        session = ScriptedSession(load_settings(model="demo", theme=theme, kernel=kernel), records)
        sessions.append(session)
        app = MahtabApp(
            session, StdioRedirect(lambda text: None), History(home / "history.db", str(project))
        )
        app.animation_level = "none"
        app.settings.keymap = {}
        return app

    yield make
    for session in sessions:
        session.close()


@pytest.fixture
def app(make_app: MakeApp) -> MahtabApp:
    return make_app()


@pytest.fixture
async def pilot(app: MahtabApp) -> AsyncIterator[Pilot[int]]:
    async with app.run_test() as pilot:
        await pilot.pause()
        yield pilot


@pytest.fixture(scope="module")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedSession]:
    """A session with a kernel, for all tests of a module."""
    with contextlib.chdir(tmp_path_factory.mktemp("inspected")):
        session = ScriptedSession(load_settings(model="demo"), [])
        session.start_kernel()
    yield session
    session.close()


@pytest.fixture
def inspect(inspected: ScriptedSession) -> Inspect:
    """Open the inspector, given code, a name and a size, over a shared session."""
    return lambda *arguments: looking_at(SessionScreensApp(inspected), *arguments)


@pytest.fixture
def user_config(home: Path) -> Path:
    path = home / ".mahtab" / "config.toml"
    path.parent.mkdir()
    path.write_text(
        '# Mine\nmax_turns = 9\nsub_model = "demo"\n\n[keymap]\nhelp = "f11"\n[api_keys]\nopenai = "sk-secret"\n'
    )
    return path


@pytest.fixture
def may_write(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    allowed = threading.Event()
    fsync = os.fsync

    def slow(handle: int) -> None:
        allowed.wait(60)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", slow)
    return allowed


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    opened_log = tmp_path / "shown"
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / ("open" if sys.platform == "darwin" else "xdg-open")
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened_log}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("WSL_DISTRO_NAME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return opened_log
