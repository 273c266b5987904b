"""Cancellation tokens and results of the callers of a search."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from mahtab_tui.kernel.worker.answers import Result, SearchUsage
from mahtab_tui.llm.spending import UsageStats
from mahtab_tui.sandbox.text import TextSpan
from mahtab_tui.search.live import EndState
from mahtab_tui.search.log import KeptLog


class SearchAnswer(NamedTuple):
    """The answer of a search."""

    text: str
    """The answer, or a sentence saying why there is none."""
    state: EndState
    tree: str
    usage: UsageStats
    duration: float
    """Seconds."""
    spans: Sequence[TextSpan] = ()
    """Spans of the text on which the answer rests."""
    why: str = ""
    """A sentence saying why it is partial."""
    log: KeptLog | None = None
    """Its events; None if it did not start."""

    def as_result(self, text: str) -> Result:
        """Return it for the caller. text: the answer as the caller gets it."""
        used = SearchUsage(
            self.usage.calls,
            self.usage.input_tokens + self.usage.output_tokens,
            self.usage.cost,
            self.duration,
        )
        return Result(
            text,
            self.state == "partial",
            self.why,
            used,
            tuple((start, end) for start, end in self.spans),
            self.packed,
        )

    def packed(self) -> bytes:
        """Return its log as `worker.search_log.unpacked` reads it."""
        return b"" if self.log is None else self.log.packed()


class Caller:
    """Somebody who waits for a search, and whom another thread may make give up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._future: Future[SearchAnswer] | None = None
        self._stopped = False

    def waits_for(self, future: Future[SearchAnswer]) -> None:
        """Note what the caller waits for now."""
        with self._lock:
            self._future = future
            if self._stopped:
                future.cancel()

    def stop(self) -> None:
        """Stop the search for which the caller waits, and all that it would start."""
        with self._lock:
            self._stopped = True
            if self._future is not None:
                self._future.cancel()
