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
"""An index for each dimension, None for a whole dimension."""


def slice_fits(slice: Slice | None, shape: Sequence[int]) -> bool:
    """Return whether a slice fits an array. None stands for a whole array of at most two
    dimensions."""
    if slice is None:
        return len(shape) <= 2
    if len(slice) != len(shape) or len(shape) <= 2:
        return False
    pairs = zip(slice, shape, strict=True)
    return all(index is None or index < size for index, size in pairs)


def choose_slice(shape: Sequence[int]) -> Slice | None:
    """Return the slice that an array shows first: its last two dimensions, at index 0 of the others;
    None for a whole array of at most two dimensions."""
    if len(shape) <= 2:
        return None
    # An empty dimension has no index 0, so it comes before others.
    by_preference = sorted(range(len(shape)), key=lambda number: (shape[number] > 0, -number))
    whole_dimensions = by_preference[:2]
    return tuple(None if number in whole_dimensions else 0 for number in range(len(shape)))


def format_slice(slice: Slice) -> str:
    """Format ``3, :, :``."""
    return ", ".join(":" if index is None else str(index) for index in slice)


def parse_slice(text: str, shape: Sequence[int]) -> Slice:
    """Parse a typed slice, such as ``3, :, :``. Raises `ValueError` with a sentence."""
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    slice: Slice = ()
    try:
        slice = tuple(None if part == ":" else int(part) for part in parts)
        pairs = zip(slice, shape, strict=True)
        fits = all(index is None or index in range(size) for index, size in pairs)
    except ValueError:
        fits = False
    if not fits or slice.count(None) not in (1, 2):
        bounds = " × ".join(f"{size:,}" for size in shape)
        raise ValueError(
            f"Enter a number or : for each dimension of {bounds}, and : for one or two of them."
        )
    return slice


class ArrayView(View, Vertical):
    """Lets the user choose which slice of an array, shared by all its views, is shown."""

    BINDINGS = bindings(ARRAY_COMMANDS)

    def __init__(self, subject: Subject, content: TableView | PlotView) -> None:
        super().__init__(subject)
        self._content = content
        self._facts: ArrayFacts | None = None
        self._statistics: ColumnStatistics | None = None
        self._drawn_slice: Slice | None = ()
        """None for the whole array, empty for none yet."""

    def compose(self) -> ComposeResult:
        yield Static(classes="array-head", markup=False)
        yield self._content

    def on_mount(self) -> None:
        self.reload()

    def reload(self) -> None:
        self._drawn_slice = ()
        self._statistics = None
        read = partial(self.subject.client.array, self.subject.path)
        self.fetcher.ask("array", read, self._set_facts, self.fail)

    def _set_facts(self, facts: ArrayFacts) -> None:
        """Take the shape of the array, and choose a slice that fits it."""
        if not slice_fits(self.subject.slice, facts.shape):
            self.subject.slice = choose_slice(facts.shape)
        self._facts = facts
        self._show_slice()
        self.refresh_bindings()

        def show(statistics: ColumnStatistics) -> None:
            self._statistics = statistics
            self._draw_head()

        read = partial(self.subject.client.array_figures, self.subject.path)
        self.fetcher.ask("figures", read, show, lambda _: None)

    def _show_slice(self) -> None:
        slice = self.subject.slice
        path = self.subject.path
        if self._facts is not None and slice != self._drawn_slice:
            self._drawn_slice = slice
            self._draw_head()
            if slice is not None:
                path = (*path, ["slice", list(slice)])
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
        slice = self.subject.slice
        if facts is None or slice is None:
            return
        new_slice = list(slice)
        # Step along the first dimension that has an index.
        for dimension, index in enumerate(slice):
            if index is not None:
                last_index = facts.shape[dimension] - 1
                new_slice[dimension] = max(0, min(last_index, index + step))
                break
        self._choose(tuple(new_slice))

    def action_enter_slice(self) -> None:
        if self._facts is not None and self.subject.slice is not None:
            form = "a number or : for each dimension, as in 3, :, :"
            self.ask(form, format_slice(self.subject.slice), self._set_typed_slice, "slice:")

    def _set_typed_slice(self, text: str) -> None:
        if self._facts is None:
            return
        try:
            self._choose(parse_slice(text, self._facts.shape))
        except ValueError as error:
            self.fail(str(error))

    def _choose(self, slice: Slice) -> None:
        if slice != self.subject.slice:
            self.subject.slice = slice
            self._show_slice()


def make_plot_view(subject: Subject) -> View:
    plot = PlotView(subject)
    if "array" in subject.opened.views:
        return ArrayView(subject, plot)
    return plot
