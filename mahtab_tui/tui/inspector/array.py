"""A view of a slice of an array, which the user chooses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.file_sizes import format_size
from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.inspector_client import ArrayFacts, ColumnStatistics
from mahtab_tui.tui.commands.declarations import ARRAY_COMMANDS, bindings
from mahtab_tui.tui.inspector import Excerpt, Subject, View
from mahtab_tui.tui.inspector.plot import PlotView
from mahtab_tui.tui.inspector.table_view import TableView, bars

Slice = tuple[int | None, ...]
"""An index for each dimension of an array, or None for all of a dimension. One or two are None, and these
are shown as a row or a table. A slice of None is a whole array of at most two dimensions."""


def slice_fits(array_slice: Slice | None, shape: Sequence[int]) -> bool:
    """Return whether an array of a shape has a slice, which may be one of an earlier shape."""
    if array_slice is None:
        return len(shape) <= 2
    if len(array_slice) != len(shape) or len(shape) <= 2:
        return False
    pairs = zip(array_slice, shape, strict=True)
    return all(index is None or index < size for index, size in pairs)


def choose_slice(shape: Sequence[int]) -> Slice | None:
    """Return the slice of an array that is shown first.

    It has all of the last two dimensions, and index 0 of the others: ``0, 0, :, :``. As an empty
    dimension has no index 0, all of it comes first. It is None for a whole array of at most two
    dimensions.
    """
    if len(shape) <= 2:
        return None
    # Empty dimensions first (`False < True`), then the last ones.
    by_preference = sorted(range(len(shape)), key=lambda number: (shape[number] > 0, -number))
    whole_dimensions = by_preference[:2]
    return tuple(None if number in whole_dimensions else 0 for number in range(len(shape)))


def format_slice(array_slice: Slice) -> str:
    """Return a slice as Python would write it between brackets: ``3, :, :``."""
    return ", ".join(":" if index is None else str(index) for index in array_slice)


def parse_slice(text: str, shape: Sequence[int]) -> Slice:
    """Parse a typed slice, such as ``3, :, :``, also in brackets.

    Args:
        text: What the user has typed.
        shape: The size of each dimension.

    Raises:
        ValueError: It is not a slice of this array. The message is a sentence for the user.
    """
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    array_slice: Slice = ()
    try:
        array_slice = tuple(None if part == ":" else int(part) for part in parts)
        pairs = zip(array_slice, shape, strict=True)
        fits = all(index is None or index in range(size) for index, size in pairs)
    except ValueError:
        # A part is not a number, or there are more or fewer parts than dimensions.
        fits = False
    if not fits or array_slice.count(None) not in (1, 2):
        bounds = " × ".join(f"{size:,}" for size in shape)
        raise ValueError(
            f"Enter a number or : for each dimension of {bounds}, and : for one or two of them."
        )
    return array_slice


class ArrayView(View, Vertical):
    """Shows a slice of an array as a table or a plot, and lets the user choose another slice.

    All views of the array share the slice, which is in their `Subject`.
    """

    BINDINGS = bindings(ARRAY_COMMANDS)

    def __init__(self, subject: Subject, content: TableView | PlotView) -> None:
        super().__init__(subject)
        self._content = content
        """Shows the values of the slice."""
        self._facts: ArrayFacts | None = None
        """The shape and the type of the array; None until they have come from the kernel."""
        self._statistics: ColumnStatistics | None = None
        """Statistics of the whole array; None until they have come, and if there are none."""
        self._has_drawn = False
        """Whether the content shows `_drawn_slice`. It does not before the first slice, and after
        the array may have changed."""
        self._drawn_slice: Slice | None = None
        """The slice that the content shows; None for a whole array."""

    def compose(self) -> ComposeResult:
        yield Static(classes="array-head", markup=False)
        yield self._content

    def on_mount(self) -> None:
        self.reload()

    def reload(self) -> None:
        self._has_drawn = False
        self._statistics = None
        read = partial(self.subject.client.array, self.subject.path)
        self.fetcher.run("array", read, self._set_facts, self.fail)

    def _set_facts(self, facts: ArrayFacts) -> None:
        """Take the shape of the array, choose a slice if the present one does not fit, and show it."""
        if not slice_fits(self.subject.slice, facts.shape):
            self.subject.slice = choose_slice(facts.shape)
        self._facts = facts
        self._show_slice()
        self.refresh_bindings()

        def show(statistics: ColumnStatistics) -> None:
            self._statistics = statistics
            self._draw_head()

        read = partial(self.subject.client.array_figures, self.subject.path)
        self.fetcher.run("figures", read, show, lambda _: None)

    def _show_slice(self) -> None:
        """Show the chosen slice, unless it is shown already or the shape is not known yet."""
        array_slice = self.subject.slice
        is_drawn = self._has_drawn and array_slice == self._drawn_slice
        if self._facts is None or is_drawn:
            return
        self._has_drawn = True
        self._drawn_slice = array_slice
        self._draw_head()
        path = self.subject.path
        if array_slice is not None:
            path = (*path, ["slice", list(array_slice)])
        self._content.show_path(path)

    def take_focus(self) -> None:
        self._show_slice()  # another view may have changed it
        self._content.take_focus()

    @property
    def excerpt(self) -> Excerpt:
        if not isinstance(self._content, TableView):
            return super().excerpt
        excerpt = self._content.excerpt
        if self.subject.slice is None:
            return excerpt
        rows = f", {excerpt.description}" if excerpt.description else ""
        return Excerpt(excerpt.opened, f"[{format_slice(self.subject.slice)}]{rows}")

    def _draw_head(self) -> None:
        """Show the shape, the type and some statistics above the values."""
        facts = self._facts
        statistics = self._statistics
        if facts is None:
            return
        shape = " × ".join(f"{size:,}" for size in facts.shape)
        parts: list[tuple[str, str] | str] = [(shape, "bold"), f"  {plain(facts.dtype)}"]
        for fact in (format_size(facts.bytes), plain(facts.device)):
            if fact:
                parts.append((f"  {fact}", "$muted"))
        if statistics is not None and statistics.min:
            interval = f"{statistics.min} … {statistics.max}"
            parts.append((f"   {interval}  mean {statistics.mean}", "$muted"))
            parts += [("  ", ""), (bars(statistics.bars), "$person")]
            if statistics.missing:
                parts.append((f"  {statistics.missing:,} missing", "$highlight"))
        if self.subject.slice is not None:
            parts += ["\n", ("slice  [ ", "$muted")]
            parts.append((format_slice(self.subject.slice), "bold $highlight"))
            parts.append((" ]   , and . step, g enters a slice", "$muted"))
        self.query_one(".array-head", Static).update(Content.assemble(*parts))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("step_slice", "enter_slice"):
            return self.subject.slice is not None
        return super().check_action(action, parameters)

    def action_step_slice(self, step: int) -> None:
        """Go to the next (1) or previous (-1) slice along the first dimension that has an index."""
        facts = self._facts
        array_slice = self.subject.slice
        if facts is None or array_slice is None:
            return
        new_slice = list(array_slice)
        for dimension, index in enumerate(array_slice):
            if index is not None:
                last_index = facts.shape[dimension] - 1
                new_slice[dimension] = max(0, min(last_index, index + step))
                break
        self._choose(tuple(new_slice))

    def action_enter_slice(self) -> None:
        if self._facts is not None and self.subject.slice is not None:
            form = "a number or : for each dimension, as in 3, :, :"
            self.open_line(form, format_slice(self.subject.slice), self._set_typed_slice, "slice:")

    def _set_typed_slice(self, text: str) -> None:
        """Show the slice that the user has typed, or say what is wrong with it."""
        if self._facts is None:
            return
        try:
            self._choose(parse_slice(text, self._facts.shape))
        except ValueError as error:
            self.fail(str(error))

    def _choose(self, array_slice: Slice) -> None:
        """Show another slice, here and in the other views of the array."""
        if array_slice != self.subject.slice:
            self.subject.slice = array_slice
            self._show_slice()


def make_plot_view(subject: Subject) -> View:
    """Return a view of an object's plot, with the choice of a slice if it is an array."""
    plot = PlotView(subject)
    if "array" in subject.opened.views:
        return ArrayView(subject, plot)
    return plot
