"""Writes what a session does: each record becomes lines.

`RecordPrinter` knows which cells run and which requests wait for the user. The output of a cell is
written by `CellOutput`, an answer by `AnswerPrinter`, and searches by `SearchLines`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from rich.text import Text

from mahtab_tui.bus import records
from mahtab_tui.bus.change_words import format_changes
from mahtab_tui.bus.notes import NOTE_MAKERS
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.bus.values import Status, describe_files
from mahtab_tui.linear.answer_printer import AnswerPrinter, author_name
from mahtab_tui.linear.cell_output import CellOutput, DrawPicture, late_text
from mahtab_tui.linear.file_links import link_files
from mahtab_tui.linear.line_writer import LineWriter
from mahtab_tui.linear.search_lines import SearchLines

Request = records.Approval | records.Review | records.Input | records.SearchFanOut
"""A record with which the session waits for the user."""
MIN_SHOWN_DURATION_S = 1.0
"""Shorter cells end without a line of their own, unless they fail."""
_NO_MORE_CODE = ("max-turns", "stalled")
"""The states of a model that may run no more code for a question."""
_NOTE_ROLES = {"error": "bad", "warning": "highlight", "quiet": "muted"}
"""The colours of notes by their level; others have none."""
_NOTE_WORDS = {"error": "Error: ", "warning": "Warning: "}
"""What stands before a note, by its level, because its colour may not be seen."""


class RecordPrinter:
    """Writes records as they come, and collects the requests to the user. One thread at a time may
    call it."""

    def __init__(
        self, writer: LineWriter, draw_picture: DrawPicture, kernel_folder: str = ""
    ) -> None:
        """
        Args:
            writer: Writes to the terminal.
            draw_picture: Draws the pictures of outputs.
            kernel_folder: The folder in which the kernel has started, to link files; empty if the
                files of cells are not linked.
        """
        self._writer = writer
        self._draw_picture = draw_picture
        self._kernel_folder = kernel_folder
        self.answers = AnswerPrinter(writer)
        self._searches = SearchLines(writer)
        self._cells: dict[int | None, CellOutput] = {}
        """The outputs of the cells that run, by the cells' numbers."""
        self.requests: deque[Request] = deque()
        """The requests that wait for the user, the oldest first."""
        self.typed_code = ""
        """The code that the user has typed last, which the terminal shows already."""
        self._announced_turn: int | None = None
        """The last question for which it was written that the model thinks."""
        self._reading = ""
        """How much of a long prompt the model has read, in words; empty if it reads nothing."""
        self._last_note = ""
        """The last note since a cell has begun, such as why the kernel has ended."""

    def fold(self, new_records: Iterable[Record]) -> None:
        """Write records."""
        for record in new_records:
            self._fold_record(record)

    def fold_unfinished(self, recent_records: Sequence[Record]) -> None:
        """Write only what has not ended, because the user has seen the rest in another interface.

        Args:
            recent_records: The newest records of the session, in order.
        """
        ended_cells = _find_ended_cells(recent_records)
        for record in recent_records:
            self._fold_if_running(record, ended_cells)
            match record:
                case (
                    records.Approval() | records.Review() | records.Input() | records.SearchFanOut()
                ):
                    self._keep_or_forget(record)
                case records.AssistantChatStream() | records.AssistantThoughtStream():
                    self._fold_record(record)
                case records.AssistantChat():
                    self.answers.last_answer = record.text

    def fold_running_cells(self, earlier_records: Sequence[Record]) -> None:
        """Write the cells of a resumed session that have not ended."""
        ended_cells = _find_ended_cells(earlier_records)
        for record in earlier_records:
            self._fold_if_running(record, ended_cells)

    def _fold_if_running(self, record: Record, ended_cells: Collection[int | None]) -> None:
        """Write a record if it belongs to a cell that has not ended."""
        match record:
            case records.ReplIn() | records.ReplOutStream() | records.DisplayRecord():
                if record.cell not in ended_cells:
                    self._fold_record(record)

    @property
    def progress(self) -> str:
        """What is not complete yet: the line of a cell that has not ended, such as a progress bar, or
        how much of the prompt was read. In the plain form also that a cell runs and writes nothing."""
        for output in reversed(self._cells.values()):
            if output.open_line:
                return output.open_line
        silent_cells = [cell for cell, output in self._cells.items() if not output.has_pieces]
        if silent_cells and self._writer.is_plain:
            return f"In {silent_cells[-1]}: running."
        return self._reading

    def _fold_record(self, record: Record) -> None:
        """Write what a record is about; most records are about a cell or an answer."""
        self._reading = ""
        match record:
            case records.ReplIn():
                self._start_cell(record)
            case records.ReplOutStream():
                self._feed_cell(record)
            case records.DisplayRecord():
                self._display_value(record)
            case records.ReplOut():
                self._end_cell(record)
            case records.Namespace(restored=False) if record.changes and record.cell:
                self._writer.write_line(format_changes(record.changes), "muted")
            case records.FileChanges():
                self._write_file_changes(record)
            case records.SearchBegin() | records.SearchFinal():
                self._searches.fold(record)
            case records.Approval() | records.Review() | records.Input() | records.SearchFanOut():
                self._follow_request(record)
            case records.Queue():
                self._write_held_cells(record)
            case _:
                self._fold_answer_record(record)

    def _fold_answer_record(self, record: Record) -> None:
        """Write what a question, an answer or the model's work on it is about; or else a note."""
        match record:
            case records.UserChat():
                self.answers.begin_question()
            case records.UserAttachment():
                problem = f": {record.problem}" if record.problem else f" {record.size}"
                self._writer.write_line(f"{record.label}{problem}", "muted")
            case records.Agent():
                self._follow_agent(record)
            case records.AssistantReading():
                name = author_name(record.party)
                self._reading = f"{name} has read {record.share:.0%} of the prompt."
            case records.AssistantThought() | records.AssistantThoughtStream():
                self.answers.write_thoughts(record)
            case records.AssistantChatStream():
                self.answers.write_piece(record)
            case records.AssistantChat():
                self.answers.complete_answer(record)
            case records.AssistantTool(state="running"):
                self._writer.write_line(f"tool: {record.name} {record.arguments}", "muted")
            case records.AssistantTool(state="error" | "refused"):
                self._writer.write_line(f"tool {record.state}: {record.text}", "bad")
            case _ if type(record) in NOTE_MAKERS:
                self._write_note(record)

    def _write_note(self, record: Record) -> None:
        note = NOTE_MAKERS[type(record)](record)
        if note.text:
            self._last_note = note.text
            word = _NOTE_WORDS.get(note.level, "")
            self._writer.write_line(f"{word}{note.text}", _NOTE_ROLES.get(note.level, ""))

    def _write_file_changes(self, record: records.FileChanges) -> None:
        text = Text(plain(describe_files(record.changes)), "dim")
        if self._kernel_folder:
            paths = [change.path for change in record.changes]
            link_files(text, paths, self._kernel_folder)
        self._writer.write_line(text)

    def _write_held_cells(self, record: records.Queue) -> None:
        """Say how many cells wait until the user lets them run."""
        held_count = sum(item.held for item in record.items)
        if held_count == 1:
            self._writer.write_line("1 cell waits. Press Enter to run it.", "highlight")
        elif held_count:
            text = f"{held_count:,} cells wait. Press Enter to run them."
            self._writer.write_line(text, "highlight")

    def _follow_agent(self, record: records.Agent) -> None:
        """Write that a model or an agent begins to think, runs no more code, or was stopped."""
        author = author_name(record.party)
        if record.state == "thinking" and record.turn != self._announced_turn:
            self._announced_turn = record.turn
            self._writer.write_line(f"{author} is thinking.", "model")
        elif record.state in _NO_MORE_CODE:
            self._writer.write_line(f"{author} runs no more code for this question.", "highlight")
        elif record.state == "stopped":
            self._writer.write_line(f"{author} was stopped.", "highlight")
        self._writer.end_line()

    # Requests

    def _follow_request(self, record: Request) -> None:
        """Keep or forget a request, and write that code does not run."""
        self._keep_or_forget(record)
        if isinstance(record, records.Approval) and record.state in ("skipped", "refused"):
            reason = f": {record.reason}" if record.reason else "."
            self._writer.write_line(f"The code was {record.state}{reason}", "highlight")

    def _keep_or_forget(self, record: Request) -> None:
        """Keep a request until it is asked; forget it if it no longer waits."""
        if record.state == "waiting":
            if isinstance(record, records.Input):
                self._flush_output()
            self.requests.append(record)
            return
        self.requests = deque(
            request
            for request in self.requests
            if (request.tag, request.request) != (record.tag, record.request)
        )

    def expect_echo(self, cell: int | None, text: str) -> None:
        """Do not write a text that a cell prints next, because the terminal shows it already.

        Args:
            cell: The number of the cell that has asked for an input.
            text: Its prompt and what the user has typed.
        """
        if cell in self._cells:
            self._cells[cell].expect_echo(text)

    def _flush_output(self) -> None:
        """Write what cells have printed, also a line that has not ended: the prompt of an `input()`."""
        for output in self._cells.values():
            output.flush()

    # Cells

    def _start_cell(self, record: records.ReplIn) -> None:
        """Name a cell and write its code, unless the user sees it already."""
        self._last_note = ""
        self._cells[record.cell] = CellOutput(
            self._writer, self._draw_picture, has_links=bool(self._kernel_folder)
        )
        if isinstance(record, records.UserReplIn) and record.text == self.typed_code:
            self.typed_code = ""
            return
        author = record.party or "model"
        role = "person" if isinstance(record, records.UserReplIn) else "model"
        self._writer.write_line(f"In {record.cell} ({author}), running:", role)
        if not self.answers.has_written_code(record):
            self._writer.write_code(record.text)
        self.answers.leave_part()

    def _feed_cell(self, record: records.ReplOutStream) -> None:
        output = self._cells.get(record.cell)
        if output is not None:
            output.feed(record)

    def _display_value(self, record: records.DisplayRecord) -> None:
        output = self._cells.get(record.cell)
        if output is not None:
            output.display(record)

    def _end_cell(self, record: records.ReplOut) -> None:
        """Write the rest of a cell's output, and how the cell has ended."""
        if record.late:
            self._write_late_output(record)
            return
        output = self._cells.pop(record.cell, None)
        if output is not None:
            output.end(record)
            self._write_outcome(record)

    def _write_late_output(self, record: records.ReplOut) -> None:
        """Write what a cell has printed after its end."""
        if record.text.strip():
            self._writer.write_line(f"Later output of In {record.cell}:", "muted")
            self._writer.write_line(late_text(record.text))

    def _write_outcome(self, record: records.ReplOut) -> None:
        """Write how a cell has ended, unless it was quick and all is well."""
        is_ok = record.status == Status.OK
        duration_s = record.duration or 0.0
        if is_ok and duration_s < MIN_SHOWN_DURATION_S:
            return
        state = "done" if is_ok else record.status
        # A note may have said the same, such as why the kernel has ended.
        is_repeated = record.detail == self._last_note
        detail = f" {record.detail}" if record.detail and not is_repeated else ""
        role = "muted" if is_ok else "bad"
        self._writer.write_line(f"In {record.cell}: {state}, {duration_s:.1f} s.{detail}", role)


def _find_ended_cells(earlier_records: Iterable[Record]) -> set[int | None]:
    """Return the numbers of the cells whose end is among these records."""
    return {
        record.cell
        for record in earlier_records
        if isinstance(record, records.ReplOut) and not record.late
    }
