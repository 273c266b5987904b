"""A view of values as a line, a histogram or a heat map.

The kernel reduces the values to as many as the view has room for, so that a plot of a billion of them
is as quick as one of a hundred.
"""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
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
from mahtab_tui.tui.commands.declarations import PLOT_COMMANDS, bindings
from mahtab_tui.tui.inspector import Subject, View

if TYPE_CHECKING:
    from textual_plotext import PlotextPlot


HISTOGRAM_TICKS = 5
"""Numbers below a histogram, with those at its ends."""


class PlotView(View, Vertical, can_focus=True):
    """Draws values as a line, a histogram or a heat map."""

    BINDINGS = bindings(PLOT_COMMANDS)

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._kind: Literal["line", "histogram"] = "line"
        """What the user wants to see. The kernel answers with a heat map for a table of values."""
        self._path: ObjectPath | None = None if "array" in subject.opened.views else subject.path
        """Where the values are; None until the array's slice is known."""

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.reload())

    def on_resize(self, event: Resize) -> None:
        self.reload()

    def show_path(self, path: ObjectPath) -> None:
        """Show other values, such as another slice of an array."""
        self._path = path
        self.reload()

    def reload(self) -> None:
        # The number of values depends on the size, which is known after the layout.
        self.call_after_refresh(self._fetch)

    def _fetch(self) -> None:
        if self._path is None or not self.size:
            return
        columns = self.size.width - 2
        # A heat map has two rows of values in each row of the screen.
        rows = 2 * self.size.height - 2
        fetch = partial(self.subject.client.plot, self._path, self._kind, columns, rows)
        self.fetcher.run("plot", fetch, self._show, self.fail)

    def _show(self, plot: Plot) -> None:
        """Put the drawing of a plot into the view."""
        self.remove_children()
        if plot.kind == "heat":
            heat_map = HeatMap(plot)
            self.mount(heat_map)
            ends = f"{heat_map.low:.4g} … {heat_map.high:.4g}"
            self.show_status((f"heat map, {ends}  ·  h shows the histogram", "$muted"))
        elif not plot.ys:
            self.mount(Static("It has no numbers to plot.", classes="quiet-words", markup=False))
        else:
            self.mount(_plotext(plot, self.app.theme_variables["person"]))
            if plot.kind == "histogram":
                status = "histogram  ·  h shows the values"
            else:
                status = "values by position  ·  h shows the histogram"
            self.show_status((status, "$muted"))

    def action_histogram(self) -> None:
        """Change between the values and their histogram."""
        self._kind = "histogram" if self._kind == "line" else "line"
        self._fetch()


class HeatMap(Widget):
    """Draws a table of numbers as colours.

    Each row of the screen shows two rows of values: ``▀`` has the colour of the upper one, and its
    background that of the lower one.
    """

    def __init__(self, plot: Plot) -> None:
        super().__init__()
        self._grid = plot.grid
        values = [value for row in plot.grid for value in row if value is not None] or [0.0]
        self.low = min(values)
        self.high = max(values)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.visual_style.rich_style
        cell_width = max(1, width // len(self._grid[0])) if self._grid else 1
        segments = [Segment(" ", base)]
        # The last row of the screen may have only an upper row of values.
        upper_row = self._grid[2 * y] if 2 * y < len(self._grid) else ()
        lower_row = self._grid[2 * y + 1] if 2 * y + 1 < len(self._grid) else ()
        for upper_value, lower_value in zip_longest(upper_row, lower_row):
            upper = self._colour(upper_value)
            lower = self._colour(lower_value)
            style = Style(color=upper and upper.rich_color, bgcolor=lower and lower.rich_color)
            glyph = "▀" if upper else " "
            segments.append(Segment(glyph * cell_width, base + style))
        return Strip(segments).crop_extend(0, width, base)

    def _colour(self, value: float | None) -> Color | None:
        """Return the colour of a value; None for a missing one, which is not drawn."""
        if value is None:
            return None
        fraction = (value - self.low) / (self.high - self.low or 1.0)
        variables = self.app.theme_variables
        low = Color.parse(variables["panel"])
        middle = Color.parse(variables["person"])
        high = Color.parse(variables["highlight"])
        if fraction < 0.5:
            return low.blend(middle, fraction * 2)
        return middle.blend(high, fraction * 2 - 1)


def _plotext(plot: Plot, colour: str) -> PlotextPlot:
    """Return the widget that draws a line or a histogram."""
    # Imported late, because few sessions show a plot.
    from textual_plotext import PlotextPlot

    widget = PlotextPlot()
    rgb = Color.parse(colour).rgb
    if plot.kind == "histogram":
        widget.plt.bar(list(plot.xs), list(plot.ys), color=rgb, width=1.0)
        first_x = plot.xs[0]
        span = plot.xs[-1] - first_x
        last_tick = HISTOGRAM_TICKS - 1
        ticks = [first_x + span * number / last_tick for number in range(HISTOGRAM_TICKS)]
        widget.plt.xticks(ticks, [f"{tick:.4g}" for tick in ticks])
    else:
        widget.plt.plot(list(plot.xs), list(plot.ys), color=rgb, marker="braille")
    return widget
