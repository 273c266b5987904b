"""The logger of one session: its making and its end."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from mahtab_tui.bus.handlers import PromptHandler, Store, StoreHandler

NAME = "mahtab"


class BusLogger(logging.Logger):
    """A logger that belongs to no tree but its own, and hands every record to all its handlers in one order.

    With a `Manager` of its own neither `logging.disable` nor `dictConfig` reaches it, and two sessions do not mix. It does not look for
    the caller's line (nobody asks for it, and it costs more than all the rest), nor use the process's record factory.
    """

    def __init__(self) -> None:
        super().__init__(NAME, logging.INFO)
        self.propagate = False
        self.manager = logging.Manager(logging.RootLogger(logging.DEBUG))
        self.manager.loggerDict[NAME] = self
        self._order = threading.RLock()
        self._waiting: deque[logging.LogRecord] = deque()
        self._handing_on = False

    def handle(self, record: logging.LogRecord) -> None:
        """Hand a record on. One that a handler logs comes after the one that is being handled, for every handler."""
        with self._order:
            self._waiting.append(record)
            if self._handing_on:
                return
            self._handing_on = True
            try:
                while self._waiting:
                    super().handle(self._waiting.popleft())
            finally:
                self._handing_on = False

    def findCaller(self, stack_info: bool = False, stacklevel: int = 1) -> tuple[str, int, str, str | None]:
        return "", 0, "", None

    def makeRecord(
        self,
        name: str,
        level: int,
        fn: str,
        lno: int,
        msg: object,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        extra: Any = None,
        sinfo: str | None = None,
    ) -> logging.LogRecord:
        record = logging.LogRecord(name, level, fn, lno, msg, args, exc_info, func, sinfo)
        if extra:
            record.__dict__.update(extra)
        return record


class Bridge(logging.Handler):
    """Sits on the process's logger ``mahtab`` while sessions are open, and hands its records to the newest of them."""

    def __init__(self, outer: logging.Logger) -> None:
        super().__init__()
        self._before = (outer.level, outer.propagate)
        self.sessions: list[logging.Logger] = []
        outer.setLevel(logging.INFO)
        outer.propagate = False
        outer.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if self.sessions:
            self.sessions[-1].handle(record)

    def remove(self, outer: logging.Logger) -> None:
        """Leave the process's logger as it was found."""
        outer.removeHandler(self)
        self.close()
        level, outer.propagate = self._before
        outer.setLevel(level)


_BRIDGING = threading.Lock()


def _bridge() -> Bridge | None:
    return next((handler for handler in logging.getLogger(NAME).handlers if isinstance(handler, Bridge)), None)


def setup_logging(store: Store | None = None) -> tuple[logging.Logger, PromptHandler]:
    """A new session's bus, with what feeds the model's prompt and, where there is a store, what keeps the records.

    Until it is closed, `logging.getLogger("mahtab")` hands its records to the newest session.
    """
    log, prompt = BusLogger(), PromptHandler()
    if store is not None:
        log.addHandler(StoreHandler(store, log))
    log.addHandler(prompt)
    with _BRIDGING:
        bridge = _bridge() or Bridge(logging.getLogger(NAME))
        bridge.sessions.append(log)
    return log, prompt


def close_logging(log: logging.Logger) -> None:
    """End a session's bus: every handler is removed and closed, the store too. A second call does nothing."""
    with _BRIDGING:
        bridge = _bridge()
        if bridge is not None and log in bridge.sessions:
            bridge.sessions.remove(log)
            if not bridge.sessions:
                bridge.remove(logging.getLogger(NAME))
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()
