"""Views of arrays, plots and pictures."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.color import Color
from textual.containers import Vertical
from textual.content import Content
from textual.events import Resize
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from mahtab_tui.bus.sanitize import plain
from mahtab_tui.kernel.base import KernelError
from mahtab_tui.kernel.inspector_client import ArrayFacts, ColumnStatistics, ObjectPath, Plot
from mahtab_tui.session.attachments import format_size
from mahtab_tui.tui.commands.declarations import (
    ARRAY_COMMANDS,
    PICTURE_COMMANDS,
    PLOT_COMMANDS,
    bindings,
)
from mahtab_tui.tui.external import open_picture
from mahtab_tui.tui.inspector import Excerpt, Subject, View
from mahtab_tui.tui.inspector.table_view import TableView, bars
from mahtab_tui.tui.pictures.block_cache import draw_blocks
from mahtab_tui.tui.pictures.chart import has_chart
from mahtab_tui.tui.pictures.picture import PicturePart, PictureWidget, SizedPicture
from mahtab_tui.tui.terminal_app import cell_size
from mahtab_tui.tui.theme import get_palette

if TYPE_CHECKING:
    from PIL.Image import Image
    from textual_plotext import PlotextPlot

Slice = tuple[int | None, ...]
"""An index for each dimension, None for a whole dimension."""
MAX_PICTURE_PIXELS = 50_000_000
"""A larger picture is not decoded."""
MAX_CACHED_PIXELS = 8_000_000
"""A larger picture is scaled down. This is more than a screen shows."""


def slice_fits(slice: Slice | None, shape: Sequence[int]) -> bool:
    """Return whether a slice fits an array. None stands for a whole array of at most two
    dimensions."""
    if slice is None:
        return len(shape) <= 2
    if len(slice) != len(shape) or len(shape) <= 2:
        return False
    pairs = zip(slice, shape, strict=True)
    return all(index is None or index < size for index, size in pairs)


def format_slice(slice: Slice) -> str:
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


class PlotView(View, Vertical, can_focus=True):
    """Draws values as a line, a histogram or a heat map."""

    BINDINGS = bindings(PLOT_COMMANDS)

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._kind: Literal["line", "histogram"] = "line"
        self._path: ObjectPath | None = None if "array" in subject.opened.views else subject.path
        """None until the array's slice is known."""

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
        if self._path is not None and self.size:
            # A heat map has two rows of values in each row of the screen.
            columns = self.size.width - 2
            rows = 2 * self.size.height - 2
            fetch = partial(self.subject.client.plot, self._path, self._kind, columns, rows)
            self.fetcher.ask("plot", fetch, self._show, self.fail)

    def _show(self, plot: Plot) -> None:
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
        self._kind = "histogram" if self._kind == "line" else "line"
        self._draw()


class HeatMap(Widget):
    """Draws two rows of values in each row of the screen."""

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
        upper_and_lower_row = self._grid[2 * y : 2 * y + 2]
        for values in zip_longest(*upper_and_lower_row):
            upper = self._colour(values[0])
            lower = self._colour(values[1]) if len(values) > 1 else None
            style = Style(color=upper and upper.rich_color, bgcolor=lower and lower.rich_color)
            glyph = "▀" if upper else " "
            segments.append(Segment(glyph * cell_width, base + style))
        return Strip(segments).crop_extend(0, width, base)

    def _colour(self, value: float | None) -> Color | None:
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
    from textual_plotext import PlotextPlot

    widget = PlotextPlot()
    rgb = Color.parse(colour).rgb
    if plot.kind == "histogram":
        widget.plt.bar(list(plot.xs), list(plot.ys), color=rgb, width=1.0)
        first_x = plot.xs[0]
        span = plot.xs[-1] - first_x
        ticks = [first_x + span * quarter / 4 for quarter in range(5)]
        widget.plt.xticks(ticks, [f"{tick:.4g}" for tick in ticks])
    else:
        widget.plt.plot(list(plot.xs), list(plot.ys), color=rgb, marker="braille")
    return widget


class DecodedPicture(NamedTuple):
    """A picture in memory, with the file that it was read from."""

    content: bytes
    suffix: str
    image: Image
    size: tuple[int, int]
    """Pixels, before scaling."""


class PictureView(View, PictureWidget, can_focus=True):
    """Shows a picture as large as it fits."""

    BINDINGS = bindings(PICTURE_COMMANDS)

    def __init__(self, subject: Subject, file: Callable[[], bytes] | None = None) -> None:
        """file: returns another picture; called on a thread, may raise `KernelError`."""
        super().__init__(subject)
        self._file = file
        self._opened: DecodedPicture | None = None
        self._picture: SizedPicture | None = None
        self._rows: list[Strip] = []

    def on_mount(self) -> None:
        self.reload()

    def reload(self) -> None:
        subject = self.subject
        file = self._file or partial(subject.client.picture, subject.path)
        self.show_status(("…", "$muted"))
        self.fetcher.ask("picture", lambda: decode_picture(file()), self._show, self.fail)

    def _show(self, picture: DecodedPicture) -> None:
        self._opened = picture
        self.show_status(("{:,} × {:,} pixels".format(*picture.size), "$muted"))
        self._fit()

    def on_resize(self, event: Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        if self._opened is None or not self.size:
            return
        image = self._opened.image
        width, height = self.size
        # The terminal's cells have sizes in pixels, so that the picture is not distorted.
        cell_width, cell_height = cell_size(self.app)
        scale = min((width - 2) * cell_width / image.width, height * cell_height / image.height)
        columns = max(1, round(image.width * scale / cell_width))
        lines = max(1, round(image.height * scale / cell_height))
        palette = None
        # A chart without graphics is drawn in the theme's colours, and may use the whole view.
        terminal = getattr(self.app, "terminal", None)
        if has_chart(image) and (terminal is None or terminal.graphics is None):
            columns = width
            lines = height
            palette = get_palette(self.app)
        picture = SizedPicture(object(), columns, lines, lambda: image, palette)

        def draw(rows: list[Strip]) -> None:
            self._picture = picture
            self._rows = rows
            self.refresh()

        def fail(_: str) -> None:
            self.fail("The picture cannot be drawn.")

        self.fetcher.ask("half blocks", partial(draw_blocks, picture), draw, fail)

    def action_open_outside(self) -> None:
        def opened(path: str) -> None:
            self.show_status(f"Opened as {path}")

        if self._opened is not None:
            work = partial(open_picture, self._opened.content, self._opened.suffix)
            self.fetcher.ask("viewer", work, opened, self.fail)

    def pictures(self) -> Iterator[PicturePart]:
        if self._picture is not None:
            yield PicturePart(self._picture, self._left_margin, 0, 0, self._picture.rows)

    @property
    def _left_margin(self) -> int:
        columns = 0 if self._picture is None else self._picture.columns
        return max(0, (self.size.width - columns) // 2)

    def render_line(self, y: int) -> Strip:
        base = self.visual_style.rich_style
        margin = Segment(" " * self._left_margin, base)
        row = self._rows[y] if y < len(self._rows) else ()
        return Strip([margin, *row]).crop_extend(0, self.size.width, base)


def decode_picture(data: bytes) -> DecodedPicture:
    """Raises `KernelError`."""
    from PIL import Image as images

    try:
        image = images.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "BMP"))
        pixels = math.prod(image.size)
        if pixels > MAX_PICTURE_PIXELS:
            sentence = "The picture has {:,} × {:,} pixels, which is too many to show."
            raise KernelError(sentence.format(*image.size))
        suffix = ".jpg" if image.format == "JPEG" else f".{image.format or 'png'}".lower()
        factor = math.ceil(math.sqrt(pixels / MAX_CACHED_PIXELS))
        reduced = image.convert("RGBA").reduce(factor)
        return DecodedPicture(data, suffix, reduced, image.size)
    except (OSError, ValueError, SyntaxError, images.DecompressionBombError):
        raise KernelError("The picture cannot be read: its file is damaged.") from None


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
        read = partial(self.subject.client.array, self.subject.path)
        self.fetcher.ask("array", read, self._set_facts, self.fail)

    def _set_facts(self, facts: ArrayFacts) -> None:
        if not slice_fits(self.subject.slice, facts.shape):
            # Show the last two dimensions, at index 0 of the others.
            index_count = len(facts.shape) - 2
            if index_count > 0:
                self.subject.slice = (*[0] * index_count, None, None)
            else:
                self.subject.slice = None
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
