"""Logs a model's answer as records to draw while it streams."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mahtab_tui.bus.records import AssistantChatStream, emit
from mahtab_tui.bus.splitter import AnswerPiece, AnswerSplitter


class StreamingHandler:
    """Logs the tokens of one answer as ``assistant-chat-stream`` records. Only `parse_response`
    decides what runs."""

    def __init__(
        self,
        log: logging.Logger,
        turn: int | None = None,
        step: int | None = None,
        party: str | None = None,
    ) -> None:
        self._log = log
        self._answer = AssistantChatStream(turn=turn, step=step, party=party)
        self._splitter = AnswerSplitter()

    def process_token(self, token: str) -> None:
        """Add a token, which may be cut anywhere."""
        self._emit(self._splitter.feed(token))

    def anew(self) -> StreamingHandler:
        """Start the answer again: drop what was logged of it, and return the handler for the new
        one."""
        emit(self._log, self._answer.changed(fresh=True))
        return StreamingHandler(self._log, self._answer.turn, self._answer.step, self._answer.party)

    def flush(self) -> None:
        """Log what was held back: the answer has ended."""
        self._emit(self._splitter.end())

    def _emit(self, pieces: Iterable[AnswerPiece]) -> None:
        for kind, block, text in pieces:
            emit(
                self._log,
                self._answer.changed(
                    text=text, kind="code" if kind == "code" else "chat", block=block
                ),
            )
