"""Shows what would go back to an earlier question or cell, and goes back.

A rewind has three parts, which the user can leave out: the conversation, the namespace and the files. The
kernel compares the present with the state before, so the preview says what would change and what cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Static

from mahtab_tui.bus.entry_names import unrun_cell_entry
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.session.rewind_points import RewindPoint
from mahtab_tui.session.rewinding import RewindPreview, RewindScope
from mahtab_tui.tui.dialog import Dialog, dialog_box
from mahtab_tui.tui.messages import EditInput, ReplaceInput
from mahtab_tui.tui.rows.changes import change_lines
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session import Session

MAX_TEXT_LINES = 3
"""At most this many lines are shown of the input that a rewind brings back."""
PART_WIDTH = 14
"""Cells of the column with the names of the parts."""
USER = "you"
"""The author of the user's cells."""
_OUTSIDE = "What is outside this kernel and the watched files stays as it is. /redo brings all of this back, until you enter something else."
_NOTHING = "Nothing would go back."
_BLANK_TICK = "[ ] "
_SET_TICK = "[x] "
_NO_TICK = "[-] "
"""Stands before a part that cannot go back."""


class Tick(Static, can_focus=True):
    """A part of a rewind with a box to tick: Space or Enter includes the part or leaves it out."""

    BINDINGS: ClassVar[list[BindingType]] = [("space,enter", "change", "Change")]

    class Changed(Message):
        """The user has included the part, or left it out."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: The name of the part, a field of `RewindScope`.
        """
        super().__init__(classes="tick", markup=False)
        self.part = name
        self.is_set = True
        """Whether the user includes the part."""
        self._facts = ""
        """What of it would go back; empty until this is known."""
        self._draw()

    @property
    def is_included(self) -> bool:
        """Whether something of the part can go back, and the user wants it to."""
        return self.is_set and not self.disabled

    def show(self, facts: str, *, can_go: bool) -> None:
        """Say what of the part would go back.

        Args:
            facts: How much it is, or why nothing of it can go back.
            can_go: Whether anything of it can.
        """
        self._facts = facts
        self.disabled = not can_go
        self._draw()

    def _draw(self) -> None:
        mark = _SET_TICK if self.is_set else _BLANK_TICK
        if self.disabled:
            mark = _NO_TICK
        self.update(
            Content.assemble(mark, f"{self.part:<{PART_WIDTH}}", (one_line(self._facts), "$muted"))
        )

    def action_change(self) -> None:
        self.is_set = not self.is_set
        self._draw()
        self.post_message(self.Changed())

    def on_click(self) -> None:
        if not self.disabled:
            self.focus()
            self.action_change()


class RewindPreviewScreen(Dialog[bool]):
    """Shows what would go back to a point, and does it.

    Only the button goes back. It is never the first to have the focus, and no letter presses it.
    """

    AUTO_FOCUS = "#leave"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Cancel"),
        ("down,right", "app.focus_next", "Next"),
        ("up,left", "app.focus_previous", "Previous"),
        ("pagedown", "scroll(1)", "Down"),
        ("pageup", "scroll(-1)", "Up"),
    ]

    def __init__(self, point: RewindPoint, session: Session) -> None:
        super().__init__()
        self._point = point
        self._session = session
        self._ticks = {name: Tick(name) for name in RewindScope._fields}
        """A box for each part, by the name of the part."""
        self._changes = Static(
            "Comparing with the state before …", id="rewind-changes", markup=False
        )
        self._details = VerticalScroll(can_focus=False)
        self._rewind = Button("Rewind", id="rewind", variant="warning", compact=True)
        self._rewind.disabled = True
        self._leave = Button("Cancel", id="leave", compact=True)
        self._preview: RewindPreview | None = None
        """What the button does; None until the kernel has compared."""
        self._has_described_parts = False
        """Whether the boxes say what of their part would go back."""
        self._is_going_back = False
        """Whether it is too late to leave everything as it is."""
        # The kernel compares, or goes back, one at a time.
        self._fetcher = Fetcher(self, max_running_jobs=1)

    def compose(self) -> ComposeResult:
        with dialog_box(f"Go back to before {self._point.label}?", "rewind"):
            with self._details:
                yield Static(self._input_lines(), id="rewind-input", markup=False)
                with Vertical(id="rewind-ticks"):
                    yield from self._ticks.values()
                yield self._changes
            yield Static(
                "Tab moves · Space ticks · Esc leaves everything as it is",
                classes="quiet",
                markup=False,
            )
            with Horizontal(classes="answers"):
                yield self._leave
                yield self._rewind

    def on_mount(self) -> None:
        self._ask_for_preview()

    def _input_lines(self) -> Content:
        """Draw the beginning of the input that comes back."""
        lines = self._point.text.strip("\n").splitlines()
        drawn = [one_line(line) for line in lines[:MAX_TEXT_LINES]]
        if len(lines) > MAX_TEXT_LINES:
            drawn[-1] += " …"
        return Content.styled("\n".join(drawn), "$muted")

    @property
    def _scope(self) -> RewindScope:
        """The parts that the user includes."""
        return RewindScope(*(tick.is_included for tick in self._ticks.values()))

    @on(Tick.Changed)
    def _ask_for_preview(self) -> None:
        """Ask the kernel what would go back of the parts that are included."""
        self._rewind.disabled = True
        self._preview = None
        preview = partial(self._session.rewinding.preview, self._point, self._scope)
        self._fetcher.run("rewind", preview, self._show, self._fail)

    def _show(self, preview: RewindPreview) -> None:
        """Show what would go back. The first time, say it at the boxes, too."""
        if not self._has_described_parts:
            self._has_described_parts = True
            self._describe_parts(preview)
        lines: list[Content] = []
        if preview.target.cell is not None or preview.unrestorable:
            restoration = preview.restoration
            lines = change_lines(restoration.changes, preview.unrestorable, restoration.files)
        outside = _NOTHING if preview.does_nothing else _OUTSIDE
        lines += [Content(""), Content.styled(outside, "$muted")]
        self._changes.update(Content("\n").join(lines))
        self._preview = preview
        self._rewind.disabled = preview.does_nothing

    def _describe_parts(self, preview: RewindPreview) -> None:
        """Say at each box what of its part would go back."""
        entries = count_items(len(preview.entries), "entry", "entries")
        self._ticks["conversation"].show(entries, can_go=bool(preview.entries))

        cells = "no cell can be undone"
        if preview.cells:
            cells = self._name_cells(preview.cells)
        self._ticks["namespace"].show(cells, can_go=bool(preview.cells))

        file_count = len(preview.restoration.files)
        files = count_items(file_count, "file", "files")
        unwatched_reason = preview.restoration.files_unwatched
        if unwatched_reason:
            files = f"not watched: {unwatched_reason}"
        self._ticks["files"].show(files, can_go=file_count > 0 and not unwatched_reason)

    def _name_cells(self, cells: Sequence[int]) -> str:
        """Name the cells by their authors: ``3 cells: 2 of yours, 1 of codex``."""
        count = count_items(len(cells), "cell", "cells")
        authors = Counter(self._session.rewinding.author_of(cell) or "others" for cell in cells)
        if list(authors) == [USER]:
            return count
        shares: list[str] = []
        for author, cell_count in authors.items():
            owner = "yours" if author == USER else author
            shares.append(f"{cell_count:,} of {owner}")
        return f"{count}: {', '.join(shares)}"

    def _fail(self, sentence: str) -> None:
        """Say why the kernel could not compare, or not go back."""
        if self._is_going_back:
            self._set_going_back(False)
            self._leave.focus()
        self._changes.update(Content.styled(one_line(sentence), "$bad"))
        self._rewind.disabled = True

    def action_scroll(self, direction: int) -> None:
        """Scroll down (1) or up (-1) by a page."""
        if direction > 0:
            self._details.scroll_page_down()
        else:
            self._details.scroll_page_up()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button is self._leave:
            self.action_leave()
        elif self._preview is not None:
            self._go_back(self._preview)

    def _go_back(self, preview: RewindPreview) -> None:
        self._rewind.disabled = True
        self._set_going_back(True)
        self._changes.update("Going back …")
        rewind = partial(self._session.rewinding.rewind, preview)
        self._fetcher.run("rewind", rewind, lambda _: self._finish(), self._fail)

    def action_leave(self) -> None:
        """Close, unless it is too late for leaving everything as it is."""
        if not self._is_going_back:
            super().action_leave()

    def _set_going_back(self, is_going_back: bool) -> None:
        """While the session goes back, disable all that would change what it does."""
        self._is_going_back = is_going_back
        self._leave.disabled = is_going_back
        self.query_one("#rewind-ticks").disabled = is_going_back

    def _finish(self) -> None:
        """Close, and put the input into the editor."""
        point = self._point
        text = point.text.strip("\n")
        if point.position is not None:
            entry = unrun_cell_entry(point.position)
            self.app.post_message(ReplaceInput("python", text, entry))
        else:
            self.app.post_message(EditInput(point.mode, text, keeps_draft=True))
        self.dismiss(True)


def count_items(count: int, noun: str, plural: str) -> str:
    """Return a count such as ``1 entry`` or ``1,200 entries``."""
    return f"{count:,} {noun if count == 1 else plural}"
