"""Finds the rich representation of a value and sends it to the screen."""

from __future__ import annotations

import importlib
import io
import os
import sys
import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable, NamedTuple

from .capture import LimitedOutput, OutputLimitError
from .control import Host
from .objects import MISSING, class_dict, find_in_class, get_if_loaded, is_class
from .stdlib import late_import
from .text_tools import text_form

BACKEND = f"module://{__package__}.matplotlib_backend"
_WITHOUT_SCREEN = ("agg", "cairo", "pdf", "ps", "svg", "pgf", "template")
"""matplotlib's own backends that only write files."""


def choose_backend() -> None:
    """Make ours pyplot's backend, unless the user or pyplot has chosen one. Called while matplotlib
    is loading."""
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", None)
    # Bypass its `__getitem__`, which would choose a backend.
    if isinstance(parameters, dict) and not isinstance(dict.get(parameters, "backend"), str):
        parameters["backend"] = BACKEND
    manager = get_if_loaded("matplotlib.backend_bases", "FigureManagerBase")
    if is_class(manager) and class_dict(manager)["show"] is not _show_figure:
        manager.show = _show_figure


def _show_figure(manager: Any) -> None:
    """Show a figure for `plt.show()`, if a script has chosen a backend that draws on no screen,
    such as Agg."""

    if _is_our_backend():
        display(manager.canvas.figure)


def draw_png(figure: Any, side: int) -> bytes:
    """Draw a figure in its own size, with at most about `side` pixels per side."""
    from io import BytesIO

    file = BytesIO()
    dpi = min(figure.dpi, side / max(figure.get_size_inches()))
    figure.savefig(
        file, format="png", dpi=dpi, bbox_inches="tight", facecolor=figure.get_facecolor()
    )
    return file.getvalue()


def close_figure(figure: Any) -> None:
    """Make pyplot forget a figure that has been shown, so that it is not shown again."""
    if _is_our_backend():
        canvas = figure.canvas
        sys.modules["matplotlib.pyplot"].close(figure)
        figure.set_canvas(canvas)  # matplotlib 3.11 removes it, but later cells may draw on it


def show_all() -> None:
    """Show pyplot's open figures."""

    if _is_our_backend():
        pyplot: Any = sys.modules["matplotlib.pyplot"]
        for number in pyplot.get_fignums():
            display(pyplot.figure(number))


def _is_our_backend() -> bool:
    pyplot = sys.modules.get("matplotlib.pyplot")
    parameters = getattr(sys.modules.get("matplotlib"), "rcParams", {})
    backend = dict.get(parameters, "backend")
    return (
        hasattr(pyplot, "get_fignums")
        and isinstance(backend, str)
        and (backend == BACKEND or backend.lower() in _WITHOUT_SCREEN)
    )


LARGEST_PICTURE = 5_000_000
"""Maximum bytes of a picture to send."""
LARGEST_TEXT = 300_000
"""Maximum characters of HTML or Markdown to send."""

SIDES = (2_000, 1_000)
"""Pixels of the longer side to which a picture is scaled down; the second value if its file is
still too large."""
FIGURE_SIDES = (3_000, 1_000)
"""The same for figures."""

MIMES = ("image/png", "image/jpeg", "text/markdown", "text/html")
"""Supported MIME types, best first."""

SHOWN_TABLES, SHOWN_BYTES = 20, 100_000_000
"""Number of displayed tables that can still be opened, and the bytes they may use; beyond that, the
oldest are released."""
LOOKED_AT = 200
"""Maximum number of a table's columns to send, instead of the fewer that pandas would choose for a
narrow screen."""

_METHODS = {
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "text/markdown": "_repr_markdown_",
    "text/html": "_repr_html_",
}
_RICH = ("__rich__", "__rich_console__")


class Display(NamedTuple):
    """A displayed value."""

    mime: str
    """One of `MIMES`; ``text/plain`` for help, which is shown from its start; empty for other
    text."""
    data: str
    """Base64 for pictures."""
    text: str
    """The value as text, for readers without the rich representation; ends with a line break."""
    value: str = ""
    """The key for `shown_table`, if it is a table."""


class _ShownTable(NamedTuple):
    """The value of a displayed table."""

    value: Callable[[], Any]
    """Returns the value; None if it is gone."""
    bytes: int
    """Bytes used only because it was displayed."""


_shown_tables: dict[str, _ShownTable] = {}
"""The last displayed tables, so that the screen can open them. Their keys are random, so that no
other kernel has the same."""


def shown_table(key: str) -> object:
    """Return the value of a displayed table; None if it was released."""
    return _shown_tables[key].value() if key in _shown_tables else None


def _remember(value: object) -> str:
    """Make a displayed table available to the screen; returns its key. A large one is available
    only while something else refers to it."""
    key = os.urandom(8).hex()
    size = _table_size(value)
    if size is not None and size <= SHOWN_BYTES:
        _shown_tables[key] = _ShownTable(lambda: value, size)
    else:
        try:
            _shown_tables[key] = _ShownTable(weakref.ref(value), 0)
        except TypeError:
            return ""
    while (
        len(_shown_tables) > SHOWN_TABLES
        or sum(table.bytes for table in _shown_tables.values()) > SHOWN_BYTES
    ):
        del _shown_tables[next(iter(_shown_tables))]
    return key


def _table_size(value: Any) -> int | None:
    """Return the size of a known library's table; None for other values."""
    try:
        if _is_a(value, "pandas", "DataFrame"):
            return int(value.memory_usage(deep=False).sum())
        return int(value.estimated_size()) if _is_a(value, "polars", "DataFrame") else None
    except Exception:  # raised by the code of a subclass
        return None


def display(*values: object) -> None:
    """Show values in their best representation."""
    for value in values:
        show(make_display(value))


def show(shown: Display) -> None:
    """Send a display to the screen, after the output so far; if there is no screen, print its
    text."""
    if not shown.mime:
        sys.stdout.write(shown.text)
        return
    # The text counts as output, so that a model's cell is stopped if there is too much.
    out: Any = sys.stdout
    if isinstance(out, LimitedOutput) and len(out.take(shown.text)) < len(shown.text):
        raise OutputLimitError(out.limit)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        Host.call("display", shown._asdict())  # waits, so that later output comes after it
    except RuntimeError:  # a forked child
        sys.stdout.write(shown.text)


def show_help(text: str) -> None:
    """Show a text from its start, such as help. If the user has redirected stdout, print it
    there."""
    text = text.rstrip("\n") + "\n"
    if isinstance(sys.stdout, (io.StringIO, io.TextIOWrapper)) and sys.stdout is not sys.__stdout__:
        sys.stdout.write(text)
    else:
        show(Display("text/plain", "", text))


def make_display(value: object) -> Display:
    """Return the best display of a value. Raises any exception of its `__repr__`; failures of its
    rich methods are ignored."""
    if (form := text_form(value)) is not None:
        readable = str(value)
        mime, data = (
            _encode("text/markdown", readable) or ("", "") if form == "markdown" else ("", "")
        )
        return Display(mime, data, readable if readable.endswith("\n") else readable + "\n")
    if (
        any(find_in_class(type(value), name) is not MISSING for name in _RICH)
        and (text := _render_with_rich(value)) is not None
    ):
        return Display("", "", text)
    mime, data = _rich_form(value)
    return Display(
        mime, data, str.__str__(repr(value)) + "\n", _remember(value) if mime == "text/html" else ""
    )


def _rich_form(value: object) -> tuple[str, str]:
    for find in (_figure, _image, _bundle, _from_repr_methods):
        try:
            form = find(value)
        except Exception:  # raised by the object's code; other representations are tried
            continue
        if form is not None:
            return form
    return "", ""


def _is_a(value: object, module: str, name: str) -> bool:
    cls = get_if_loaded(module, name)
    return cls is not MISSING and isinstance(value, cls)


def _figure(value: object) -> tuple[str, str] | None:
    """Draw a matplotlib figure."""
    if not _is_a(value, "matplotlib.figure", "Figure"):
        return None
    close_figure(value)
    forms = (_encode("image/png", draw_png(value, side)) for side in FIGURE_SIDES)
    return next((form for form in forms if form is not None), None)


def _image(value: object) -> tuple[str, str] | None:
    """Draw a Pillow image."""
    if not _is_a(value, "PIL.Image", "Image"):
        return None
    forms = (_from_repr_methods(_smaller(value, side)) for side in SIDES)
    return next((form for form in forms if form is not None), None)


def _smaller(image: Any, side: int) -> Any:
    if max(image.size) <= side:
        return image
    smaller = image.copy()
    smaller.thumbnail((side, side))
    return smaller


def _bundle(value: object) -> tuple[str, str] | None:
    method = find_in_class(type(value), "_repr_mimebundle_")
    if method is MISSING:
        return None
    bundle = value._repr_mimebundle_(include=list(MIMES), exclude=[])  # type: ignore[attr-defined]
    if isinstance(bundle, tuple):
        bundle = bundle[0]
    return next(
        (form for mime in MIMES if (form := _encode(mime, bundle.get(mime))) is not None), None
    )


def _from_repr_methods(value: object) -> tuple[str, str] | None:
    for mime in MIMES:
        if find_in_class(type(value), _METHODS[mime]) is MISSING:
            continue
        with _all_columns(value):
            found = getattr(value, _METHODS[mime])()
        form = _encode(mime, found[0] if isinstance(found, tuple) else found)
        if form is not None:
            return (
                (mime, form[1] + _shape(value))
                if mime == "text/html" and "columns</p>" not in form[1]
                else form
            )
    return None


def _all_columns(value: object) -> AbstractContextManager[object]:
    """Let pandas write the columns that the screen can scroll to, unless the user has set their
    number."""
    if not _is_a(value, "pandas", "DataFrame"):
        return nullcontext()
    pandas = sys.modules["pandas"]
    # The option's defaults with and without a terminal.
    if pandas.get_option("display.max_columns") not in (0, 20):
        return nullcontext()
    context: AbstractContextManager[object] = pandas.option_context(
        "display.max_columns", LOOKED_AT
    )
    return context


def _shape(value: Any) -> str:
    """Return the shape of a pandas table, which pandas shows only for truncated tables; empty if
    the user has changed that option."""
    if (
        not _is_a(value, "pandas", "DataFrame")
        or sys.modules["pandas"].get_option("display.show_dimensions") != "truncate"
    ):
        return ""
    rows, columns = value.shape
    return f"<p>{rows} rows × {columns} columns</p>"


def _encode(mime: str, data: object) -> tuple[str, str] | None:
    """Prepare data for sending, pictures as base64; None if it is too large, or if it is HTML
    without a table."""
    if mime.startswith("image/"):
        base64 = late_import("base64")
        picture = base64.b64decode(data, validate=True) if isinstance(data, str) else data
        if not isinstance(picture, bytes) or len(picture) > LARGEST_PICTURE:
            return None
        return mime, base64.b64encode(picture).decode()
    if (
        not isinstance(data, str)
        or len(data) > LARGEST_TEXT
        or (mime == "text/html" and "<table" not in data)
    ):
        return None
    return mime, str.__str__(data)


def _render_with_rich(value: object) -> str | None:
    """Render a value with rich, in colour; None if rich is not loaded or fails."""
    if "rich" not in sys.modules:
        return None
    console = importlib.import_module("rich.console").Console
    file = io.StringIO()
    colour = os.environ.get("NO_COLOR") is None
    drawing = console(
        file=file,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        no_color=not colour,
        legacy_windows=False,
    )
    try:
        drawing.print(value)
    except Exception:  # raised by the object's code
        return None
    return str(file.getvalue())
