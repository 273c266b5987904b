"""Writes a model's thoughts, words and code, piece by piece while they are streamed.

`RecordPrinter` hands over the records of answers. Code that was written here need not be written again
when it waits for the user's approval, or when it runs as a cell.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from mahtab_tui.bus.answers import answer_prose
from mahtab_tui.bus.hidden_characters import symbols
from mahtab_tui.bus.records import (
    Approval,
    AssistantChat,
    AssistantChatStream,
    AssistantThought,
    AssistantThoughtStream,
    ReplIn,
)
from mahtab_tui.bus.records.answers import ModelRecord
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.terminal_screen import split_unfinished
from mahtab_tui.linear.line_writer import LineWriter


class WrittenPart(NamedTuple):
    """Identifies what is written without a break: an answer's thoughts, words, or a block of code."""

    turn: int | None
    """The number of the question."""
    step: int | None
    """Which answer to the question, from 0."""
    kind: Literal["thoughts", "words", "code"]
    block: int | None = None
    """Which code block of the answer, from 0; None for thoughts and words."""


class AnswerPrinter:
    """Writes answers as they come, and remembers what of them was written. One thread at a time may
    call it."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self.last_answer = ""
        """The model's words since the last question."""
        self._open_part: WrittenPart | None = None
        """The part whose pieces were written last; None if something else has begun since."""
        self._code_write_count = 0
        """The writer's `write_count` after the last piece of code."""
        self._unfinished_sequence = ""
        """The start of an escape sequence at the end of the last piece."""
        self._streamed_parts: set[WrittenPart] = set()
        """The words and thoughts that need not be written when they come whole. Of an answer that
        begins with code, the words count as streamed, too."""
        self._written_code: dict[WrittenPart, str] = {}
        """The code blocks that were written, or that the user has seen in another way."""

    def begin_question(self) -> None:
        """Forget the words of the last answer, because the user asks something else."""
        self.last_answer = ""

    def leave_part(self) -> None:
        """Note that something else was written, so that the next piece begins a line."""
        self._open_part = None

    # Pieces

    def write_piece(self, record: AssistantChatStream) -> None:
        """Write a piece of an answer's words or code."""
        words = _words_part(record)
        if record.fresh:
            if words in self._streamed_parts:
                self._writer.write_line("(The answer begins again.)", "muted")
            return
        self._streamed_parts.add(words)
        is_code = record.kind == "code"
        self._enter_part(_code_part(record) if is_code else words)
        text = self._complete_sequences(record.text)
        if is_code:
            self._write_code_piece(record, text)
        else:
            self.last_answer += record.text
            self._writer.write(text)

    def _write_code_piece(self, record: AssistantChatStream, text: str) -> None:
        part = _code_part(record)
        self._written_code[part] = self._written_code.get(part, "") + record.text
        self._writer.write_indented(text, "highlight")
        self._code_write_count = self._writer.write_count

    def write_thoughts(self, record: AssistantThought | AssistantThoughtStream) -> None:
        """Write a piece of what the model thinks before its answer, or all of it if no piece came."""
        part = _thoughts_part(record)
        if isinstance(record, AssistantThought) and part in self._streamed_parts:
            return
        if part != self._open_part:
            if not record.text.strip():
                return
            self._writer.write_line(f"Thoughts of {author_name(record.party)}:", "model")
            self._streamed_parts.add(part)
        self._enter_part(part)
        self._writer.write(self._complete_sequences(record.text), "muted")

    def _enter_part(self, part: WrittenPart) -> None:
        """Begin a line if the last piece was of another part. What follows thoughts gets a heading."""
        if part == self._open_part:
            return
        if part.kind != "thoughts":
            self._separate_from_thoughts(part)
        self._writer.end_line()
        self._open_part = part
        self._unfinished_sequence = ""

    def _separate_from_thoughts(self, part: WrittenPart) -> None:
        """Write a heading if the thoughts before an answer were written last."""
        if self._open_part == WrittenPart(part.turn, part.step, "thoughts"):
            self._writer.write_line("Answer:", "model")

    def _complete_sequences(self, piece: str) -> str:
        """Return a piece up to an escape sequence that is cut off. The next piece completes it."""
        text, self._unfinished_sequence = split_unfinished(self._unfinished_sequence + piece)
        return text

    # Whole answers

    def complete_answer(self, record: AssistantChat) -> None:
        """Write the words of an answer unless they were streamed, and what is doubtful about it."""
        words_part = _words_part(record)
        if words_part not in self._streamed_parts:
            words = answer_prose(record)
            self.last_answer += words
            if words:
                self._separate_from_thoughts(words_part)
                self._writer.write_line(words)
        doubts = [figure.doubt for figure in record.figures or () if not figure.has_source]
        if doubts:
            self._writer.write_line(f"not computed: {', '.join(doubts)}", "muted")
        if record.stopped:
            self._writer.write_line("stopped", "highlight")
        elif record.cut:
            self._writer.write_line("cut off", "highlight")

    # Code that the user sees already

    def stands_above(self, request: Approval) -> bool:
        """Return whether the code of a request is what was written last, as it was streamed."""
        # Streamed code is written without its hidden characters, which the user must see.
        if symbols(request.text):
            return False
        part = _code_part(request)
        has_followed = self._writer.write_count != self._code_write_count
        if part != self._open_part or has_followed:
            return False
        return self._written_code.get(part, "").strip() == request.text.strip()

    def note_code(self, request: Approval, code: str) -> None:
        """Note that the user has seen the code that a request is about, or has written it."""
        self._written_code[_code_part(request)] = code

    def has_written_code(self, record: ReplIn) -> bool:
        """Return whether the user has seen the code of a cell before it runs."""
        return self._written_code.get(_code_part(record), "").strip() == record.text.strip()


def author_name(party: str | None) -> str:
    """Return a model's or an agent's name as a sentence begins with it."""
    name = one_line(party or "the model")
    return name[:1].upper() + name[1:]


def _words_part(record: ModelRecord) -> WrittenPart:
    return WrittenPart(record.turn, record.step, "words")


def _thoughts_part(record: ModelRecord) -> WrittenPart:
    return WrittenPart(record.turn, record.step, "thoughts")


def _code_part(record: Approval | ReplIn | AssistantChatStream) -> WrittenPart:
    return WrittenPart(record.turn, record.step, "code", record.block)
