"""The words and the code of an answer, as they are streamed and as they are in the whole answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.answers import AnswerPart
from mahtab_tui.bus.entries import AnswerText, Cell

Piece = AnswerText | Cell
"""An entry that is a part of an answer."""

AnswerStep = tuple[int | None, int | None]
"""The turn of a question, and the step of its answer."""

AnswerRecord = records.ModelRecord | records.AssistantReplIn | records.Approval
"""A record that belongs to an answer."""


def answer_author(record: AnswerRecord) -> str:
    """Return the name above the entries of an answer."""
    return record.party or "model"


def answer_step(record: AnswerRecord) -> AnswerStep:
    """Return the answer to which a record belongs."""
    return record.turn, record.step


class Correction(NamedTuple):
    """How the streamed pieces of an answer became those of the whole answer."""

    dropped: list[Piece]
    """Pieces that are not in the whole answer, and must be hidden."""
    changed: list[Piece]
    """Pieces whose text differs in the whole answer."""
    added: list[Piece]
    """Pieces of the whole answer that were not streamed."""


class AnswerPieces:
    """The pieces of one answer, in order."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def last(self) -> Piece | None:
        """The newest piece, to which what is streamed next may belong."""
        return self._pieces[-1] if self._pieces else None

    @property
    def visible(self) -> list[Piece]:
        """The pieces that are part of the answer."""
        return [piece for piece in self._pieces if not piece.hidden]

    @property
    def blocks(self) -> list[Cell]:
        """The code blocks of the answer."""
        return [piece for piece in self.visible if isinstance(piece, Cell)]

    def add_words(
        self, record: records.AssistantChat | records.AssistantChatStream, text: str
    ) -> AnswerText:
        """Add words of the model at the end, and return them."""
        words = AnswerText(
            author=answer_author(record),
            source=text,
            shows_author=not self.visible,
            joined=bool(self._pieces),
            key=record.entry_name,
            turn=record.turn,
        )
        self._pieces.append(words)
        return words

    def add_code(self, record: AnswerRecord, code: str, block: int | None = None) -> Cell:
        """Add code of the model at the end, and return its cell.

        Args:
            record: The record that contains the code.
            code: The code, or its beginning.
            block: The number of the code block that is streamed; None for a complete one.
        """
        cell = Cell(
            author=answer_author(record),
            person=False,
            code=code,
            block=block,
            joined=bool(self._pieces),
            turn=record.turn,
        )
        self._pieces.append(cell)
        return cell

    def pop_all(self) -> list[Piece]:
        """Remove all pieces, because the answer starts over. Return them."""
        pieces = self._pieces
        self._pieces = []
        return pieces

    def correct(self, record: records.AssistantChat, parts: Sequence[AnswerPart]) -> Correction:
        """Make the streamed pieces those of the whole answer.

        Args:
            record: The whole answer.
            parts: Its parts.

        Returns:
            What has changed.
        """
        correction = Correction([], [], [])
        streamed = deque(self._pieces)
        for is_code, text in _join_words(parts):
            kind = Cell if is_code else AnswerText
            if not any(isinstance(piece, kind) for piece in streamed):
                added = self.add_code(record, text) if is_code else self.add_words(record, text)
                correction.added.append(added)
                continue
            # The streamed pieces before the next one of this kind are not in the whole answer.
            while not isinstance(streamed[0], kind):
                correction.dropped.append(streamed.popleft())
            piece = streamed.popleft()
            if piece.correct(text):
                correction.changed.append(piece)

        correction.dropped.extend(streamed)
        return correction


def _join_words(parts: Sequence[AnswerPart]) -> Iterator[tuple[bool, str]]:
    """Yield each code block, and the words between two of them as one text.

    Before each text comes whether it is code.
    """
    for is_code, group in groupby(parts, key=lambda part: part.kind == "code"):
        texts = [part.text for part in group]
        if is_code:
            for code in texts:
                yield True, code
        elif words := "\n\n".join(text for text in texts if text.strip()):
            yield False, words
