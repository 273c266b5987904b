"""Joins small pieces of output before they are passed on."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterable

MAX_CHUNK_CHARS = 8192
"""Characters of output after which a chunk is passed on."""
CHUNK_DELAY_S = 0.05
"""Seconds between chunks, unless the output is fast."""


class Chunks:
    """Decodes output and joins small pieces, so that a listener is not called for each."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        """
        Args:
            on_text: Gets the joined text.
        """
        self._on_text = on_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending: list[str] = []
        self._pending_chars = 0
        self._flushed_at = 0.0
        """When (`time.monotonic`) text was passed on last."""

    def feed(self, data: bytes) -> None:
        """Add printed bytes, in UTF-8; a character may be in two calls."""
        if text := self._decoder.decode(data):
            self.add(text)

    def feed_all(self, output: Iterable[bytes]) -> None:
        """Add printed bytes piece by piece."""
        for data in output:
            self.feed(data)

    def add(self, text: str) -> None:
        """Add printed text, and pass it on if there is enough of it or the last was long ago."""
        self._pending.append(text)
        self._pending_chars += len(text)
        if self._pending_chars >= MAX_CHUNK_CHARS or self.wait() == 0:
            self.flush()

    def wait(self) -> float | None:
        """Return the seconds after which to call `flush`; None if nothing is pending."""
        if not self._pending:
            return None
        return max(0.0, self._flushed_at + CHUNK_DELAY_S - time.monotonic())

    def flush(self) -> None:
        """Pass on what is pending."""
        text = "".join(self._pending)
        self._pending.clear()
        self._pending_chars = 0
        if text:
            self._on_text(text)
            self._flushed_at = time.monotonic()

    def end(self) -> None:
        """Pass on everything, even an incomplete character."""
        self._pending.append(self._decoder.decode(b"", final=True))
        self.flush()
