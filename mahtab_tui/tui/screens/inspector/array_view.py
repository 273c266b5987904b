"""Arrays and tensors: shape, type and figures above a slice, which is shown as a table or as a
plot."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.inspector_client import ArrayFacts, ArrayStatistics
from mahtab_tui.tui.commands.on_screens import ARRAY_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.plot_view import PlotView
from mahtab_tui.tui.screens.inspector.slicing import (
    first_slice,
    fits,
    fixed,
    parse,
    stepped,
    written,
)
from mahtab_tui.tui.screens.inspector.table_columns import bars
from mahtab_tui.tui.screens.inspector.table_view import TableView
from mahtab_tui.tui.screens.inspector.view import Excerpt, Subject, View


class ArrayView(View, Vertical):
    """Lets the user choose the slice of an array that a table or a plot shows. All views of an
    array show the same slice."""

    BINDINGS = bindings(ARRAY_COMMANDS)

    def __init__(self, subject: Subject, content: TableView | PlotView) -> None:
        """content: shows the slice."""
        super().__init__(subject)
        self._content = content
        self._facts: ArrayFacts | None = None
        self._figures: ArrayStatistics | None = None
        self._dimension = 0
        """The number of the dimension, among those that have an index, along which keys step."""
        self._shown: tuple[int | None, ...] | None = ()
        """The slice on the screen; None for all of the array, empty for none yet."""

    def compose(self) -> ComposeResult:
        yield Static(classes="array-head", markup=False)
        yield self._content

    def on_mount(self) -> None:
        self.reload()

    def reload(self) -> None:
        subject = self.subject
        self._shown = ()
        self.fetcher.ask(
            "array", lambda: subject.look.array(subject.path), self._take_facts, self.fail
        )

    def _take_facts(self, facts: ArrayFacts) -> None:
        if not fits(self.subject.slice, facts.shape):
            self.subject.slice = first_slice(facts.shape) if len(facts.shape) > 2 else None
        self._facts = facts
        self._show_slice()
        self.refresh_bindings()
        subject = self.subject
        self.fetcher.ask(
            "figures",
            lambda: subject.look.array_figures(subject.path),
            self._take_figures,
            lambda _: None,
        )

    def _take_figures(self, figures: ArrayStatistics) -> None:
        self._figures = figures
        self._draw_head()

    def _show_slice(self) -> None:
        """Show the chosen slice, unless it is on the screen already."""
        if self._facts is not None and self.subject.slice != self._shown:
            self._shown = self.subject.slice
            self._draw_head()
            self._content.show_path(
                self.subject.path
                if self._shown is None
                else (*self.subject.path, ["slice", list(self._shown)])
            )

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
        return Excerpt(excerpt.opened, f"[{', '.join(written(self.subject.slice))}]{rows}")

    def _draw_head(self) -> None:
        facts, figures = self._facts, self._figures
        if facts is None:
            return
        shape = " × ".join(f"{size:,}" for size in facts.shape)
        parts: list[tuple[str, str] | str] = [
            (shape, "bold"),
            f"  {plain(facts.dtype)}",
            (f"  {_bytes(facts.bytes)}", "$muted"),
        ]
        parts += [(f"  {word}", "$muted") for word in (plain(facts.device), facts.layout) if word]
        if figures is not None and figures.min:
            parts.append(
                (
                    f"   {figures.min} … {figures.max}  mean {figures.mean}"
                    + (f" ± {figures.std}" if figures.std else ""),
                    "$muted",
                )
            )
            parts += [("  ", ""), (bars(figures.bars), "$person")]
            parts += [(f"  {figures.missing:,} missing", "$moon")] if figures.missing else []
            parts += (
                [(f"  {figures.zeros:,} {'zero' if figures.zeros == 1 else 'zeros'}", "$muted")]
                if figures.zeros
                else []
            )
        if self.subject.slice is not None:
            parts += ["\n", ("slice  ", "$muted"), *self._slice_parts(self.subject.slice)]
        self.query_one(".array-head", Static).update(Content.assemble(*parts))

    def _slice_parts(self, slice: tuple[int | None, ...]) -> list[tuple[str, str]]:
        chosen = fixed(slice)
        parts = [("[ ", "$muted")]
        for dimension, text in enumerate(written(slice)):
            here = bool(chosen) and dimension == chosen[self._dimension % len(chosen)]
            parts += [
                (", " if dimension else "", "$muted"),
                (text, "bold $moon" if here else "$person" if text != ":" else "$muted"),
            ]
        return [
            *parts,
            (" ]", "$muted"),
            ("   , and . step, d chooses the dimension, g enters a slice", "$muted"),
        ]

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only arrays of three or more dimensions have slices."""
        return (
            self.subject.slice is not None
            if action in ("step_slice", "dimension", "enter_slice")
            else super().check_action(action, parameters)
        )

    def action_step_slice(self, step: int) -> None:
        facts, slice = self._facts, self.subject.slice
        if facts is None or slice is None:
            return
        chosen = fixed(slice)
        if chosen:
            self._choose(stepped(slice, facts.shape, chosen[self._dimension % len(chosen)], step))

    def action_dimension(self) -> None:
        self._dimension += 1
        self._draw_head()

    def action_enter_slice(self) -> None:
        if self._facts is not None and self.subject.slice is not None:
            self.ask(
                "a number or : for each dimension, as in 3, :, :",
                ", ".join(written(self.subject.slice)),
                self._entered,
            )

    def _entered(self, text: str) -> None:
        if self._facts is None:
            return
        try:
            self._choose(parse(text, self._facts.shape))
        except ValueError as error:
            self.fail(str(error))

    def _choose(self, slice: tuple[int | None, ...]) -> None:
        if slice != self.subject.slice:
            self.subject.slice = slice
            self._show_slice()


def plot_view(subject: Subject) -> View:
    """A view that plots an array by slices, and any other object as a whole."""
    plot = PlotView(subject)
    return ArrayView(subject, plot) if "array" in subject.opened.views else plot


def _bytes(count: int) -> str:
    """Write a size with its unit."""
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{count:,} bytes" if count < 1000 else f"{size:.1f} {unit}"
    return f"{size:,.0f} GB"
