"""The answer of a model on the bus, while it arrives."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mahtab_tui.bus.answer_splitter import AnswerPiece, AnswerSplitter
from mahtab_tui.bus.records import AssistantChatStream, emit


class StreamingHandler:
    """Logs an answer while its tokens arrive, as code and words.

    This is only for drawing. What runs is decided by `bus.answers.parse_response`, which reads the
    complete answer.
    """

    def __init__(
        self,
        log: logging.Logger,
        turn: int | None = None,
        step: int | None = None,
        party: str | None = None,
    ) -> None:
        """
        Args:
            log: The bus of the session.
            turn: The number of the question.
            step: The number of the model's answer within it.
            party: Who answers; None for the session's own model.
        """
        self._log = log
        self._answer = AssistantChatStream(turn=turn, step=step, party=party)
        self._splitter = AnswerSplitter()

    def process_token(self, token: str) -> None:
        self._emit(self._splitter.feed(token))

    def flush(self) -> None:
        """Log what was kept back because it might have become a fence."""
        self._emit(self._splitter.end())

    def restart(self) -> StreamingHandler:
        """Discard the answer so far; return the handler of its next attempt."""
        emit(self._log, self._answer.changed(fresh=True))
        return StreamingHandler(self._log, self._answer.turn, self._answer.step, self._answer.party)

    def _emit(self, pieces: Iterable[AnswerPiece]) -> None:
        for kind, block, text in pieces:
            # Thoughts stream like words.
            stream_kind = "code" if kind == "code" else "chat"
            emit(self._log, self._answer.changed(text=text, kind=stream_kind, block=block))
