"""Creates and closes the logger of a session."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from mahtab_tui.bus.prompt import PromptHandler
from mahtab_tui.bus.store_handler import Store, StoreHandler

NAME = "mahtab"


class BusLogger(logging.Logger):
    """A logger outside the process's logger tree, which passes every record to all its handlers in
    the same order.

    It has a `Manager` of its own, so that neither `logging.disable` nor `dictConfig` affects it and
    sessions do not mix. It does not look up the caller's line, which is not needed and costs more
    than all the rest, nor use the process's record factory.
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
        """Pass a record to all handlers. A record that a handler logs waits until all of them have
        had the current one."""
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

    def findCaller(
        self, stack_info: bool = False, stacklevel: int = 1
    ) -> tuple[str, int, str, str | None]:
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
    """Passes records of the process's logger ``mahtab`` to the newest open session."""

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
        """Restore the process's logger."""
        outer.removeHandler(self)
        self.close()
        level, outer.propagate = self._before
        outer.setLevel(level)


_BRIDGING = threading.Lock()


def _bridge() -> Bridge | None:
    return next(
        (handler for handler in logging.getLogger(NAME).handlers if isinstance(handler, Bridge)),
        None,
    )


def setup_logging(store: Store | None = None) -> tuple[logging.Logger, PromptHandler]:
    """Create a session's bus with the handler for the model's prompt and, if there is a store, the
    one that keeps the records.

    Until the bus is closed, `logging.getLogger("mahtab")` passes its records to the newest session.
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
    """Remove and close all handlers of a session's bus, the store included. A second call does
    nothing."""
    with _BRIDGING:
        bridge = _bridge()
        if bridge is not None and log in bridge.sessions:
            bridge.sessions.remove(log)
            if not bridge.sessions:
                bridge.remove(logging.getLogger(NAME))
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()
