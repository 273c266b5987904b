"""Builds entries from the model's answers, while they stream and when they are complete, and from
agents' code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from mahtab_tui.bus.answers import parse_response
from mahtab_tui.bus.prompt import answer_entry, code_entry
from mahtab_tui.bus.records import (
    Approval,
    AssistantChat,
    AssistantChatStream,
    AssistantReplIn,
    AssistantThought,
    AssistantThoughtStream,
)
from mahtab_tui.tui.transcript.entries import Cell, Entry, Words

if TYPE_CHECKING:
    from mahtab_tui.bus.answers import AnswerPart

_Thought = AssistantThought | AssistantThoughtStream
_StepRecord = AssistantChat | AssistantChatStream | AssistantReplIn | Approval | _Thought
"""Records of one answer of the model."""
_Step = tuple[int | None, int | None]
"""Identifies one answer by turn and step."""


class AnswerEntries:
    """Builds the entries of a model's answers."""

    def __init__(self, append: Callable[[Entry], None], touch: Callable[[Entry], None]) -> None:
        self._append = append
        self._touch = touch
        self._pieces: dict[_Step, list[Words | Cell]] = {}
        self._thoughts: dict[_Step, Words] = {}
        """The model's thinking before an answer."""
        self.marked: set[int | None] = set()
        """Turns whose entries already say that the answer was stopped."""

    def begin(self) -> None:
        """Start a new question: earlier answers are complete, and a resumed session may reuse their
        numbers."""
        self._pieces.clear()
        self._thoughts.clear()
        self.marked.clear()

    def token(self, record: AssistantChatStream) -> None:
        """Add a streamed piece to the last entry, or start a new one."""
        pieces = self._pieces.setdefault(_step(record), [])
        if record.fresh:
            for piece in pieces:
                self._hide(piece)
            pieces.clear()
            if (thought := self._thoughts.pop(_step(record), None)) is not None:
                self._hide(thought)
            return
        last = pieces[-1] if pieces else None
        if record.kind == "code":
            if isinstance(last, Cell) and last.block == record.block:
                self._grow(last, record.text)
            else:
                self._begin(
                    pieces,
                    Cell(
                        author=_author(record), person=False, code=record.text, block=record.block
                    ),
                )
        elif isinstance(last, Words):
            self._grow(last, record.text)
        elif record.text.strip():
            self._begin(
                pieces,
                Words(
                    author=_author(record), source=record.text, named=not pieces, key=_key(record)
                ),
            )

    def thought_piece(self, record: AssistantThoughtStream) -> None:
        """Add a streamed piece of the model's thinking."""
        entry = self._thoughts.get(_step(record))
        if entry is None:
            if record.text.strip():
                self._thoughts[_step(record)] = entry = Words(
                    author=_author(record), source=record.text, thought=True
                )
                self._append(entry)
        else:
            self._grow(entry, record.text)

    def thought(self, record: AssistantThought) -> None:
        """Show the model's complete thinking, collapsed because the answer follows."""
        entry = self._thoughts.get(_step(record))
        if entry is None:
            self._thoughts[_step(record)] = entry = Words(
                author=_author(record), source=record.text, thought=True, collapsed=True
            )
            self._append(entry)
        else:
            entry.collapsed = True
            self._replace(entry, record.text)
            self._touch(entry)

    def answer(self, record: AssistantChat) -> None:
        """Correct the streamed entries by the complete answer, or create them if nothing was
        streamed."""

        pieces = self._pieces.setdefault(_step(record), [])
        left = list(pieces)
        for is_code, text in _split_code(parse_response(record.text).parts):
            kind = Cell if is_code else Words
            found = next((piece for piece in left if isinstance(piece, kind)), None)
            if found is None and is_code:
                self._begin(pieces, Cell(author=_author(record), person=False, code=text))
            elif found is None:
                self._begin(
                    pieces,
                    Words(author=_author(record), source=text, named=not pieces, key=_key(record)),
                )
            else:
                for skipped in left[: left.index(found)]:
                    self._hide(skipped)
                left = left[left.index(found) + 1 :]
                self._replace(found, text)
        for piece in left:
            self._hide(piece)
        for number, cell in enumerate(_blocks(pieces)):
            if cell.number is None:
                cell.key = code_entry(record.turn, record.step, number)
        if record.figures:
            for piece in pieces:
                if isinstance(piece, Words):
                    piece.figures = record.figures
                    piece.revision += 1
                    self._touch(piece)
        self._mark(record, pieces)

    def approval(self, record: Approval) -> None:
        """Show that a code block waits, or what was decided."""
        cell = self._block(record)
        if cell is None:
            return
        cell.approval = (
            record.state
            if record.state in ("waiting", "not run", "skipped", "stopped", "refused")
            else ""
        )
        if record.state == "waiting" and (record.blocks or 0) > 1:
            for number, block in enumerate(_blocks(self._pieces.get(_step(record), ())), 1):
                block.part = f"{number}/{record.blocks}"
                self._touch(block)
        cell.reason = record.reason
        if record.state == "edited" and record.text:
            cell.code, cell.edited = record.text, True
        self._touch(cell)

    def start_code(self, record: AssistantReplIn) -> Cell:
        """Return the entry of a code block that starts, updated with the code that runs."""
        cell = self._block(record)
        if cell is None:
            cell = Cell(author=_author(record), person=False)
            self._begin(self._pieces.setdefault(_step(record), []), cell)
        cell.code = record.text
        cell.approval = ""
        return cell

    def _block(self, record: Approval | AssistantReplIn) -> Cell | None:
        """Return the code entry of a record, unless it has already run."""
        blocks = _blocks(self._pieces.get(_step(record), ()))
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
        mark = "stopped" if record.stopped else "cut off" if record.cut else ""
        if not mark:
            return
        self.marked.add(record.turn)
        shown = [piece for piece in pieces if not piece.hidden]
        if not shown:
            self._begin(pieces, Words(author=_author(record), mark=mark, key=_key(record)))
            return
        last = shown[-1]
        if isinstance(last, Words):
            last.mark = mark
        else:
            last.approval = mark
        self._touch(last)


class AgentCells:
    """Builds the entries of agents' cells. Each cell belongs to a call of the agent."""

    def __init__(self, append: Callable[[Entry], None], touch: Callable[[Entry], None]) -> None:
        self._append = append
        self._touch = touch
        self._waiting: dict[str | None, Cell] = {}

    def approval(self, record: Approval) -> None:
        """Show that code waits, or what was decided."""
        call, state = record.call, record.state
        cell = self._waiting.get(call)
        if cell is None:
            if state == "waiting":
                self._waiting[call] = cell = self._create_cell(record)
                cell.approval = state
                self._append(cell)
                self._number()
            return
        cell.approval = state if state in ("skipped", "stopped") else ""
        cell.reason = record.reason
        if state == "edited":
            cell.code, cell.edited = record.text, True
        if cell.approval:
            del self._waiting[call]
            self._number()
        self._touch(cell)

    def _number(self) -> None:
        """Number the waiting cells, if there are several."""
        for number, cell in enumerate(self._waiting.values(), 1):
            cell.part = f"{number}/{len(self._waiting)}" if len(self._waiting) > 1 else ""
            self._touch(cell)

    def start_code(self, record: AssistantReplIn) -> Cell:
        cell = self._waiting.pop(record.call, None)
        self._number()
        if cell is None:
            cell = self._create_cell(record)
            self._append(cell)
        cell.code = record.text
        return cell

    def _create_cell(self, record: Approval | AssistantReplIn) -> Cell:
        return Cell(
            author=record.party or "agent", person=False, agent_index=record.guest, code=record.text
        )


def _author(record: _StepRecord) -> str:
    return record.party or "model"


def _split_code(parts: Sequence[AnswerPart]) -> Iterator[tuple[bool, str]]:
    """Yield stretches of text, and whether each is code. Adjacent words and thinking form one
    stretch, as while streaming."""
    for is_code, group in groupby(parts, key=lambda part: part.kind == "code"):
        texts = [part.text for part in group]
        if is_code:
            yield from ((True, text) for text in texts)
        elif words := "\n\n".join(text for text in texts if text.strip()):
            yield False, words


def _step(record: _StepRecord) -> _Step:
    return record.turn, record.step


def _key(record: _StepRecord) -> str:
    return answer_entry(record.turn, record.step)


def _blocks(pieces: Sequence[Words | Cell]) -> list[Cell]:
    """Return an answer's code blocks, which are named by their positions until they run."""
    return [piece for piece in pieces if isinstance(piece, Cell) and not piece.hidden]
