"""Finds the rich representation of a value and sends it to the screen."""

from __future__ import annotations

import importlib
import io
import os
import re
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from typing import Any, Callable, NamedTuple

from ..link.control import Host
from ..stdlib import late_import, own_module
from ..tools.text_tools import text_form
from .charts import chart_metadata
from .objects import MISSING, class_dict, find_in_class, get_if_loaded, is_class
from .pretty import pretty_repr

MAX_PICTURE_BYTES = 5_000_000
"""Bytes of a picture's file."""
MAX_TEXT_CHARS = 300_000
"""Characters of Markdown or HTML."""
_PICTURE_SIDES_PIXELS = (3_000, 1_000)
"""Lengths of the longer side; the second is tried if the file is too large."""
_MAX_FIGURE_CHARS = 3_000
"""Characters that describe a figure in words."""

_MAX_KEPT_TABLES = 20
"""Displayed tables that can still be opened."""
_MAX_KEPT_TABLE_BYTES = 5_000_000
"""Size up to which a table is kept alive so that it can be opened."""
_MAX_TABLE_COLUMNS = 200
_MAX_STYLED_ROWS = 60
_CELL_MARK = "\x1f"
"""Between the cells of a styled table, which contain no control characters."""
_MAX_NOTE_CHARS = 60
"""Characters around a small table, such as its number of rows."""

_FILE_BACKENDS = ("agg", "cairo", "pdf", "ps", "svg", "pgf", "template")
"""matplotlib's backends that only write files, and whose figures we show."""
_PLOT_CLASSES = (
    ("matplotlib.artist", "Artist"),
    ("matplotlib.container", "Container"),
    ("seaborn.axisgrid", "Grid"),
)
"""Modules and classes of what plotting functions return."""
_MAX_PLOT_RESULT_DEPTH = 2
_MAX_PLOT_RESULT_ITEMS = 10
"""Levels, and items of each, up to which the results of plotting functions are recognised."""

_METHODS = {
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "text/markdown": "_repr_markdown_",
    "text/html": "_repr_html_",
}
MIMES = tuple(_METHODS)

_NOT_A_TABLE = re.compile(
    r"<(?:button|canvas|details|embed|form|iframe|img|input|object|pre|script|select|svg|textarea)\b",
    re.IGNORECASE,
)
"""Elements of widgets, drawings, and texts with a layout of their own."""
_HEADING = re.compile(r"<(?:h[1-6]|strong)\b", re.IGNORECASE)
_TABLE_TAG = re.compile(r"<(/?)table\b", re.IGNORECASE)
_MARKUP = re.compile(
    r"<style\b.*?(?:</style\s*>|\Z)|<!--.*?(?:-->|\Z)|<[^>]*>?|\s+", re.IGNORECASE | re.DOTALL
)


def choose_backend() -> None:
    """Make pyplot draw for the transcript, unless a backend was chosen. Called while matplotlib
    loads."""
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", None)
    # Bypass its `__getitem__`, which would choose a backend.
    if isinstance(parameters, dict) and not isinstance(dict.get(parameters, "backend"), str):
        parameters["backend"] = "agg"
    manager = get_if_loaded("matplotlib.backend_bases", "FigureManagerBase")
    if is_class(manager) and class_dict(manager)["show"] is not _show_figure:
        manager.show = _show_figure


def _show_figure(manager: Any) -> None:
    if _draws_on_no_screen():
        display(manager.canvas.figure)


def show_all() -> None:
    """Show all open figures of pyplot, if its backend has no screen."""
    if _draws_on_no_screen():
        pyplot: Any = sys.modules["matplotlib.pyplot"]
        for number in pyplot.get_fignums():
            display(pyplot.figure(number))


def _draws_on_no_screen() -> bool:
    pyplot = sys.modules.get("matplotlib.pyplot")
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", {})
    backend = dict.get(parameters, "backend")
    is_screenless = isinstance(backend, str) and backend.lower() in _FILE_BACKENDS
    return is_screenless and hasattr(pyplot, "get_fignums")


def is_below_figure(value: object) -> bool:
    """Return whether a value is what a plotting function returned, and its figure will be shown at
    the end of the cell."""
    if not _draws_on_no_screen() or not sys.modules["matplotlib.pyplot"].get_fignums():
        return False
    return _is_plot_part(value)


def _is_plot_part(value: Any, depth: int = 0) -> bool:
    """Return whether a value is a part of a figure, or contains one: `hist` returns a tuple,
    `boxplot` a dict of lists."""
    if depth == 0 and _is_a(value, "matplotlib.figure", "Figure"):
        return False  # because the figure itself is shown
    if any(_is_a(value, *plot_class) for plot_class in _PLOT_CLASSES):
        return True
    if depth > _MAX_PLOT_RESULT_DEPTH:
        return False
    items: Any = ()
    if type(value) in (list, tuple):
        items = value
    elif type(value) is dict:
        items = value.values()
    elif _is_a(value, "numpy", "ndarray") and value.dtype == object:
        items = value.flat
    return any(_is_plot_part(item, depth + 1) for item in islice(items, _MAX_PLOT_RESULT_ITEMS))


def draw_png(figure: Any, side: int) -> bytes:
    """Return a figure as PNG, with the description of its chart.

    Args:
        figure: Of matplotlib.
        side: Maximum length of the longer side, in pixels.

    Raises:
        Exception: Whatever matplotlib, or an artist of the user, raises.
    """
    file = io.BytesIO()
    dpi = min(figure.dpi, side / max(figure.get_size_inches()))
    colour = figure.get_facecolor()
    metadata = chart_metadata(figure)
    box = _tight_box(figure) if dpi == figure.dpi else "tight"
    figure.savefig(
        file, format="png", dpi=dpi, bbox_inches=box, facecolor=colour, metadata=metadata
    )
    return file.getvalue()


def _tight_box(figure: Any) -> Any:
    """Return the box around what a figure shows, in inches. matplotlib finds the same box for
    "tight", but draws the figure once more for it."""
    get_renderer = getattr(figure, "_get_renderer", None)  # since matplotlib 3.6
    padding = sys.modules["matplotlib"].rcParams["savefig.pad_inches"]
    is_numeric = isinstance(padding, (int, float))
    # A layout engine moves things while the figure is drawn.
    if get_renderer is None or not is_numeric or figure.get_layout_engine() is not None:
        return "tight"
    return figure.get_tightbbox(get_renderer()).padded(padding)


class Display(NamedTuple):
    mime: str
    """One of `MIMES`; ``text/plain`` for help, which is shown from its start; empty for other
    text."""
    data: str
    """Base64 for pictures."""
    text: str
    """The value as text, for readers without the rich representation; ends with a line break."""
    value: str = ""
    name: str = ""
    """By which it is updated."""
    action: str = ""
    """`update`: in the place of the display with this name. `clear`: remove the cell's output so
    far; `clear later`: before its next output."""


_captures: list[list[Display]] = []
"""Where displays go instead of the screen; the last one is the innermost."""


@contextmanager
def capture_displays(outputs: list[Display]) -> Iterator[None]:
    """Add what is displayed to a list instead of showing it."""
    _captures.append(outputs)
    try:
        yield
        if "matplotlib.pyplot" in sys.modules:
            show_all()
    finally:
        _captures.pop()


_shown_tables: dict[str, Callable[[], Any]] = {}
"""By random keys, so that no other kernel has the same."""


def shown_table(key: str) -> object:
    """Return a displayed table; None if it is no longer there."""
    if key in _shown_tables:
        return _shown_tables[key]()
    return None


def _remember(value: object) -> str:
    """Keep a table so that it can be opened; return its key, or an empty text if it cannot be."""
    key = os.urandom(8).hex()
    size = _table_size(value)
    if size is not None and size <= _MAX_KEPT_TABLE_BYTES:
        _shown_tables[key] = lambda: value
    else:
        # A large table must not outlive the user's own references to it.
        try:
            _shown_tables[key] = weakref.ref(value)
        except TypeError:
            return ""
    if len(_shown_tables) > _MAX_KEPT_TABLES:
        del _shown_tables[next(iter(_shown_tables))]
    return key


def _table_size(value: Any) -> int | None:
    """Return a table's size in bytes, if it is known."""
    try:
        if _is_a(value, "pandas", "DataFrame"):
            return int(value.memory_usage(deep=False).sum())
        if _is_a(value, "polars", "DataFrame"):
            return int(value.estimated_size())
    except Exception:  # raised by the code of a subclass
        pass
    return None


def display(*values: object) -> None:
    for value in values:
        show(make_display(value))


def show_named(value: object, name: str, *, update: bool) -> None:
    """Display a value that can be updated, or update it."""
    new_display = make_display(value)
    action = "update" if update else ""
    # A text, too, must be a display, not a part of what is printed.
    mime = new_display.mime or "text/plain"
    show(new_display._replace(mime=mime, name=name, action=action))


def clear_output(wait: bool = False) -> None:
    """Remove the cell's output so far.

    Args:
        wait: Whether to remove it only when something else is shown.
    """
    if _captures:
        _captures[-1].clear()
        return
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(RuntimeError):  # a forked child has no screen
        action = "clear later" if wait else "clear"
        Host.call("display", Display("", "", "", action=action)._asdict())


def show(output: Display) -> None:
    """Send a display after the output so far; print its text if there is no screen."""
    if _captures:
        _captures[-1].append(output)
        return
    if not output.mime:
        sys.stdout.write(output.text)
        return
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        Host.call("display", output._asdict())  # waits, so that later output comes after it
    except RuntimeError:  # a forked child has no screen
        sys.stdout.write(output.text)


def show_help(text: str) -> None:
    """Show a text from its start; print it if the user has redirected stdout."""
    text = text.rstrip("\n") + "\n"
    if isinstance(sys.stdout, (io.StringIO, io.TextIOWrapper)) and sys.stdout is not sys.__stdout__:
        sys.stdout.write(text)
    else:
        show(Display("text/plain", "", text))


def make_display(value: object) -> Display:
    """Return the best display of a value. Raises any exception of its `__repr__`."""
    form = text_form(value)
    if form is not None:
        text = str(value)
        markdown = None
        if form == "markdown":
            markdown = _encode("text/markdown", text)
        mime, data = markdown or ("", "")
        return Display(mime, data, text if text.endswith("\n") else text + "\n")

    methods = ("__rich__", "__rich_console__")
    if any(find_in_class(type(value), method) is not MISSING for method in methods):
        rendered = _render_with_rich(value)
        if rendered is not None:
            return Display("", "", rendered)

    mime, data = _rich_form(value)
    key = _remember(value) if mime == "text/html" else ""
    text = _styled_text(value) or pretty_repr(value)
    if mime and _is_a(value, "matplotlib.figure", "Figure"):
        text = f"{text}\n{_figure_words(value)}".rstrip()
    return Display(mime, data, text + "\n", key)


def _styled_text(value: Any) -> str:
    """Return a styled table of pandas (`df.style`) as text, with its formatted values; empty for
    other values."""
    if not _is_a(value, "pandas.io.formats.style", "Styler"):
        return ""
    try:
        text = str(value.to_string(delimiter=_CELL_MARK, max_rows=_MAX_STYLED_ROWS))
    except Exception:  # raised by jinja2, which is not installed, or by a format of the user's
        return ""
    return _align(text.rstrip("\n"))


def _align(text: str) -> str:
    """Write the cells of a table, which have marks between them, below each other."""
    lines = [line.split(_CELL_MARK) for line in text.split("\n")]
    widths: dict[int, int] = {}
    for line in lines:
        for column, cell in enumerate(line):
            widths[column] = max(widths.get(column, 0), len(cell))
    aligned = ("  ".join(cell.rjust(widths[n]) for n, cell in enumerate(line)) for line in lines)
    return "\n".join(aligned)


def _figure_words(figure: Any) -> str:
    """Return what a figure shows, for readers without the picture."""
    try:
        words: str = own_module("values.figure_words").describe_figure(figure)
        return words[:_MAX_FIGURE_CHARS]
    except Exception:  # raised by the code of a subclass, or by unusual data
        return ""


def _rich_form(value: object) -> tuple[str, str]:
    """Return the type and data of the first rich representation; empty texts if there is none."""
    finders = (_from_figure, _from_image, _from_frame, _from_styler, _from_bundle, _from_methods)
    for find_form in finders:
        try:
            form = find_form(value)
        except Exception:  # raised by the object's code; other representations are tried
            continue
        if form is not None:
            return form
    return "", ""


def _is_a(value: object, module: str, name: str) -> bool:
    cls = get_if_loaded(module, name)
    return cls is not MISSING and isinstance(value, cls)


def _from_figure(value: Any) -> tuple[str, str] | None:
    if not _is_a(value, "matplotlib.figure", "Figure"):
        return None
    if _draws_on_no_screen():
        # Close the figure so that it is not shown again at the end of the cell. matplotlib 3.11
        # then removes its canvas, but later cells may draw on it.
        canvas = value.canvas
        sys.modules["matplotlib.pyplot"].close(value)
        value.set_canvas(canvas)
    forms = (_encode("image/png", draw_png(value, side)) for side in _PICTURE_SIDES_PIXELS)
    return next(filter(None, forms), None)


def _from_image(value: Any) -> tuple[str, str] | None:
    if not _is_a(value, "PIL.Image", "Image"):
        return None
    for side in _PICTURE_SIDES_PIXELS:
        image = value
        if max(value.size) > side:
            image = value.copy()
            image.thumbnail((side, side))
        form = _from_methods(image)
        if form is not None:
            return form
    return None


def _from_bundle(value: Any) -> tuple[str, str] | None:
    if find_in_class(type(value), "_repr_mimebundle_") is MISSING:
        return None
    bundle = value._repr_mimebundle_(include=list(MIMES), exclude=[])
    if isinstance(bundle, tuple):
        bundle = bundle[0]
    forms = (_encode(mime, bundle.get(mime)) for mime in MIMES)
    return next(filter(None, forms), None)


def _from_frame(value: Any) -> tuple[str, str] | None:
    """Return a pandas table with its shape and with all columns that the screen can show, unless
    the user chose otherwise."""
    if not _is_a(value, "pandas", "DataFrame"):
        return None
    pandas = sys.modules["pandas"]
    options: list[Any] = []
    if pandas.get_option("display.max_columns") in (0, 20):  # with and without a terminal
        options += ["display.max_columns", _MAX_TABLE_COLUMNS]
    if pandas.get_option("display.show_dimensions") == "truncate":
        options += ["display.show_dimensions", True]
    with pandas.option_context(*options) if options else nullcontext():
        return _from_methods(value)


def _from_styler(value: Any) -> tuple[str, str] | None:
    """Return a styled table of pandas, as far as the screen can show it."""
    if not _is_a(value, "pandas.io.formats.style", "Styler"):
        return None
    return _encode("text/html", value.to_html(max_rows=_MAX_STYLED_ROWS))


def _from_methods(value: Any) -> tuple[str, str] | None:
    for mime, method in _METHODS.items():
        if find_in_class(type(value), method) is MISSING:
            continue
        data = getattr(value, method)()
        if isinstance(data, tuple):  # with metadata
            data = data[0]
        form = _encode(mime, data)
        if form is not None:
            return form
    return None


def _encode(mime: str, data: object) -> tuple[str, str] | None:
    """Return the type, and the data as text; None if they are invalid, too large, or HTML that is
    not a table."""
    if mime.startswith("image/"):
        base64 = late_import("base64")
        picture = data
        if isinstance(data, str):
            picture = base64.b64decode(data, validate=True)
        if not isinstance(picture, bytes) or len(picture) > MAX_PICTURE_BYTES:
            return None
        return mime, base64.b64encode(picture).decode()
    if not isinstance(data, str) or len(data) > MAX_TEXT_CHARS:
        return None
    text = str.__str__(data)  # of a subclass
    if mime == "text/html" and not is_essentially_table(text):
        return None
    return mime, text


def is_essentially_table(html: str) -> bool:
    """Return whether HTML is one table, or several in a row, with no more than notes around
    them."""
    if _NOT_A_TABLE.search(html):
        return False
    outside: list[str] = []
    end = 0
    is_open = False
    for tag in _TABLE_TAG.finditer(html):
        is_end = bool(tag[1])
        if is_end != is_open:  # a table inside a table serves as layout
            return False
        if not is_end:
            outside.append(html[end : tag.start()])
        is_open = not is_end
        end = tag.end()
    if not end:
        return False
    outside.append("" if is_open else html[end:])
    around = "".join(outside)
    notes_size = len(_MARKUP.sub("", around))
    size = len(_MARKUP.sub("", html))
    return not _HEADING.search(around) and 2 * notes_size <= max(size, 2 * _MAX_NOTE_CHARS)


def _render_with_rich(value: object) -> str | None:
    if "rich" not in sys.modules:
        return None
    file = io.StringIO()
    console = importlib.import_module("rich.console").Console(
        file=file, force_terminal=True, color_system="truecolor", legacy_windows=False
    )
    try:
        console.print(value)
    except Exception:  # raised by the object's code
        return None
    return str(file.getvalue())
