"""A session that agents can join, without a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mahtab_tui.bus.records import Record
from mahtab_tui.kernel.process import ProcessKernel
from mahtab_tui.session import Session
from mahtab_tui.session.frontend import HeadlessFrontend
from mahtab_tui.session.sharing import ShareServer
from mahtab_tui.settings.model import load_settings
from tests.integration.sessions import Opened, Watched


class Shared(Opened):
    def __init__(self, session: Session, store: Watched, server: ShareServer) -> None:
        super().__init__(session, store)
        self.server = server


Share = Callable[..., Shared]


async def waited(it: Shared, tag: str, **attrs: Any) -> Record:
    """Wait for the first record of a tag with these attributes."""
    return await anyio.to_thread.run_sync(lambda: it.store.wait(tag, **attrs))


@pytest.fixture
def share(project: Path) -> Iterator[Share]:
    opened: list[Shared] = []

    def open_it(
        approval: str = "auto", kernel: ProcessKernel | None = None, **settings: object
    ) -> Shared:
        store = Watched()
        session = Session(
            load_settings(model="demo", approval=approval, **settings),
            kernel or ProcessKernel(),
            HeadlessFrontend(),
            store=store,
            name="moon",
        )
        server = ShareServer(session, project)
        server.start()
        shared = Shared(session, store, server)
        opened.append(shared)
        session.start()
        return shared

    yield open_it
    for opened_share in opened:
        opened_share.server.close()
        opened_share.session.close()
