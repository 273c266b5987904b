"""Numbers drawn: along their positions, by how often they are, or in two dimensions as warmth."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.color import Color
from textual.containers import Vertical
from textual.events import Mount, Resize
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.kernel.looking import Path, Plot
from mahtab_tui.tui.commands.inspector import PLOT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.array_view import SlicedView
from mahtab_tui.tui.screens.inspector.view import Place

if TYPE_CHECKING:
    from textual_plotext import PlotextPlot

Kind = Literal["values", "histogram"]


class PlotView(SlicedView, can_focus=True):
    """A line or a heat map of the values, or their histogram."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(PLOT_COMMANDS)]

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._kind: Kind = "values"
        self._path: Path = place.path

    def compose(self) -> ComposeResult:
        yield Static(classes="array-head", markup=False)
        yield Vertical(classes="plot-area")

    def look_again(self) -> None:
        if "array" in self.place.opened.views:
            super().look_again()
        else:
            self.query_one(".array-head").display = False
            self.show_slice(self.place.path)

    def _on_mount(self, event: Mount) -> None:
        super()._on_mount(event)
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._draw))

    def take_focus(self) -> None:
        self.refresh_slice()
        self.focus()

    def on_resize(self, event: Resize) -> None:
        if self._path:
            self.call_after_refresh(self._draw)

    def show_slice(self, path: Path) -> None:
        self._path = path
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        place, path, kind = self.place, self._path, self._kind
        area = self.query_one(".plot-area").size
        if not area or not (self._facts or "array" not in place.opened.views):
            return
        wanted: Literal["line", "histogram"] = "histogram" if kind == "histogram" else "line"
        self.fetcher.ask("plot", lambda: place.look.plot(path, wanted, area.width - 2, 2 * area.height - 2), self._came, self.fail)

    def _came(self, plot: Plot) -> None:
        area = self.query_one(".plot-area")
        area.remove_children()
        if plot.kind == "heat":
            low, high = _ends(plot)
            area.mount(HeatMap(plot, low, high))
            self.say((f"heat map: means of the parts, {low:.4g} … {high:.4g}  ·  h shows the histogram", "$muted"))
        elif not plot.ys:
            area.mount(Static("It has no numbers that could be drawn.", classes="quiet-words", markup=False))
        else:
            area.mount(_plotext(plot, self.app.theme_variables["person"]))
            what = "histogram" if plot.kind == "histogram" else "values by position"
            self.say((f"{what}  ·  h shows the {'values' if plot.kind == 'histogram' else 'histogram'}", "$muted"))

    def action_histogram(self) -> None:
        self._kind = "histogram" if self._kind == "values" else "values"
        self._draw()


class HeatMap(Widget):
    """Two rows of parts in each row of the screen."""

    def __init__(self, plot: Plot, low: float, high: float) -> None:
        super().__init__()
        self._grid = plot.grid
        self._low = low
        self._span = high - low or 1.0

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.visual_style.rich_style
        rows, columns = len(self._grid), len(self._grid[0]) if self._grid else 0
        tops = self._grid[2 * y] if 2 * y < rows else ()
        lower = self._grid[2 * y + 1] if 2 * y + 1 < rows else ()
        across = max(1, width // columns) if columns else 1
        segments = [Segment(" ", base)]
        for column in range(columns):
            top, bottom = (self._colour(row[column] if column < len(row) else None) for row in (tops, lower))
            if top is None and bottom is None:
                segments.append(Segment(" " * across, base))
            else:
                style = Style(color=top.rich_color if top else None, bgcolor=bottom.rich_color if bottom else None)
                segments.append(Segment(("▀" if top else " ") * across, base + style))
        return Strip(segments).crop_extend(0, width, base)

    def _colour(self, value: float | None) -> Color | None:
        if value is None:
            return None
        part = (value - self._low) / self._span
        variables = self.app.theme_variables
        cold, middle, warm = (Color.parse(variables[name]) for name in ("panel", "person", "moon"))
        return cold.blend(middle, part * 2) if part < 0.5 else middle.blend(warm, part * 2 - 1)


def _ends(plot: Plot) -> tuple[float, float]:
    values = [value for row in plot.grid for value in row if value is not None]
    return (min(values), max(values)) if values else (0.0, 0.0)


def _plotext(plot: Plot, colour: str) -> PlotextPlot:
    from textual_plotext import PlotextPlot

    widget = PlotextPlot()
    rgb = Color.parse(colour).rgb
    if plot.kind == "histogram":
        widget.plt.bar(list(plot.xs), list(plot.ys), color=rgb, width=1.0)
        ticks = [plot.xs[0] + (plot.xs[-1] - plot.xs[0]) * place / 4 for place in range(5)]
        widget.plt.xticks(ticks, [f"{tick:.4g}" for tick in ticks])
    else:
        widget.plt.plot(list(plot.xs), list(plot.ys), color=rgb, marker="braille")
    return widget
