"""A model's answer while it comes, as records to draw."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mahtab_tui.bus.records import AssistantChatStream, emit
from mahtab_tui.bus.splitter import Piece, Splitter


class StreamingHandler:
    """Logs tokens as ``assistant-chat-stream`` of one answer. What runs is for `parse_response` to say."""

    def __init__(self, log: logging.Logger, turn: int | None = None, step: int | None = None, party: str | None = None) -> None:
        self._log = log
        self._answer = AssistantChatStream(turn=turn, step=step, party=party)
        self._splitter = Splitter()

    def process_token(self, token: str) -> None:
        """Take the next token; it may be cut anywhere."""
        self._emit(self._splitter.feed(token))

    def anew(self) -> StreamingHandler:
        """The handler of an answer that comes in place of this one; what was logged of this one does not count any more."""
        emit(self._log, self._answer.changed(fresh=True))
        return StreamingHandler(self._log, self._answer.turn, self._answer.step, self._answer.party)

    def flush(self) -> None:
        """The answer has ended: log what was held back."""
        self._emit(self._splitter.end())

    def _emit(self, pieces: Iterable[Piece]) -> None:
        for kind, block, text in pieces:
            emit(self._log, self._answer.changed(text=text, kind="code" if kind == "code" else "chat", block=block))
