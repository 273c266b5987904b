"""A session over a store on which tests can wait for records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from mahtab_tui.bus.records import Record, UserReplOut
from mahtab_tui.session import Session
from mahtab_tui.store.sqlite import MemoryStore
from tests import tags
from tests.waiting import wait_for

DEADLINE = 60.0


class Watched(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def append(self, record: Record) -> None:
        with self._changed:
            super().append(record)
            self._changed.notify_all()

    def wait(self, tag: str, text: str | None = None, **attrs: Any) -> Record:
        """Wait for the first record of a tag with this text and these attributes."""

        def found() -> Record | None:
            wanted = (
                r
                for r in self.records
                if r.tag == tag and text in (None, r.text) and attrs.items() <= r.attrs.items()
            )
            return next(wanted, None)

        with self._changed:
            if not self._changed.wait_for(lambda: found() is not None, DEADLINE):
                raise AssertionError(
                    f"no {tag} {attrs} in {[(r.tag, r.attrs.get('state')) for r in self.records]}"
                )
            record = found()
        assert record is not None
        return record


class Opened:
    def __init__(self, session: Session, store: Watched) -> None:
        self.session = session
        self.store = store

    def run(self, *cells: str) -> UserReplOut:
        """Run cells of the user, and return the last one's output."""
        output = UserReplOut()
        for code in cells:
            number = self.session.cells.last + 1
            self.session.submit("python", code)
            ended = self.store.wait(tags.USER_REPL_OUT, cell=number)
            assert isinstance(ended, UserReplOut)
            output = ended
        wait_for(lambda: not self.session.cells.running)
        return output

    def ask_and_wait(self, question: str) -> None:
        turn = self.session.agent.last + 1
        self.session.submit("ask", question)
        self.store.wait(tags.AGENT, state="done", turn=turn)

    def value(self, expression: str) -> str:
        return self.session.cells.run(expression).output.strip()


def texts(it: Opened, tag: str) -> list[str]:
    return [record.text for record in it.store.records if record.tag == tag]


OpenSession = Callable[..., Opened]
