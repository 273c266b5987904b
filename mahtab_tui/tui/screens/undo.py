"""The dialog that shows what an undo would do, and asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.restoration import Restoration
from mahtab_tui.session.undo import not_restored_rows, restored_rows
from mahtab_tui.tui.rows.changes import change_lines
from mahtab_tui.tui.rows.fetcher import Fetcher
from mahtab_tui.tui.screens.dialog import Dialog

OUTSIDE = "Files, and everything else outside this kernel, stay as they are."


class UndoScreen(Dialog[None]):
    """Compares first, then asks, then undoes; each on a thread. Escape leaves everything as it
    is."""

    AUTO_FOCUS = "#no"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,n", "leave", "Keep"),
        ("y", "undo", "Undo"),
        ("left,right", "app.focus_next", "Other"),
    ]

    def __init__(
        self,
        cells: Sequence[int],
        preview: Callable[[], Restoration],
        undo: Callable[[], Restoration],
    ) -> None:
        """cells: those that would be undone. preview, undo: wait for the kernel, and raise
        `KernelError`."""
        super().__init__()
        self._cells = cells
        self._preview = preview
        self._undo = undo
        self._fetcher = Fetcher(self)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(_title(self._cells), id="question", markup=False)
            with VerticalScroll(can_focus=False):
                yield Static("Comparing with the state before …", id="undo-changes", markup=False)
            with Horizontal(classes="answers"):
                yield Button("Keep (n)", id="no", compact=True)
                yield Button("Undo (y)", id="yes", variant="warning", compact=True, disabled=True)

    def on_mount(self) -> None:
        self._fetcher.ask("undo", self._preview, self._ready, self._failed)

    def _ready(self, restoration: Restoration) -> None:
        lines = change_lines(restored_rows(restoration.changes), not_restored_rows(restoration))
        self._tell(Content("\n").join([*lines, Content(""), Content.styled(OUTSIDE, "$muted")]))
        self.query_one("#yes").disabled = False

    def _failed(self, sentence: str) -> None:
        self._tell(Content.styled(one_line(sentence), "$bad"))
        self.query_one("#yes").disabled = True

    def _tell(self, content: Content | str) -> None:
        self.query_one("#undo-changes", Static).update(content)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.action_undo() if event.button.id == "yes" else self.action_leave()

    def action_undo(self) -> None:
        """Undo, once the changes are shown."""
        button = self.query_one("#yes")
        if not button.disabled:
            button.disabled = True
            self._tell("Undoing …")
            self._fetcher.ask("undo", self._undo, lambda _: self.action_leave(), self._failed)


def _title(cells: Sequence[int]) -> str:
    if len(cells) == 1:
        return f"Undo cell {cells[0]}?"
    return f"Undo {len(cells)} cells, from cell {cells[0]} to cell {cells[-1]}?"
