"""A model's answer while it comes, as records to draw."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import emit
from mahtab_tui.bus.splitter import Piece, Splitter


class StreamingHandler:
    """Logs tokens as ``assistant-chat-stream``, with `attrs` and with ``kind`` and ``block``. What runs is for `parse_response` to say."""

    def __init__(self, log: logging.Logger, **attrs: Any) -> None:
        self._log = log
        self._attrs = attrs
        self._splitter = Splitter()

    def process_token(self, token: str) -> None:
        """Take the next token; it may be cut anywhere."""
        self._emit(self._splitter.feed(token))

    def anew(self) -> StreamingHandler:
        """The handler of an answer that comes in place of this one; what was logged of this one does not count any more."""
        emit(self._log, tags.ASSISTANT_CHAT_STREAM, **self._attrs, fresh=True)
        return StreamingHandler(self._log, **self._attrs)

    def flush(self) -> None:
        """The answer has ended: log what was held back."""
        self._emit(self._splitter.end())

    def _emit(self, pieces: Iterable[Piece]) -> None:
        for kind, block, text in pieces:
            emit(self._log, tags.ASSISTANT_CHAT_STREAM, text, **self._attrs, kind="code" if kind == "code" else "chat", block=block)
