"""Goes back to an earlier question or cell: the list of points, and what would go back."""

from __future__ import annotations

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
from mahtab_tui.bus.values import describe_files
from mahtab_tui.session.rewind_points import RewindPoint
from mahtab_tui.session.rewinding import RewindPreview, RewindScope
from mahtab_tui.tui.dialog import Dialog, dialog_box
from mahtab_tui.tui.messages import EditInput, ReplaceInput
from mahtab_tui.tui.rows.changes import change_lines
from mahtab_tui.tui.screens.listing import ListScreen, matches_words
from mahtab_tui.tui.workers import Fetcher

if TYPE_CHECKING:
    from mahtab_tui.session import Session

LABEL_WIDTH = 10
AUTHOR_WIDTH = 9
MAX_TEXT_LINES = 3
"""At most this many lines are shown of the input that a rewind brings back."""
MAX_NAMED_VARIABLES = 12
_COLUMNS = ("vars", "files", "entries")
_COLUMN_GAP = 2
_EMPTY = "There is nothing to go back to: nothing was asked, and no cell has run."
_OUTSIDE = "What is outside this kernel and the watched files stays as it is. /redo brings all of this back, until you enter something else."
_NOTHING = "Nothing would go back."
_BLANK_TICK = "[ ] "
_SET_TICK = "[x] "
_NO_TICK = "[-] "


def _label(point: RewindPoint) -> str:
    """``In 4``, ``In 4–6``, or ``Ask 2``."""
    if point.mode == "ask":
        return f"Ask {point.turn}"
    return point.label.replace(" to ", "–")


def _first_line(point: RewindPoint) -> str:
    """Return the first line of an input that is not empty."""
    return one_line(point.text.strip().partition("\n")[0])


def _count(count: int, noun: str, plural: str = "") -> str:
    """Format ``1 entry``, ``1,200 entries``.

    Args:
        plural: Of the noun; by default with an s.
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or noun + 's'}"


class RewindScreen(ListScreen[None, RewindPoint]):
    """The points to which the session can go back, the newest first."""

    heading_text = "Rewind"
    hint = "Enter shows what would go back · Esc leaves everything as it is"
    placeholder = "type to filter questions and cells"
    box_classes = "large listing fitted"

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._points = session.rewinding.points()

    def on_mount(self) -> None:
        heads = [f"{name:>{len(name) + _COLUMN_GAP}}" for name in _COLUMNS]
        self.show_count("".join(heads) + " ")
        self.fill(0)

    def find_rows(self, typed: str) -> Sequence[RewindPoint]:
        return [
            point
            for point in self._points
            if matches_words(typed, f"{point.label} {point.author} {point.text}")
        ]

    def line(self, row: RewindPoint, width: int) -> Content:
        counts = (len(row.variables), len(row.files), len(row.entries))
        columns = "".join(
            f"{count or '':>{len(name) + _COLUMN_GAP}}"
            for name, count in zip(_COLUMNS, counts, strict=True)
        )
        text_width = max(0, width - LABEL_WIDTH - AUTHOR_WIDTH - len(columns) - 1)
        text = Content(_first_line(row)).truncate(text_width, ellipsis=True, pad=True)
        colour = "$model" if row.mode == "ask" else "$person"
        author = one_line(row.author)[: AUTHOR_WIDTH - 1]
        return Content.assemble(
            (f"{_label(row):<{LABEL_WIDTH}}", colour),
            (f"{author:<{AUTHOR_WIDTH}}", "$muted"),
            text,
            (columns, "$muted"),
        )

    def describe(self, row: RewindPoint | None) -> Content:
        if row is None:
            return Content(_EMPTY if not self._points else "Nothing matches.")
        names = [f"{sign}{one_line(name)}" for name, sign in row.variables.items()]
        omitted_count = len(names) - MAX_NAMED_VARIABLES
        if omitted_count > 0:
            names[MAX_NAMED_VARIABLES:] = [f"and {omitted_count:,} more"]
        parts = [
            f"variables: {', '.join(names)}" if names else "",
            one_line(describe_files(list(row.files.values()))),
            _count(len(row.entries), "entry", "entries"),
        ]
        changed = "Changed " if names or row.files else "Changed nothing · "
        return Content.styled(changed + " · ".join(filter(None, parts)), "$muted")

    def choose(self, row: RewindPoint) -> None:
        def close(is_done: bool | None) -> None:
            if is_done:
                self.dismiss(None)

        self.app.push_screen(RewindPreviewScreen(row, self._session), close)


class Tick(Static, can_focus=True):
    """A part of a rewind, which Space or Enter includes or leaves out."""

    BINDINGS: ClassVar[list[BindingType]] = [("space,enter", "change", "Change")]

    class Changed(Message):
        """It was included or left out."""

    def __init__(self, name: str) -> None:
        super().__init__(classes="tick", markup=False)
        self.part = name
        self.is_set = True
        self._facts = ""
        self._draw()

    def show(self, facts: str, *, can_go: bool) -> None:
        """Say what of the part would go back.

        Args:
            can_go: Whether anything of it can.
        """
        self._facts = facts
        self.disabled = not can_go
        self._draw()

    def _draw(self) -> None:
        mark = _SET_TICK if self.is_set else _BLANK_TICK
        if self.disabled:
            mark = _NO_TICK
        self.update(Content.assemble(mark, f"{self.part:<14}", (one_line(self._facts), "$muted")))

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

    Only the button does, which is never the first to have the focus, and no letter presses it.
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
        self._changes = Static(
            "Comparing with the state before …", id="rewind-changes", markup=False
        )
        self._details = VerticalScroll(can_focus=False)
        self._rewind = Button("Rewind", id="rewind", variant="warning", compact=True)
        self._rewind.disabled = True
        self._leave = Button("Cancel", id="leave", compact=True)
        self._preview: RewindPreview | None = None
        self._is_first_preview = True
        self._is_going_back = False
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
        ticks = self._ticks.values()
        return RewindScope(*(tick.is_set and not tick.disabled for tick in ticks))

    @on(Tick.Changed)
    def _ask_for_preview(self) -> None:
        self._rewind.disabled = True
        self._preview = None
        preview = partial(self._session.rewinding.preview, self._point, self._scope)
        self._fetcher.run("rewind", preview, self._show, self._fail)

    def _show(self, preview: RewindPreview) -> None:
        if self._is_first_preview:
            self._is_first_preview = False
            self._describe_parts(preview)
        restoration = preview.restoration
        lines: list[Content] = []
        if preview.target.cell is not None or preview.unrestorable:
            lines = change_lines(restoration.changes, preview.unrestorable, restoration.files)
        outside = _NOTHING if preview.does_nothing else _OUTSIDE
        lines += [Content(""), Content.styled(outside, "$muted")]
        self._changes.update(Content("\n").join(lines))
        self._preview = preview
        self._rewind.disabled = preview.does_nothing

    def _describe_parts(self, preview: RewindPreview) -> None:
        """Say at each tick what of its part would go back; all are set."""
        entries = _count(len(preview.entries), "entry", "entries")
        self._ticks["conversation"].show(entries, can_go=bool(preview.entries))
        cells = self._name_cells(preview.cells) if preview.cells else "no cell can be undone"
        self._ticks["namespace"].show(cells, can_go=bool(preview.cells))
        unwatched = preview.restoration.files_unwatched
        file_count = len(preview.restoration.files)
        files = f"not watched: {unwatched}" if unwatched else _count(file_count, "file")
        self._ticks["files"].show(files, can_go=file_count > 0 and not unwatched)

    def _name_cells(self, cells: Sequence[int]) -> str:
        """Name the cells by their authors: ``3 cells: 2 of yours, 1 of codex``."""
        counts: dict[str, int] = {}
        for cell in cells:
            author = self._session.rewinding.author_of(cell) or "others"
            counts[author] = counts.get(author, 0) + 1
        authors = [
            f"{count:,} {'of yours' if author == 'you' else f'of {author}'}"
            for author, count in counts.items()
        ]
        count = _count(len(cells), "cell")
        if list(counts) == ["you"]:
            return count
        return f"{count}: {', '.join(authors)}"

    def _fail(self, sentence: str) -> None:
        if self._is_going_back:
            self._set_going_back(False)
            self._leave.focus()
        self._changes.update(Content.styled(one_line(sentence), "$bad"))
        self._rewind.disabled = True

    def action_scroll(self, direction: int) -> None:
        if direction > 0:
            self._details.scroll_page_down()
        else:
            self._details.scroll_page_up()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button is self._leave:
            self.action_leave()
        elif self._preview is not None:
            preview = self._preview
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
