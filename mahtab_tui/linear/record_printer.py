"""Writes what a session does: each record becomes lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from rich.text import Text

from mahtab_tui.bus import records
from mahtab_tui.bus.answers import answer_prose
from mahtab_tui.bus.change_words import format_changes
from mahtab_tui.bus.hidden_characters import symbols
from mahtab_tui.bus.notes import NOTE_MAKERS
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.records.answers import ModelRecord
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.terminal_screen import split_unfinished
from mahtab_tui.bus.values import Status, describe_files
from mahtab_tui.linear.cell_output import CellOutput, DrawPicture, whole_text
from mahtab_tui.linear.file_links import link_files
from mahtab_tui.linear.line_writer import LineWriter
from mahtab_tui.linear.search_lines import SearchLines

Request = records.Approval | records.Review | records.Input | records.SearchFanOut
"""A record with which the session waits for the user."""
MIN_SHOWN_DURATION_S = 1.0
"""Shorter cells end without a line of their own, unless they fail."""
_NO_MORE_CODE = ("max-turns", "stalled")
_NOTE_ROLES = {"error": "bad", "warning": "highlight", "quiet": "muted"}
_NOTE_WORDS = {"error": "Error: ", "warning": "Warning: "}
"""By the level of a note: what stands before it, because its colour may not be seen."""


class RecordPrinter:
    """Writes records as they come, and collects the requests to the user. One thread at a time may
    call it."""

    def __init__(
        self, writer: LineWriter, draw_picture: DrawPicture, kernel_folder: str = ""
    ) -> None:
        """kernel_folder: The one in which the kernel started, to link files; empty if files of cells
        are not linked."""
        self._writer = writer
        self._draw_picture = draw_picture
        self._kernel_folder = kernel_folder
        self._searches = SearchLines(writer)
        self._cells: dict[int | None, CellOutput] = {}
        """The cells that run."""
        self.requests: deque[Request] = deque()
        """The requests that wait for the user, the oldest first."""
        self.typed_code = ""
        """The code that the user has typed last, which the terminal shows already."""
        self._announced_turn: int | None = None
        """The last question for which it was written that the model thinks."""
        self._reading = ""
        """How much of a long prompt the model has read, in words; empty if it reads nothing."""
        self.last_answer = ""
        """The model's words since the last question."""
        self.finished_cell_count = 0
        self._piece_key: tuple[object, ...] = ()
        """The answer, and the code block of it, whose pieces were written last."""
        self._piece_count = 0
        """The writer's `write_count` after these."""
        self._unfinished = ""
        """The start of an escape sequence at the end of a piece."""
        self._streamed: set[tuple[object, ...]] = set()
        """Answers, by turn and step, of which pieces were written, and the keys of thoughts."""
        self._written_code: dict[tuple[object, ...], str] = {}
        """Code that was written, by turn, step and block."""
        self._last_note = ""
        """The last note that was written, such as why the kernel has ended."""

    def fold(self, new_records: Iterable[Record]) -> None:
        """Write records."""
        for record in new_records:
            self._fold_record(record)

    def fold_unfinished(self, recent_records: Sequence[Record]) -> None:
        """Write of the recent records only what has not ended: the user has seen the others."""
        ended_cells = _find_ended_cells(recent_records)
        for record in recent_records:
            self._fold_if_running(record, ended_cells)
            match record:
                case records.Approval() | records.Review() | records.Input():
                    self._keep_or_forget(record)
                case records.SearchFanOut():
                    self._keep_or_forget(record)
                case records.AssistantChatStream() | records.AssistantThoughtStream():
                    self._fold_record(record)
                case records.AssistantChat():
                    self.last_answer = record.text

    def fold_running_cells(self, earlier_records: Sequence[Record]) -> None:
        """Write the cells of a resumed session that have not ended."""
        ended_cells = _find_ended_cells(earlier_records)
        for record in earlier_records:
            self._fold_if_running(record, ended_cells)

    def _fold_if_running(self, record: Record, ended_cells: Collection[int | None]) -> None:
        """Write a record if it is of a cell that has not ended."""
        match record:
            case records.ReplIn() | records.ReplOutStream() | records.DisplayRecord():
                if record.cell not in ended_cells:
                    self._fold_record(record)

    @property
    def progress(self) -> str:
        """What is not complete yet: the line of a cell that has not ended, such as a progress bar, or
        how much of the prompt was read. In the plain form also that a cell runs and writes nothing."""
        open_lines = [output.open_line for output in self._cells.values()]
        if any(open_lines):
            return open_lines[-1]
        silent_cells = [cell for cell, output in self._cells.items() if not output.has_pieces]
        if silent_cells and self._writer.is_plain:
            return f"In {silent_cells[-1]}: running."
        return self._reading

    def has_written(self, record: records.Approval) -> bool:
        """Return whether the code of a request stands right above, as it was streamed."""
        # Of streamed code, hidden characters are not written.
        if symbols(record.text):
            return False
        key = _block_key(record)
        is_last = self._piece_key == key and self._piece_count == self._writer.write_count
        return is_last and self._written_code.get(key, "").strip() == record.text.strip()

    def note_code(self, record: records.Approval, code: str) -> None:
        """Note that the user has seen the code that a request is about."""
        self._written_code[_block_key(record)] = code

    def _fold_record(self, record: Record) -> None:
        self._reading = ""
        match record:
            case records.AssistantChatStream():
                self._stream_answer(record)
            case records.ReplIn():
                self._start_cell(record)
            case records.ReplOutStream():
                self._feed_cell(record)
            case records.DisplayRecord():
                if record.cell in self._cells:
                    self._cells[record.cell].display(record)
            case records.ReplOut():
                self._end_cell(record)
            case records.Namespace(restored=False) if record.changes and record.cell:
                self._writer.write_line(format_changes(record.changes), "muted")
            case records.FileChanges():
                text = Text(plain(describe_files(record.changes)), "dim")
                if self._kernel_folder:
                    link_files(
                        text, [change.path for change in record.changes], self._kernel_folder
                    )
                self._writer.write_line(text)
            case records.SearchBegin() | records.SearchFinal():
                self._searches.fold(record)
            case records.Approval() | records.Review() | records.Input() | records.SearchFanOut():
                self._follow_request(record)
            case _:
                self._fold_words(record)

    def _fold_words(self, record: Record) -> None:
        """Write what the model says and does, and notes of the program."""
        match record:
            case records.UserChat():
                self.last_answer = ""
            case records.UserAttachment():
                problem = f": {record.problem}" if record.problem else f" {record.size}"
                self._writer.write_line(f"{record.label}{problem}", "muted")
            case records.Agent():
                self._follow_agent(record)
            case records.AssistantReading():
                name = author_name(record.party)
                self._reading = f"{name} has read {record.share:.0%} of the prompt."
            case records.AssistantThought() | records.AssistantThoughtStream():
                self._write_thought(record)
            case records.AssistantChat():
                self._complete_answer(record)
            case records.AssistantTool(state="running"):
                self._writer.write_line(f"tool: {record.name} {record.arguments}", "muted")
            case records.AssistantTool(state="error" | "refused"):
                self._writer.write_line(f"tool {record.state}: {record.text}", "bad")
            case records.Queue():
                held_count = sum(item.held for item in record.items)
                if held_count:
                    text = f"{held_count:,} cells wait. Press Enter to run them."
                    if held_count == 1:
                        text = "1 cell waits. Press Enter to run it."
                    self._writer.write_line(text, "highlight")
            case _ if type(record) in NOTE_MAKERS:
                self._write_note(record)

    def _write_note(self, record: Record) -> None:
        note = NOTE_MAKERS[type(record)](record)
        if note.text:
            self._last_note = note.text
            word = _NOTE_WORDS.get(note.level, "")
            self._writer.write_line(f"{word}{note.text}", _NOTE_ROLES.get(note.level, ""))

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
        """Do not write what a cell prints next, because the user has typed it."""
        if cell in self._cells:
            self._cells[cell].expect_echo(text)

    def _flush_output(self) -> None:
        """Write what a cell has printed in the line in which it asks."""
        for output in self._cells.values():
            output.flush()

    # Answers

    def _stream_answer(self, record: records.AssistantChatStream) -> None:
        """Write a piece of an answer."""
        if record.fresh:
            if (record.turn, record.step) in self._streamed:
                self._writer.write_line("(The answer begins again.)", "muted")
            return
        self._streamed.add((record.turn, record.step))
        key = _block_key(record) if record.kind == "code" else (record.turn, record.step)
        if key != self._piece_key:
            if self._piece_key == _thought_key(record):
                self._writer.write_line("Answer:", "model")
            self._begin_pieces(key)
        text = self._whole_sequences(record.text)
        if record.kind != "code":
            self.last_answer += record.text
            self._writer.write(text)
            return
        self._written_code[key] = self._written_code.get(key, "") + record.text
        self._writer.write_indented(text, "highlight")
        self._piece_count = self._writer.write_count

    def _write_thought(
        self, record: records.AssistantThought | records.AssistantThoughtStream
    ) -> None:
        """Write a piece of what the model thinks before its answer, or all of it if no piece came."""
        key = _thought_key(record)
        if isinstance(record, records.AssistantThought) and key in self._streamed:
            return
        if key != self._piece_key:
            if not record.text.strip():
                return
            self._writer.write_line(f"Thoughts of {author_name(record.party)}:", "model")
            self._streamed.add(key)
            self._begin_pieces(key)
        self._writer.write(self._whole_sequences(record.text), "muted")

    def _begin_pieces(self, key: tuple[object, ...]) -> None:
        """Begin a line for the pieces of something else."""
        self._writer.end_line()
        self._piece_key = key
        self._unfinished = ""

    def _whole_sequences(self, piece: str) -> str:
        """Return a piece, with what the last one has left, up to an escape sequence that is cut off."""
        text, self._unfinished = split_unfinished(self._unfinished + piece)
        return text

    def _complete_answer(self, record: records.AssistantChat) -> None:
        """Write the words of an answer of which no piece came, and what is to be said of it."""
        if (record.turn, record.step) not in self._streamed:
            words = answer_prose(record)
            self.last_answer += words
            if words and self._piece_key == _thought_key(record):
                self._writer.write_line("Answer:", "model")
            if words:
                self._writer.write_line(words)
        doubts = [figure.doubt for figure in record.figures or () if not figure.has_source]
        if doubts:
            self._writer.write_line(f"not computed: {', '.join(doubts)}", "muted")
        if record.stopped or record.cut:
            self._writer.write_line("stopped" if record.stopped else "cut off", "highlight")

    def _follow_agent(self, record: records.Agent) -> None:
        author = author_name(record.party)
        if record.state == "thinking" and record.turn != self._announced_turn:
            self._announced_turn = record.turn
            self._writer.write_line(f"{author} is thinking.", "model")
        elif record.state in _NO_MORE_CODE:
            self._writer.write_line(f"{author} runs no more code for this question.", "highlight")
        elif record.state == "stopped":
            self._writer.write_line(f"{author} was stopped.", "highlight")
        self._writer.end_line()

    # Cells

    def _start_cell(self, record: records.ReplIn) -> None:
        """Name a cell and write its code, unless the user sees it already."""
        self._cells[record.cell] = CellOutput(
            self._writer, self._draw_picture, has_links=bool(self._kernel_folder)
        )
        if isinstance(record, records.UserReplIn) and record.text == self.typed_code:
            self.typed_code = ""
            return
        author = record.party or "model"
        role = "person" if isinstance(record, records.UserReplIn) else "model"
        self._writer.write_line(f"In {record.cell} ({author}), running:", role)
        written_code = self._written_code.get(_block_key(record), "")
        if written_code.strip() != record.text.strip():
            self._writer.write_code(record.text)
        self._piece_key = ()

    def _feed_cell(self, record: records.ReplOutStream) -> None:
        output = self._cells.get(record.cell)
        if output is not None:
            output.feed(record)

    def _end_cell(self, record: records.ReplOut) -> None:
        if record.late:
            if record.text.strip():
                self._writer.write_line(f"Later output of In {record.cell}:", "muted")
                self._writer.write_line(whole_text(record.text))
            return
        output = self._cells.pop(record.cell, None)
        if output is None:
            return
        output.end(record)
        self.finished_cell_count += 1
        is_ok = record.status == Status.OK
        duration_s = record.duration or 0.0
        if is_ok and duration_s < MIN_SHOWN_DURATION_S:
            return
        state = "done" if is_ok else record.status
        is_known = record.detail == self._last_note
        detail = f" {record.detail}" if record.detail and not is_known else ""
        role = "muted" if is_ok else "bad"
        self._writer.write_line(f"In {record.cell}: {state}, {duration_s:.1f} s.{detail}", role)


def author_name(party: str | None) -> str:
    """Return a model's or an agent's name as a sentence begins with it."""
    name = one_line(party or "the model")
    return name[:1].upper() + name[1:]


def _thought_key(record: ModelRecord) -> tuple[object, ...]:
    return record.turn, record.step, "thought"


def _find_ended_cells(earlier_records: Iterable[Record]) -> set[int | None]:
    return {
        record.cell
        for record in earlier_records
        if isinstance(record, records.ReplOut) and not record.late
    }


def _block_key(
    record: records.Approval | records.ReplIn | records.AssistantChatStream,
) -> tuple[object, ...]:
    """Identify a code block of an answer."""
    return record.turn, record.step, record.block
