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
from mahtab_tui.tui.charts import has_chart
from mahtab_tui.tui.commands.command import bindings
from mahtab_tui.tui.commands.panes import ARRAY_COMMANDS, PICTURE_COMMANDS, PLOT_COMMANDS
from mahtab_tui.tui.external import open_picture
from mahtab_tui.tui.inspector import Excerpt, Subject, View
from mahtab_tui.tui.inspector.table_view import TableView, bars
from mahtab_tui.tui.pictures import Picture, PicturePart, PictureWidget, draw_blocks
from mahtab_tui.tui.terminal_app import cell_size
from mahtab_tui.tui.theme import get_palette

if TYPE_CHECKING:
    from PIL.Image import Image
    from textual_plotext import PlotextPlot

Slice = tuple[int | None, ...]


def slice_fits(slice: Slice | None, shape: Sequence[int]) -> bool:
    """Return whether a slice fits an array. None stands for a whole array of at most two
    dimensions."""
    if slice is None:
        return len(shape) <= 2
    pairs = zip(slice, shape, strict=False)
    fits = all(index is None or index < size for index, size in pairs)
    return len(slice) == len(shape) > 2 and fits


def format_slice(slice: Slice) -> str:
    return ", ".join(":" if index is None else str(index) for index in slice)


def parse_slice(text: str, shape: Sequence[int]) -> Slice:
    """Parse a typed slice, such as ``3, :, :``. Raises `ValueError` with a sentence."""
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    try:
        found = tuple(None if part == ":" else int(part) for part in parts)
        pairs = zip(found, shape, strict=True)
        fits = all(each is None or each in range(size) for each, size in pairs)
    except ValueError:
        fits = False
    if not fits or found.count(None) not in (1, 2):
        bounds = " × ".join(f"{size:,}" for size in shape)
        raise ValueError(
            f"Enter a number or : for each dimension of {bounds}, and : for one or two of them."
        )
    return found


class PlotView(View, Vertical, can_focus=True):
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
            room = self.size.width - 2, 2 * self.size.height - 2
            plot = partial(self.subject.client.plot, self._path, self._kind, *room)
            self.fetcher.ask("plot", plot, self._show, self.fail)

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
            shown, other = "values by position", "histogram"
            if plot.kind == "histogram":
                shown, other = "histogram", "values"
            self.show_status((f"{shown}  ·  h shows the {other}", "$muted"))

    def action_histogram(self) -> None:
        self._kind = "histogram" if self._kind == "line" else "line"
        self._draw()


class HeatMap(Widget):
    """Draws two rows of values in each row of the screen."""

    def __init__(self, plot: Plot) -> None:
        super().__init__()
        self._grid = plot.grid
        values = [value for row in plot.grid for value in row if value is not None] or [0.0]
        self.low, self.high = min(values), max(values)

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.visual_style.rich_style
        across = max(1, width // len(self._grid[0])) if self._grid else 1
        segments = [Segment(" ", base)]
        for tops in zip_longest(*self._grid[2 * y : 2 * y + 2]):
            top, bottom = (*map(self._colour, tops), None)[:2]
            style = Style(color=top and top.rich_color, bgcolor=bottom and bottom.rich_color)
            segments.append(Segment(("▀" if top else " ") * across, base + style))
        return Strip(segments).crop_extend(0, width, base)

    def _colour(self, value: float | None) -> Color | None:
        if value is None:
            return None
        part = (value - self.low) / (self.high - self.low or 1.0)
        variables = self.app.theme_variables
        cold, middle, warm = (Color.parse(variables[name]) for name in ("panel", "person", "moon"))
        return cold.blend(middle, part * 2) if part < 0.5 else middle.blend(warm, part * 2 - 1)


def _plotext(plot: Plot, colour: str) -> PlotextPlot:
    from textual_plotext import PlotextPlot

    widget = PlotextPlot()
    rgb = Color.parse(colour).rgb
    if plot.kind == "histogram":
        widget.plt.bar(list(plot.xs), list(plot.ys), color=rgb, width=1.0)
        ticks = [plot.xs[0] + (plot.xs[-1] - plot.xs[0]) * quarter / 4 for quarter in range(5)]
        widget.plt.xticks(ticks, [f"{tick:.4g}" for tick in ticks])
    else:
        widget.plt.plot(list(plot.xs), list(plot.ys), color=rgb, marker="braille")
    return widget


LARGEST = 50_000_000
"""Pixels; a larger picture is not decoded."""
CACHED_BYTES = 8_000_000
"""Pixels; a larger picture is scaled down. This is more than a screen shows."""


class DecodedPicture(NamedTuple):
    content: bytes
    suffix: str
    image: Image
    size: tuple[int, int]
    """Pixels, before scaling."""


class PictureView(View, PictureWidget, can_focus=True):
    BINDINGS = bindings(PICTURE_COMMANDS)

    def __init__(self, subject: Subject, file: Callable[[], bytes] | None = None) -> None:
        """file: returns another picture; called on a thread, may raise `KernelError`."""
        super().__init__(subject)
        self._file = file
        self._opened: DecodedPicture | None = None
        self._picture: Picture | None = None
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
        image, (width, height) = self._opened.image, self.size
        across, down = cell_size(self.app)
        scale = min((width - 2) * across / image.width, height * down / image.height)
        columns = max(1, round(image.width * scale / across))
        lines = max(1, round(image.height * scale / down))
        palette = None
        terminal = getattr(self.app, "terminal", None)
        if has_chart(image) and (terminal is None or terminal.graphics is None):
            columns, lines = width, height
            palette = get_palette(self.app)
        picture = Picture(object(), columns, lines, lambda: image, palette)

        def draw(rows: list[Strip]) -> None:
            self._picture, self._rows = picture, rows
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
        left = Segment(" " * self._left_margin, base)
        row = self._rows[y] if y < len(self._rows) else ()
        return Strip([left, *row]).crop_extend(0, self.size.width, base)


def decode_picture(data: bytes) -> DecodedPicture:
    """Raises `KernelError`."""
    from PIL import Image as images

    try:
        image = images.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "BMP"))
        pixels = math.prod(image.size)
        if pixels > LARGEST:
            sentence = "The picture has {:,} × {:,} pixels, which is too many to show."
            raise KernelError(sentence.format(*image.size))
        suffix = ".jpg" if image.format == "JPEG" else f".{image.format or 'png'}".lower()
        small = image.convert("RGBA").reduce(math.ceil(math.sqrt(pixels / CACHED_BYTES)))
        return DecodedPicture(data, suffix, small, image.size)
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
        self._shown: Slice | None = ()
        """None for the whole array, empty for none yet."""

    def compose(self) -> ComposeResult:
        yield Static(classes="array-head", markup=False)
        yield self._content

    def on_mount(self) -> None:
        self.reload()

    def reload(self) -> None:
        self._shown = ()
        read = partial(self.subject.client.array, self.subject.path)
        self.fetcher.ask("array", read, self._set_facts, self.fail)

    def _set_facts(self, facts: ArrayFacts) -> None:
        if not slice_fits(self.subject.slice, facts.shape):
            # Show the last two dimensions, at index 0 of the others.
            others = len(facts.shape) - 2
            self.subject.slice = (*[0] * others, None, None) if others > 0 else None
        self._facts = facts
        self._show_slice()
        self.refresh_bindings()

        def show(figures: ColumnStatistics) -> None:
            self._statistics = figures
            self._draw_head()

        read = partial(self.subject.client.array_figures, self.subject.path)
        self.fetcher.ask("figures", read, show, lambda _: None)

    def _show_slice(self) -> None:
        slice, path = self.subject.slice, self.subject.path
        if self._facts is not None and slice != self._shown:
            self._shown = slice
            self._draw_head()
            self._content.show_path(path if slice is None else (*path, ["slice", list(slice)]))

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
        facts, figures = self._facts, self._statistics
        if facts is None:
            return
        shape = " × ".join(f"{size:,}" for size in facts.shape)
        parts: list[tuple[str, str] | str] = [(shape, "bold"), f"  {plain(facts.dtype)}"]
        words = [format_size(facts.bytes), plain(facts.device)]
        parts += [(f"  {word}", "$muted") for word in words if word]
        if figures is not None and figures.min:
            parts.append((f"   {figures.min} … {figures.max}  mean {figures.mean}", "$muted"))
            parts += [("  ", ""), (bars(figures.bars), "$person")]
            if figures.missing:
                parts.append((f"  {figures.missing:,} missing", "$moon"))
        if self.subject.slice is not None:
            parts += ["\n", ("slice  [ ", "$muted")]
            parts.append((format_slice(self.subject.slice), "bold $moon"))
            parts.append((" ]   , and . step, g enters a slice", "$muted"))
        self.query_one(".array-head", Static).update(Content.assemble(*parts))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("step_slice", "enter_slice"):
            return self.subject.slice is not None
        return super().check_action(action, parameters)

    def action_step_slice(self, step: int) -> None:
        facts, slice = self._facts, self.subject.slice
        if facts is None or slice is None:
            return
        stepped = list(slice)
        for at, index in enumerate(slice):  # the first dimension that has an index
            if index is not None:
                stepped[at] = max(0, min(facts.shape[at] - 1, index + step))
                break
        self._choose(tuple(stepped))

    def action_enter_slice(self) -> None:
        if self._facts is not None and self.subject.slice is not None:
            form = "a number or : for each dimension, as in 3, :, :"
            self.ask(form, format_slice(self.subject.slice), self._entered, "slice:")

    def _entered(self, text: str) -> None:
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
    return ArrayView(subject, plot) if "array" in subject.opened.views else plot
