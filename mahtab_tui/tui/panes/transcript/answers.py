"""The model's answers: words and code as they stream, and as they finally are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from mahtab_tui.bus.left_out import answer_entry, code_entry
from mahtab_tui.bus.parser import Part, parse_response
from mahtab_tui.bus.records import Approval, AssistantChat, AssistantChatStream, AssistantReplIn
from mahtab_tui.tui.panes.transcript.entries import Cell, Entry, Words

_OfStep = AssistantChat | AssistantChatStream | AssistantReplIn | Approval
"""What belongs to one answer of the model's."""


class StepKey(NamedTuple):
    """One answer of the model's."""

    turn: int | None
    step: int | None

    @classmethod
    def of(cls, record: _OfStep) -> StepKey:
        return cls(record.turn, record.step)


class Answers:
    """Builds the entries of answers through the two functions that it is given."""

    def __init__(self, append: Callable[[Entry], None], touch: Callable[[Entry], None]) -> None:
        self._append = append
        self._touch = touch
        self._pieces: dict[StepKey, list[Words | Cell]] = {}
        self._marked: set[int | None] = set()
        """Turns that already bear the mark."""

    def begin(self) -> None:
        """A new question: nothing more comes for the answers to the last one, and a resumed session may number its turns anew."""
        self._pieces.clear()
        self._marked.clear()

    def token(self, record: AssistantChatStream) -> None:
        """A piece of the stream: the last entry grows, or another begins."""
        pieces = self._pieces.setdefault(StepKey.of(record), [])
        if record.fresh:
            for piece in pieces:
                self._hide(piece)
            pieces.clear()
            return
        last = pieces[-1] if pieces else None
        if record.kind == "code":
            if isinstance(last, Cell) and last.block == record.block:
                self._grow(last, record.text)
            else:
                self._begin(pieces, Cell(party=_party(record), person=False, code=record.text, block=record.block))
        elif isinstance(last, Words):
            self._grow(last, record.text)
        elif record.text.strip():
            self._begin(pieces, Words(party=_party(record), source=record.text, named=not pieces, key=_key(record)))

    def answer(self, record: AssistantChat) -> None:
        """The whole answer: what was streamed is put right, or drawn if nothing was."""
        pieces = self._pieces.setdefault(StepKey.of(record), [])
        left = list(pieces)
        for is_code, text in _stretches(parse_response(record.text).parts):
            kind = Cell if is_code else Words
            found = next((piece for piece in left if isinstance(piece, kind)), None)
            if found is None:
                self._begin(pieces, _entry(record, is_code, text, named=not pieces))
            else:
                for skipped in left[: left.index(found)]:
                    self._hide(skipped)
                left = left[left.index(found) + 1 :]
                self._replace(found, text)
        for piece in left:
            self._hide(piece)
        _name_code(record, pieces)
        self._mark(record, pieces)

    def approval(self, record: Approval) -> None:
        """A block waits, or its fate is decided."""
        cell = self._block(record)
        if cell is None:
            return
        cell.approval = record.state if record.state in ("waiting", "skipped", "stopped", "refused") else ""
        cell.reason = record.reason
        if record.state == "edited" and record.text:
            cell.code, cell.edited = record.text, True
        self._touch(cell)

    def code_that_runs(self, record: AssistantReplIn) -> Cell:
        """The entry of a block that begins to run, with the code that runs."""
        cell = self._block(record)
        if cell is None:
            cell = Cell(party=_party(record), person=False)
            self._begin(self._pieces.setdefault(StepKey.of(record), []), cell)
        cell.code = record.text
        cell.approval = ""
        return cell

    def marked(self, turn: int | None) -> bool:
        """Whether an entry of this turn says already that it was stopped."""
        return turn in self._marked

    def _block(self, record: Approval | AssistantReplIn) -> Cell | None:
        """The code entry that a record speaks of, as long as it has not run."""
        pieces = self._pieces.get(StepKey.of(record), [])
        blocks = [piece for piece in pieces if isinstance(piece, Cell) and not piece.hidden]
        if record.block is None or not 0 <= record.block < len(blocks):
            return None
        return blocks[record.block] if blocks[record.block].number is None else None

    def _begin(self, pieces: list[Words | Cell], entry: Words | Cell) -> None:
        entry.joined = bool(pieces)
        pieces.append(entry)
        self._append(entry)

    def _grow(self, piece: Words | Cell, text: str) -> None:
        if isinstance(piece, Cell):
            piece.code += text
        else:
            piece.source += text
        self._touch(piece)

    def _replace(self, piece: Words | Cell, text: str) -> None:
        if isinstance(piece, Cell):
            if piece.number is not None or piece.code == text:
                return
            piece.code = text
        else:
            if piece.source.strip("\n") == text.strip("\n"):
                return
            piece.source = text
            piece.revision += 1
        self._touch(piece)

    def _hide(self, piece: Words | Cell) -> None:
        piece.hidden = True
        self._touch(piece)

    def _mark(self, record: AssistantChat, pieces: list[Words | Cell]) -> None:
        """Say how it ended, if it did not end by itself."""
        mark = "stopped" if record.stopped else "cut off" if record.cut else ""
        if not mark:
            return
        self._marked.add(record.turn)
        shown = [piece for piece in pieces if not piece.hidden]
        if not shown:
            self._begin(pieces, Words(party=_party(record), mark=mark, key=_key(record)))
        elif isinstance(last := shown[-1], Words):
            last.mark = mark
            self._touch(last)
        else:
            last.approval = mark
            self._touch(last)


def _party(record: _OfStep) -> str:
    return record.party or "model"


def _stretches(parts: Sequence[Part]) -> Iterator[tuple[bool, str]]:
    """Whether it is code, and the text: words and thoughts that follow each other are one stretch, as they are while they stream."""
    for is_code, group in groupby(parts, key=lambda part: part.kind == "code"):
        texts = [part.text for part in group]
        if is_code:
            yield from ((True, text) for text in texts)
        elif words := "\n\n".join(text for text in texts if text.strip()):
            yield False, words


def _entry(record: AssistantChat, is_code: bool, text: str, *, named: bool) -> Words | Cell:
    if is_code:
        return Cell(party=_party(record), person=False, code=text)
    return Words(party=_party(record), source=text, named=named, key=_key(record))


def _key(record: _OfStep) -> str:
    return answer_entry(record.turn, record.step)


def _name_code(record: AssistantChat, pieces: Sequence[Words | Cell]) -> None:
    """The blocks that have not run go by their places in the answer."""
    blocks = [piece for piece in pieces if isinstance(piece, Cell) and not piece.hidden]
    for number, cell in enumerate(blocks):
        if cell.number is None:
            cell.key = code_entry(record.turn, record.step, number)
