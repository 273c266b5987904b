"""The transcript's view, with actions on the marked entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.events import Click

from mahtab_tui.bus.conversation import Cell, Entry, Note, Question, ToolUse, Words
from mahtab_tui.bus.output import DisplayLine
from mahtab_tui.bus.records import PICTURES, number_entry
from mahtab_tui.tui.commands.command import PaneCommand, bindings
from mahtab_tui.tui.commands.panes import TRANSCRIPT_COMMANDS
from mahtab_tui.tui.editor.pasting import is_prose
from mahtab_tui.tui.external import copy
from mahtab_tui.tui.terminal_app import RIGHT_BUTTON
from mahtab_tui.tui.transcript.fold import NotebookWords, output_text
from mahtab_tui.tui.transcript.layout import is_text_drawn_whole
from mahtab_tui.tui.transcript.output import FRAME, VALUE, scroll_table
from mahtab_tui.tui.transcript.view import TranscriptView, can_be_marked

if TYPE_CHECKING:
    from mahtab_tui.tui.session_port import SessionPort


MOST_FIGURES = 4
_LONGEST_FIGURE = 24


def has_pictures(cell: Cell) -> bool:
    displays = (line for line in cell.output if isinstance(line, DisplayLine))
    return any(line.mime in PICTURES for line in displays)


def _offered(entry: Entry) -> dict[str, bool]:
    """Return, for each command that only some entries have, whether this one has it."""
    cell = entry if isinstance(entry, Cell) else Cell(author="", person=False)
    has_output = bool(len(cell.output) or cell.late_output)
    asks = isinstance(entry, Question)
    can_run = asks or bool(cell.code.strip())
    return {
        "entry-open": has_output or not is_text_drawn_whole(entry),
        "entry-copy-output": has_output,
        "entry-edit": can_run,
        "entry-again": can_run,
        "entry-replace": asks or (cell.person and cell.cell_number is None),
        "entry-explain": cell.status == "error",
        "entry-frames": bool(cell.frames),
        "entry-mention": cell.number is not None and has_pictures(cell),
    }


def entry_menu(entry: Entry, *, undoable: bool) -> list[PaneCommand]:
    offered = _offered(entry) | {"entry-undo": undoable}
    commands = [each for each in TRANSCRIPT_COMMANDS if offered.get(each.id, each.menu)]
    return [*commands, *_figure_rows(entry)]


def _figure_rows(entry: Entry) -> Iterator[PaneCommand]:
    figures = entry.own_figures if isinstance(entry, Words) else []
    found = [figure for figure in figures if figure.cell is not None][:MOST_FIGURES]
    for number, figure in enumerate(found, 1):
        text = figure.text
        shown = text if len(text) <= _LONGEST_FIGURE else f"{text[: _LONGEST_FIGURE - 1]}…"
        title = f"Go to where {shown} comes from (cell {figure.cell})"
        id, action = f"entry-figure-{number}", f"go_to_cell({figure.cell})"
        yield PaneCommand(id, action, "", title, "", "Transcript", menu=True)


def cell_to_undo(entries: Sequence[Entry], entry: Entry) -> Cell | None:
    """Return the cell, or the first cell of an answer that was not undone."""
    if isinstance(entry, Cell):
        return entry if entry.number is not None else None
    if isinstance(entry, Note | NotebookWords) or entry not in entries:
        return None
    first = entries.index(entry)
    while first > 0 and not isinstance(entries[first], Question):
        first -= 1
    answer = takewhile(lambda each: not isinstance(each, Question), entries[first + 1 :])
    cells = [each for each in answer if isinstance(each, Cell) and each.number is not None]
    ran = [cell for cell in cells if not cell.person and cell.agent_index is None]
    return next((cell for cell in ran if not cell.undone), next(iter(ran), None))


class TranscriptPane(TranscriptView, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TRANSCRIPT_COMMANDS)]

    def __init__(self, port: SessionPort, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._port = port

    @property
    def _marked_cell(self) -> Cell | None:
        entry = self.marker.marked
        return entry if isinstance(entry, Cell) else None

    def on_click(self, event: Click) -> None:
        entry, meta = self.viewport.entry_at(event.y), event.style.meta
        if event.chain == 1 and entry is not None and can_be_marked(entry):
            self.marker.entry = entry
            self.refresh()
            if event.button == RIGHT_BUTTON:
                self.action_menu()
            elif self.text_selection:
                return
            elif isinstance(entry, Cell) and FRAME in meta:
                self._port.open_frames(entry, meta[FRAME])
            elif VALUE in meta:
                self._port.open_value(meta[VALUE])

    def action_menu(self) -> None:
        from mahtab_tui.tui.screens.dialog import open_menu

        if (entry := self.marker.marked) is not None:
            cell = cell_to_undo(self.viewport.transcript.entries, entry)
            undoable = cell is not None and not cell.undone
            open_menu(self, entry.plain_text, entry_menu(entry, undoable=undoable))

    def action_copy_entry(self) -> None:
        if (entry := self.marker.marked) is not None:
            copy(self.app, entry.plain_text)

    def action_copy_output(self) -> None:
        cell = self._marked_cell
        if cell is not None and (text := output_text(cell)):
            copy(self.app, text)
        else:
            self.app.notify("This entry has no output.")

    def action_again(self, edit: bool) -> None:
        again = self._port.edit if edit else self._port.enter
        match self.marker.marked:
            case Cell(cell_number=int(number), code=code) if edit:
                self._port.replace("python", code.strip("\n"), number_entry(number))
            case Cell(cell_number=int(number), code=code):
                self._port.run_notebook_cell(number, code)
            case Cell() as cell if cell.code.strip():
                again("python", cell.code.strip("\n"))
            case Question() as question:
                again("ask", question.text)
            case _:
                self.app.notify("Only code and questions can be run again.")

    def action_explain_error(self) -> None:
        entry = self.marker.marked
        if entry is not None and entry.removed:
            self.app.notify("This entry is hidden from the model.")
        elif isinstance(entry, Cell) and entry.status == "error" and entry.number is not None:
            self._port.enter("ask", _about_error(entry))
        else:
            self.app.notify("This entry has no error.")

    @property
    def question_about_error(self) -> str:
        cell = self.viewport.transcript.last_error
        return "" if cell is None else _about_error(cell)

    @property
    def failed_cell(self) -> Cell | None:
        """The newest entry, if it is a failed cell of the user with known frames."""
        cell = self.viewport.transcript.failed_cell
        newest = next(filter(can_be_marked, reversed(self.viewport.transcript.entries)), None)
        return cell if cell is not None and cell.frames and cell is newest else None

    def open_failed_frames(self) -> None:
        if (cell := self.failed_cell) is not None:
            self._port.open_frames(cell, cell.own_frame)

    @property
    def failed_prose(self) -> str:
        """The question that the user just ran as Python; else empty."""
        cell = self.viewport.transcript.last_error
        code = cell.code.strip() if cell is not None and cell.offers_explanation else ""
        return code if is_prose(code) else ""

    def action_mention(self) -> None:
        cell = self._marked_cell
        if cell is not None and has_pictures(cell) and cell.number is not None:
            self._port.mention(f"@cell:{cell.number}")
        else:
            self.app.notify("This entry has no picture.")

    def action_open_frames(self) -> None:
        cell = self._marked_cell
        if cell is not None and cell.frames:
            self._port.open_frames(cell, cell.own_frame)
        else:
            self.app.notify("This entry has no error with known frames.")

    def action_hide_entry(self) -> None:
        entry = self.marker.marked
        if entry is None:
            return
        if entry.removed == "replaced":
            self.app.notify("This entry was replaced, so the model does not see it.")
        elif isinstance(entry, Cell) and entry.approval == "waiting":
            self.app.notify("This code waits for your answer.")
        elif not entry.key:
            self.app.notify("The model has not seen this entry.")
        else:
            self._port.hide(entry.key, not entry.removed)

    def action_undo_entry(self) -> None:
        entry = self.marker.marked
        cell = None if entry is None else cell_to_undo(self.viewport.transcript.entries, entry)
        if cell is None or cell.number is None:
            self.app.notify("Nothing has run here.")
        elif cell.undone:
            self.app.notify("It was undone already.")
        else:
            self._port.undo(cell.number)

    def action_replace_entry(self) -> None:
        match self.marker.marked:
            case Entry(removed="replaced"):
                self.app.notify("This entry was already replaced.")
            case Cell(person=True, cell_number=None) as cell if cell.key:
                self._port.replace("python", cell.code.strip("\n"), cell.key)
            case Question() as question if question.key:
                self._port.replace("ask", question.text, question.key)
            case _:
                self.app.notify("Only your own code and questions can be replaced.")

    def action_open_entry(self) -> None:
        entry = self.marker.marked
        if isinstance(entry, Words | Question | ToolUse) and not is_text_drawn_whole(entry):
            self._port.open_pager("Whole text", "text.txt", lambda: entry.plain_text)
            return
        cell = self._marked_cell
        number = None
        if cell is not None and len(cell.output):
            number = cell.cell_number if cell.number is None else cell.number
        if cell is None or number is None:
            self.app.notify("This entry has no output.")
            return
        displays = [line for line in cell.output if isinstance(line, DisplayLine)]
        pictures = [(line.mime, line.data) for line in displays if line.mime in PICTURES]
        values = [line.value for line in displays if line.value]
        if values:
            self._port.open_value(values[-1])
        elif pictures and not cell.output.omitted:
            self._port.open_pictures(number, pictures)
        elif cell.frames and not cell.output.omitted:
            self.action_open_frames()
        elif cell.number is None:
            self._port.open_stored_output(number)
        elif not cell.status:
            self.app.notify("The cell still runs. Its whole output can be shown when it has ended.")
        else:
            self._port.open_output(cell.number)

    def action_scroll_table(self, step: int) -> None:
        cell, window = self._marked_cell, self.viewport.window
        if cell is not None and window is not None:
            tables = [line for line in cell.output if isinstance(line, DisplayLine)]
            if True in {scroll_table(line, step, window.width) for line in tables}:
                self.redraw_entry(cell)

    def action_fold_entry(self) -> None:
        if (entry := self.marker.marked) is not None:
            entry.collapsed = not entry.collapsed
            self.redraw_entry(entry)

    def action_find(self) -> None:
        self._port.find()


def _about_error(cell: Cell) -> str:
    return f"Explain the error of cell {cell.number}, and how to fix it."
