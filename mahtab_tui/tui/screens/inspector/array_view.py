"""Arrays and tensors: what they are, and a slice of them as a table or as a plot."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.looking import ArrayFacts, ArrayFigures, InspectedObject, Path
from mahtab_tui.tui.commands.inspector import ARRAY_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.slicing import first_slice, fits, fixed, parse, stepped, written
from mahtab_tui.tui.screens.inspector.table_columns import bars
from mahtab_tui.tui.screens.inspector.table_view import TableView
from mahtab_tui.tui.screens.inspector.view import LineWanted, Place, Seen, View


class SlicedView(View, Vertical):
    """A view of an array with its facts above, and a choice of the slice that is seen."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(ARRAY_COMMANDS)]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._facts: ArrayFacts | None = None
        self._figures: ArrayFigures | None = None
        self._dimension = 0
        self._seen: tuple[int | None, ...] | None = ()

    def on_mount(self) -> None:
        self.look_again()

    def look_again(self) -> None:
        place = self.place
        self._seen = ()
        self.fetcher.ask("array", lambda: place.look.array(place.path), self._facts_came, self.fail)

    def _facts_came(self, facts: ArrayFacts) -> None:
        if not fits(self.place.slice, facts.shape):
            self.place.slice = first_slice(facts.shape) if len(facts.shape) > 2 else None
        self._facts = facts
        self._draw_head()
        self._show_slice()
        self.refresh_bindings()
        place = self.place
        self.fetcher.ask("figures", lambda: place.look.array_figures(place.path), self._figures_came, lambda _: None)

    def _figures_came(self, figures: ArrayFigures) -> None:
        self._figures = figures
        self._draw_head()

    def refresh_slice(self) -> None:
        """The slice may have been chosen in another view."""
        if self._facts is not None and self.place.slice != self._seen:
            self._draw_head()
            self._show_slice()

    def _show_slice(self) -> None:
        self._seen = self.place.slice
        self.show_slice(self.place.path if self._seen is None else (*self.place.path, ["slice", list(self._seen)]))

    def show_slice(self, path: Path) -> None:
        """Show what is at a path: the array itself, or a slice of it."""
        raise NotImplementedError

    def _draw_head(self) -> None:
        facts, figures = self._facts, self._figures
        if facts is None:
            return
        shape = " × ".join(f"{size:,}" for size in facts.shape)
        parts: list[tuple[str, str] | str] = [(shape, "bold"), f"  {plain(facts.dtype)}", (f"  {_bytes(facts.bytes)}", "$muted")]
        parts += [(f"  {word}", "$muted") for word in (plain(facts.device), facts.layout) if word]
        if figures is not None and figures.min:
            parts.append((f"   {figures.min} … {figures.max}  mean {figures.mean}" + (f" ± {figures.std}" if figures.std else ""), "$muted"))
            parts += [("  ", ""), (bars(figures.bars), "$person")]
            parts += [(f"  {count:,} {word}", "$moon") for count, word in ((figures.missing, "missing"),) if count]
            parts += [(f"  {figures.zeros:,} {'zero' if figures.zeros == 1 else 'zeros'}", "$muted")] if figures.zeros else []
        if self.place.slice is not None:
            parts += ["\n", ("slice  ", "$muted"), *self._slice_parts(self.place.slice)]
        self.query_one(".array-head", Static).update(Content.assemble(*parts))

    def _slice_parts(self, slice: tuple[int | None, ...]) -> list[tuple[str, str]]:
        chosen = fixed(slice)
        parts = [("[ ", "$muted")]
        for dimension, text in enumerate(written(slice)):
            here = bool(chosen) and dimension == chosen[self._dimension % len(chosen)]
            parts += [(", " if dimension else "", "$muted"), (text, "bold $moon" if here else "$person" if text != ":" else "$muted")]
        return [*parts, (" ]", "$muted"), ("   , and . step, d chooses the dimension, g enters a slice", "$muted")]

    # What the person does

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Slices are of arrays of many dimensions."""
        return self.place.slice is not None if action in ("step_slice", "dimension", "enter_slice") else super().check_action(action, parameters)

    def action_step_slice(self, step: int) -> None:
        facts, slice = self._facts, self.place.slice
        if facts is None or slice is None:
            return
        chosen = fixed(slice)
        if chosen:
            self._choose(stepped(slice, facts.shape, chosen[self._dimension % len(chosen)], step))

    def action_dimension(self) -> None:
        self._dimension += 1
        self._draw_head()

    def action_enter_slice(self) -> None:
        if self._facts is not None and self.place.slice is not None:
            self.post_message(LineWanted("a number or : for each dimension, as in 3, :, :", ", ".join(written(self.place.slice)), self._entered))

    def _entered(self, text: str) -> None:
        if self._facts is None:
            return
        try:
            self._choose(parse(text, self._facts.shape))
        except ValueError as error:
            self.fail(str(error))

    def _choose(self, slice: tuple[int | None, ...]) -> None:
        if slice != self.place.slice:
            self.place.slice = slice
            self.refresh_slice()


class ArrayView(SlicedView):
    """The slice as a table."""

    def compose(self) -> ComposeResult:
        yield Static(classes="array-head", markup=False)
        yield TableView(self.place)

    def show_slice(self, path: Path) -> None:
        place = self.place
        self.fetcher.ask("slice", lambda: place.look.open(path), lambda opened: self._slice_came(path, opened), self.fail)

    def _slice_came(self, path: Path, opened: InspectedObject) -> None:
        self.query_one(TableView).show(Place(self.place.look, path, opened))

    @property
    def seen(self) -> Seen:
        seen = self.query_one(TableView).seen
        if self.place.slice is None:
            return seen
        return Seen(seen.opened, f"[{', '.join(written(self.place.slice))}]" + (f", {seen.what}" if seen.what else ""))

    def take_focus(self) -> None:
        self.refresh_slice()
        self.query_one(TableView).focus()


def _bytes(count: int) -> str:
    """A size, short."""
    size = float(count)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{count:,} bytes" if count < 1000 else f"{size:.1f} {unit}"
    return f"{size:,.0f} GB"
