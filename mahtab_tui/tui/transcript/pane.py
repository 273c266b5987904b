"""The transcript's view, with actions on the marked entry."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.events import Click

from mahtab_tui.bus.entries import Cell, Entry, Question
from mahtab_tui.bus.entry_names import unrun_cell_entry
from mahtab_tui.bus.output_lines import DisplayLine
from mahtab_tui.bus.typed_text import is_prose
from mahtab_tui.tui.commands.declarations import TRANSCRIPT_COMMANDS, bindings
from mahtab_tui.tui.external import copy
from mahtab_tui.tui.messages import (
    AskToRewind,
    AskToUndo,
    EditInput,
    FindInTranscript,
    HideEntry,
    MentionInQuestion,
    OpenDisplayedValue,
    OpenFrames,
    OpenMenu,
    OpenOutput,
    OpenPictures,
    OpenStoredOutput,
    OpenText,
    ReplaceInput,
    RunInput,
    RunNotebookCell,
)
from mahtab_tui.tui.terminal_app import RIGHT_BUTTON
from mahtab_tui.tui.transcript.entry_menu import entry_menu, unavailable_reason
from mahtab_tui.tui.transcript.fold import output_text
from mahtab_tui.tui.transcript.marker import can_be_marked
from mahtab_tui.tui.transcript.output_lines import FRAME_KEY, VALUE_KEY
from mahtab_tui.tui.transcript.tables import scroll_table
from mahtab_tui.tui.transcript.view import TranscriptView


class TranscriptPane(TranscriptView, can_focus=True):
    """The transcript of this session, in which entries can be run again, undone and more."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TRANSCRIPT_COMMANDS)]

    def _marked_entry_for(self, command_id: str) -> Entry | None:
        """Return the marked entry if it has a command; else tell the user why not."""
        entry = self.marker.marked
        if entry is None:
            return None
        reason = unavailable_reason(command_id, entry, self.viewport.transcript)
        if reason:
            self.app.notify(reason)
            return None
        return entry

    def on_click(self, event: Click) -> None:
        entry = self.viewport.entry_at(event.y)
        if event.chain != 1 or entry is None or not can_be_marked(entry):
            return
        self.marker.entry = entry
        self.refresh()
        meta = event.style.meta
        if event.button == RIGHT_BUTTON:
            self.action_menu()
        elif self.text_selection:
            return
        elif isinstance(entry, Cell) and FRAME_KEY in meta:
            self._open_frames(entry, meta[FRAME_KEY])
        elif VALUE_KEY in meta:
            self.post_message(OpenDisplayedValue(meta[VALUE_KEY]))

    def action_menu(self) -> None:
        entry = self.marker.marked
        if entry is not None:
            commands = entry_menu(entry, self.viewport.transcript)
            self.post_message(OpenMenu(self, entry.plain_text, commands))

    def action_copy_entry(self) -> None:
        if (entry := self.marker.marked) is not None:
            copy(self.app, entry.plain_text)

    def action_copy_output(self) -> None:
        cell = self._marked_entry_for("entry-copy-output")
        if isinstance(cell, Cell):
            copy(self.app, output_text(cell))

    # The input of an entry

    def action_edit(self) -> None:
        """Put the marked code or question into the editor."""
        match self._marked_entry_for("entry-edit"):
            case Cell(cell_number=int(number), code=code):
                # Enter changes the notebook's cell.
                self.post_message(
                    ReplaceInput("python", code.strip("\n"), unrun_cell_entry(number))
                )
            case Cell(code=code):
                self.post_message(EditInput("python", code.strip("\n")))
            case Question(text=text):
                self.post_message(EditInput("ask", text))

    def action_run(self) -> None:
        """Run the marked code again, or ask the marked question again."""
        match self._marked_entry_for("entry-run"):
            case Cell(cell_number=int(number), code=code):
                self.post_message(RunNotebookCell(number, code))
            case Cell(code=code):
                self.post_message(RunInput("python", code.strip("\n")))
            case Question(text=text):
                self.post_message(RunInput("ask", text))

    def action_rewind(self) -> None:
        entry = self._marked_entry_for("entry-replace")
        if entry is not None:
            self.post_message(AskToRewind(entry.key))

    def action_undo_entry(self) -> None:
        entry = self._marked_entry_for("entry-undo")
        cell = None if entry is None else self.viewport.transcript.cell_to_undo(entry)
        if cell is not None:
            self.post_message(AskToUndo(cell.number))

    # What the model gets of an entry

    def action_hide_entry(self) -> None:
        entry = self.marker.marked
        if entry is None:
            return
        if entry.removed == "replaced":
            self.app.notify("This entry was rewound, so the model does not see it.")
        elif isinstance(entry, Cell) and entry.approval == "waiting":
            self.app.notify("This code waits for your answer.")
        elif not entry.key:
            self.app.notify("The model has not seen this entry.")
        else:
            self.post_message(HideEntry(entry.key, not entry.removed))

    def action_mention(self) -> None:
        cell = self._marked_entry_for("entry-mention")
        if isinstance(cell, Cell):
            self.post_message(MentionInQuestion(f"@cell:{cell.number}"))

    def action_explain_error(self) -> None:
        cell = self._marked_entry_for("entry-explain")
        if not isinstance(cell, Cell):
            return
        if cell.removed:
            self.app.notify("This entry is hidden from the model.")
        else:
            self.post_message(RunInput("ask", _about_error(cell)))

    # The last error, for commands of the application

    @property
    def question_about_error(self) -> str:
        """A question about the newest error; empty without one."""
        cell = self.viewport.transcript.last_error
        return "" if cell is None else _about_error(cell)

    @property
    def failed_cell(self) -> Cell | None:
        """The newest entry, if it is a failed cell of the user with known frames that was not
        undone."""
        cell = self.viewport.transcript.failed_cell
        if cell is None or cell.undone or not cell.frames:
            return None
        # Notes below it do not count.
        for entry in reversed(self.viewport.transcript.entries):
            if can_be_marked(entry):
                return cell if entry is cell else None
        return None

    def open_failed_frames(self) -> None:
        cell = self.failed_cell
        if cell is not None:
            self._open_frames(cell, cell.own_frame)

    @property
    def failed_prose(self) -> str:
        """The question that the user just ran as Python; else empty."""
        cell = self.viewport.transcript.last_error
        if cell is None or not cell.offers_explanation:
            return ""
        code = cell.code.strip()
        return code if is_prose(code) else ""

    # What an entry does not show whole

    def action_open_frames(self) -> None:
        cell = self._marked_entry_for("entry-frames")
        if isinstance(cell, Cell):
            self._open_frames(cell, cell.own_frame)

    def action_open_entry(self) -> None:
        """Open what the marked entry does not show whole."""
        entry = self._marked_entry_for("entry-open")
        if isinstance(entry, Cell):
            self._open_output(entry)
        elif entry is not None:
            self.post_message(OpenText("Whole text", entry.plain_text, "text.txt"))

    def _open_output(self, cell: Cell) -> None:
        """Open a cell's last displayed value, its pictures or its frames, unless output before them is
        omitted on the screen; otherwise its text."""
        # A cell of a notebook that has not run has the output of the file.
        number = cell.cell_number if cell.number is None else cell.number
        displays = [line for line in cell.output if isinstance(line, DisplayLine)]
        values = [display.value for display in displays if display.value]
        is_whole = not cell.output.omitted_lines

        if number is None:
            self.app.notify("This entry has no output.")
        elif values and is_whole:
            self.post_message(OpenDisplayedValue(values[-1]))
        elif cell.pictures and is_whole:
            pictures = [(picture.mime, picture.data) for picture in cell.pictures]
            self.post_message(OpenPictures(number, pictures))
        elif cell.frames and is_whole:
            self._open_frames(cell, cell.own_frame)
        elif cell.number is None:
            self.post_message(OpenStoredOutput(number))
        elif not cell.status:
            self.app.notify(
                "The cell is still running. You can open its full output once it has finished."
            )
        else:
            self.post_message(OpenOutput(number))

    def _open_frames(self, cell: Cell, index: int) -> None:
        """Show the frames of a cell's error.

        Args:
            index: The frame to show first.
        """
        codes = self.viewport.transcript.codes
        self.post_message(OpenFrames(cell, index, codes))

    # How an entry is drawn

    def action_scroll_table(self, step: int) -> None:
        cell = self.marker.marked
        window = self.viewport.window
        if not isinstance(cell, Cell) or window is None:
            return
        has_moved = False
        for line in cell.output:
            if isinstance(line, DisplayLine) and scroll_table(line, step, window.width):
                has_moved = True
        if has_moved:
            self.redraw_entry(cell)

    def action_fold_entry(self) -> None:
        if (entry := self.marker.marked) is not None:
            entry.collapsed = not entry.collapsed
            self.redraw_entry(entry)

    def action_find(self) -> None:
        self.post_message(FindInTranscript())


def _about_error(cell: Cell) -> str:
    return f"Explain the error of cell {cell.number}, and how to fix it."
