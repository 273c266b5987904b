"""The list of completions at the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Offset
from textual.widget import Widget

from mahtab_tui.bus.sanitize import one_line

if TYPE_CHECKING:
    from mahtab_tui.kernel.values import Completion

MAX_VISIBLE_ITEMS = 8
MAX_LABEL_WIDTH = 36
"""The maximum width of a label, in cells, like the other widths."""
KIND_WIDTH = 8
MAX_LIST_WIDTH = 90
_GAPS_WIDTH = 6
"""The width of the spaces around a row's label, kind and documentation."""


class CompletionList(Widget):
    """A list of completions.

    The editor handles its keys; it never gets the focus. Its methods are called on the main thread.
    """

    can_focus = False
    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.items: tuple[Completion, ...] = ()
        self.is_requested = False
        """Whether the user opened the list or moved in it: then Enter accepts."""
        self._label_width = 0
        self._chosen_index = 0
        self._top_index = 0
        self._omitted_count = 0
        """How many items the kernel left out."""

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    @property
    def chosen_item(self) -> Completion:
        return self.items[self._chosen_index]

    def open(
        self,
        items: tuple[Completion, ...],
        omitted_count: int,
        anchor: Offset,
        *,
        is_requested: bool,
    ) -> None:
        """Show a list. If one is open, the item that the user has moved to stays chosen.

        Args:
            items: The completions, at least one.
            omitted_count: How many others there are.
            anchor: The screen's cell below which the list is shown, or above it if it does not fit.
            is_requested: Whether the user asked for it by a key.
        """
        chosen_label = ""
        if self.is_open and self._chosen_index:
            chosen_label = self.chosen_item.label
        self.items = items
        self._omitted_count = omitted_count
        self.is_requested = is_requested
        self._top_index = 0
        labels = [item.label for item in items]
        index = 0
        if chosen_label in labels:
            index = labels.index(chosen_label)
        self._choose(index)
        self._place(anchor)
        self.display = True
        self.refresh(layout=True)

    def filter_items(self, items: tuple[Completion, ...]) -> None:
        """Show fewer items, until the kernel has answered.

        The chosen one stays if it is among them.
        """
        chosen_item = self.chosen_item
        self.items = items
        self._omitted_count = 0
        index = 0
        if chosen_item in items:
            index = items.index(chosen_item)
        self._choose(index)

    def close(self) -> None:
        """Hide the list."""
        self.display = False

    def move(self, step: int) -> None:
        """Choose another item.

        Args:
            step: How many rows down; single steps go around, and a page stops at the ends.
        """
        index = self._chosen_index + step
        count = len(self.items)
        self.is_requested = True
        if abs(step) == 1:
            self._choose(index % count)
        else:
            self._choose(max(0, min(count - 1, index)))

    def _choose(self, index: int) -> None:
        """Choose an item, and scroll as little as needed to show it."""
        self._chosen_index = index
        lowest_top = max(self._top_index, index - MAX_VISIBLE_ITEMS + 1)
        self._top_index = max(0, min(lowest_top, index))
        self.refresh()

    def _place(self, anchor: Offset) -> None:
        """Fit the list to its items, next to a cell of the screen."""
        screen = self.screen.size
        longest_label = max(cell_len(one_line(item.label)) for item in self.items)
        longest_doc = max(cell_len(one_line(item.doc)) for item in self.items)
        self._label_width = min(MAX_LABEL_WIDTH, longest_label)
        row_width = self._label_width + KIND_WIDTH + longest_doc + _GAPS_WIDTH
        footer_width = self._footer().cell_length + 1
        width = min(screen.width, max(row_width, footer_width), MAX_LIST_WIDTH)
        # One more line for the footer.
        height = min(len(self.items), MAX_VISIBLE_ITEMS) + 1
        self.styles.width = width
        self.styles.height = height

        # The labels begin below what they complete, after the space at the edge.
        x = max(0, min(anchor.x - 1, screen.width - width))
        y = anchor.y + 1
        if y + height > screen.height:
            y = max(0, anchor.y - height)
        self.absolute_offset = Offset(x, y)

    def render(self) -> Content:
        end = min(len(self.items), self._top_index + MAX_VISIBLE_ITEMS)
        rows = [self._row(index) for index in range(self._top_index, end)]
        return Content("\n").join([*rows, self._footer()])

    def _row(self, index: int) -> Content:
        item = self.items[index]
        label = Content(one_line(item.label)).truncate(self._label_width, ellipsis=True, pad=True)
        kind = (f"{item.kind:<{KIND_WIDTH}}", "$person")
        is_chosen = index == self._chosen_index
        # Muted text would be hard to read on the background of the chosen row.
        doc = (one_line(item.doc), "" if is_chosen else "$muted")
        line = Content.assemble(" ", label, "  ", kind, "  ", doc, " ")
        if self.size.width:
            line = line.truncate(max(1, self.size.width), ellipsis=True, pad=True)
        if is_chosen:
            return line.stylize("bold on $selected-row")
        return line

    def _footer(self) -> Content:
        text = " Tab or Enter accepts" if self.is_requested else " Tab accepts"
        if self._omitted_count or len(self.items) > MAX_VISIBLE_ITEMS:
            total_count = len(self.items) + self._omitted_count
            text += f" · {total_count:,} in all"
        return Content.styled(text, "$muted")
