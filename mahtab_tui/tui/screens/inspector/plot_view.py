"""Plots numbers: as a line by position, as a histogram, or in two dimensions as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.containers import Vertical
from textual.events import Resize
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.kernel.inspector_client import ObjectPath, Plot
from mahtab_tui.tui.commands.on_screens import PLOT_COMMANDS
from mahtab_tui.tui.commands.pane_command import bindings
from mahtab_tui.tui.screens.inspector.view import Subject, View

if TYPE_CHECKING:
    from textual_plotext import PlotextPlot


class PlotView(View, Vertical, can_focus=True):
    """Draws an object, or a slice of it: a line or a heat map of the values, or their histogram."""

    BINDINGS = bindings(PLOT_COMMANDS)

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._kind: Literal["line", "histogram"] = "line"
        self._path: ObjectPath | None = None if "array" in subject.opened.views else subject.path
        """The drawn plot; None until the slice of an array is known."""

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.reload())

    def on_resize(self, event: Resize) -> None:
        self.reload()

    def show_path(self, path: ObjectPath) -> None:
        self._path = path
        self.reload()

    def reload(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        look, path, kind, size = self.subject.look, self._path, self._kind, self.size
        if path is not None and size:
            self.fetcher.ask(
                "plot",
                lambda: look.plot(path, kind, size.width - 2, 2 * size.height - 2),
                self._show,
                self.fail,
            )

    def _show(self, plot: Plot) -> None:
        self.remove_children()
        if plot.kind == "heat":
            low, high = _ends(plot)
            self.mount(HeatMap(plot, low, high))
            self.say(
                (f"heat map of means, {low:.4g} … {high:.4g}  ·  h shows the histogram", "$muted")
            )
        elif not plot.ys:
            self.mount(Static("It has no numbers to plot.", classes="quiet-words", markup=False))
        else:
            self.mount(_plotext(plot, self.app.theme_variables["person"]))
            what = "histogram" if plot.kind == "histogram" else "values by position"
            self.say(
                (
                    f"{what}  ·  h shows the {'values' if plot.kind == 'histogram' else 'histogram'}",
                    "$muted",
                )
            )

    def action_histogram(self) -> None:
        self._kind = "histogram" if self._kind == "line" else "line"
        self._draw()


class HeatMap(Widget):
    """Draws two rows of values in each row of the screen, as colours."""

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
            top, bottom = (
                self._colour(row[column] if column < len(row) else None) for row in (tops, lower)
            )
            if top is None and bottom is None:
                segments.append(Segment(" " * across, base))
            else:
                style = Style(
                    color=top.rich_color if top else None,
                    bgcolor=bottom.rich_color if bottom else None,
                )
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
