"""A session's own logger."""

from __future__ import annotations

import contextlib
import logging
import threading

from mahtab_tui.bus import tags
from mahtab_tui.bus.handlers import PromptHandler, Store, StoreHandler
from mahtab_tui.bus.records import emit

NAME = "mahtab"

_lock = threading.Lock()
_open: list[logging.Logger] = []


class _Bridge(logging.Handler):
    """Hands what goes to ``logging.getLogger("mahtab")`` to the session that is current."""

    def emit(self, record: logging.LogRecord) -> None:
        with _lock:
            current = _open[-1] if _open else None
        if current is not None:
            current.handle(record)


_bridge = _Bridge()


def setup_logging(store: Store | None = None) -> tuple[logging.Logger, PromptHandler]:
    """A logger of a session's own, with a manager of its own, so that no other session and no configuration of the process's logging
    reaches it; and the handler that collects what the model is told."""
    manager = logging.Manager(logging.RootLogger(logging.WARNING))
    log = manager.getLogger(NAME)
    log.setLevel(logging.INFO)
    log.propagate = False
    prompt = PromptHandler()
    log.addHandler(prompt)
    if store is not None:
        log.addHandler(StoreHandler(store, lambda text: emit(log, tags.NOTICE, text, level="error")))
    with _lock:
        _open.append(log)
        shared = logging.getLogger(NAME)
        if _bridge not in shared.handlers:
            shared.addHandler(_bridge)
            shared.propagate = False
    return log, prompt


def close_logging(log: logging.Logger) -> None:
    """Close every handler of a session's logger; nothing is left behind."""
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()
    with _lock:
        with contextlib.suppress(ValueError):
            _open.remove(log)
        if not _open:
            shared = logging.getLogger(NAME)
            shared.removeHandler(_bridge)
            shared.propagate = True
