"""The list of questions and cells to which a session can go back.

Enter on one of them opens `RewindPreviewScreen`, which shows what would go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.values import describe_files
from mahtab_tui.session.rewind_points import RewindPoint
from mahtab_tui.tui.screens.listing import ListScreen, matches_words
from mahtab_tui.tui.screens.rewind_preview import RewindPreviewScreen, count_items

if TYPE_CHECKING:
    from mahtab_tui.session import Session

# Widths of the columns, in terminal cells.
LABEL_WIDTH = 10
AUTHOR_WIDTH = 9
MAX_NAMED_VARIABLES = 12
"""At most this many of the variables that changed are named."""
_COLUMNS = ("vars", "files", "entries")
"""The titles of the columns with figures, which are as wide as these."""
_COLUMN_GAP = 2
"""Cells before each of these columns."""
_EMPTY = "There is nothing to go back to: nothing was asked, and no cell has run."


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
        self.show_count(f"{_align_columns(_COLUMNS)} ")
        self.fill(0)

    def find_rows(self, typed: str) -> Sequence[RewindPoint]:
        return [
            point
            for point in self._points
            if matches_words(typed, f"{point.label} {point.author} {point.text}")
        ]

    def line(self, row: RewindPoint, width: int) -> Content:
        counts = (len(row.variables), len(row.files), len(row.entries))
        columns = _align_columns([str(count or "") for count in counts])
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
        variables = f"variables: {', '.join(names)}" if names else ""
        files = one_line(describe_files(list(row.files.values())))
        changes = [part for part in (variables, files) if part]
        parts = [
            f"Changed {' · '.join(changes)}" if changes else "Changed nothing",
            count_items(len(row.entries), "entry", "entries"),
        ]
        return Content.styled(" · ".join(parts), "$muted")

    def choose(self, row: RewindPoint) -> None:
        """Show what would go back, and close the list, too, once it has gone back."""

        def close(is_done: bool | None) -> None:
            if is_done:
                self.dismiss(None)

        self.app.push_screen(RewindPreviewScreen(row, self._session), close)


def _label(point: RewindPoint) -> str:
    """Return what the list calls a point: ``In 4``, ``In 4–6``, or ``Ask 2``."""
    if point.mode == "ask":
        return f"Ask {point.turn}"
    return point.label.replace(" to ", "–")


def _first_line(point: RewindPoint) -> str:
    """Return the first line of an input that is not empty."""
    return one_line(point.text.strip().partition("\n")[0])


def _align_columns(texts: Sequence[str]) -> str:
    """Return texts below the titles of the columns, one for each of `_COLUMNS`."""
    aligned_texts: list[str] = []
    for title, text in zip(_COLUMNS, texts, strict=True):
        aligned_texts.append(text.rjust(len(title) + _COLUMN_GAP))
    return "".join(aligned_texts)
