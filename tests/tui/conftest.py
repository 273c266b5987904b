"""The whole application over records, for tests."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.face import NoFace
from mahtab_tui.settings import load_settings
from mahtab_tui.store.history import History
from mahtab_tui.tui.app import MahtabApp
from mahtab_tui.tui.guard import ScreenGuard


@pytest.fixture
def make_app(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., MahtabApp]]:
    """The application over a session that was never started: nothing in the picture depends on a clock or a machine."""
    sessions: list[Session] = []

    def make(*records: Record, theme: str = "mahtab") -> MahtabApp:
        session = Session(load_settings(model="demo", theme=theme), ProcessKernel, NoFace(), name="sales-march")
        sessions.append(session)

        def tell() -> None:
            for record in records:
                # Changed rows fade with time: the namespace is an old one. What waits must not be: an old question waits no longer.
                created = 1.0 if record.tag == tags.NAMESPACE else time.time()
                logged = {"msg": record.text, "tag": record.tag, "attrs": record.attrs, "created": created, "levelno": logging.INFO}
                session.log.handle(logging.makeLogRecord(logged))

        monkeypatch.setattr(session, "start", tell)
        app = MahtabApp(session, ScreenGuard(lambda text: None), History(home / "history.db", str(project)))
        app.animation_level = "none"
        return app

    yield make
    for session in sessions:
        session.close()
