"""The answer of a search, and how the wait for it is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.usage import UsageStats
from mahtab_tui.sandbox.searched_text import TextSpan
from mahtab_tui.search.logs import SearchLog
from mahtab_tui.search.nodes import EndState
from mahtab_tui.worker.rlm.answers import Result, SearchUsage


class SearchAnswer(NamedTuple):
    """The answer of a search, and how it came about."""

    text: str
    """The answer, or a sentence saying why there is none."""
    state: EndState
    tree: str
    """Id of the search; empty if the wait for it was cancelled."""
    usage: UsageStats
    """Usage of the tree, including that of its earlier queries."""
    duration: float
    """In seconds."""
    spans: Sequence[TextSpan] = ()
    """Places of the text on which the answer rests."""
    why: str = ""
    """A sentence saying why it is partial, or how the text was searched."""
    log: SearchLog | None = None

    def as_result(self, *, raw: bool = False) -> Result:
        """Return the answer as code gets it.

        Args:
            raw: Whether control characters stay in its text.
        """
        usage = SearchUsage(self.usage.calls, self.usage.tokens, self.usage.cost, self.duration)
        is_partial = self.state == "partial"
        text = self.text if raw else plain(self.text)
        return Result(text, is_partial, self.why, usage, tuple(self.spans), self.packed)

    def packed(self) -> bytes:
        """Return the search's log for storing; empty if there is none."""
        return b"" if self.log is None else self.log.packed()


class CancelToken:
    """Lets another thread cancel a caller's wait for a search."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._future: Future[SearchAnswer] | None = None
        self._stopped = False

    def attach(self, future: Future[SearchAnswer]) -> None:
        """Set the future that `stop` cancels; it is cancelled at once after a `stop`."""
        with self._lock:
            self._future = future
            if self._stopped:
                future.cancel()

    def stop(self) -> None:
        """Cancel the wait, also one that has not begun."""
        with self._lock:
            self._stopped = True
            if self._future is not None:
                self._future.cancel()
