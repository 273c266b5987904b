"""Shows values on the screen, with their rich representations."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, NamedTuple

from ..link.host import Host
from ..stdlib import own_module
from ..tools.text_tools import text_form
from .displayed_tables import remember_table
from .html_words import html_words
from .matplotlib_backend import open_figures
from .objects import MISSING, find_in_class, is_instance_if_loaded
from .pretty import pretty_repr
from .rich_forms import MAX_STYLED_ROWS, encode_form, is_html_display, rich_form

_MAX_FIGURE_CHARS = 3_000
"""Characters that describe a figure in words."""

_RICH_METHODS = ("__rich__", "__rich_console__")
"""Methods by which a class says how rich writes its objects."""

_CELL_MARK = "\x1f"
"""Separates the cells of a styled table, which contain no control characters."""


class Display(NamedTuple):
    """What the screen shows of a value, or does with the cell's output."""

    mime: str
    """One of `MIMES`; ``text/plain`` for help, which is shown from its start; empty for other
    text."""
    data: str
    """Base64 for pictures."""
    text: str
    """The value as text, for readers without the rich representation; ends with a line break."""
    table_key: str = ""
    """The key with which `displayed_table` opens the table; empty for other values."""
    name: str = ""
    """The name by which it is updated."""
    action: Literal["", "update", "clear", "clear later"] = ""
    """`update`: in the place of the display with this name. `clear`: remove the cell's output so
    far; `clear later`: before its next output."""

    def to_message(self) -> dict[str, str]:
        """Return the arguments of the host's function `display`."""
        arguments = self._asdict()
        arguments["value"] = arguments.pop("table_key")
        return arguments


class _Capture:
    """Takes what is displayed, instead of the screen."""

    def __init__(self, outputs: list[Display]) -> None:
        """Begin to take displays.

        Args:
            outputs: Gets them.
        """
        self._outputs = outputs
        self._clears_before_next = False

    def add(self, output: Display) -> None:
        """Take a display, after what was cleared when it came is gone."""
        if self._clears_before_next:
            self.clear(wait=False)
        self._outputs.append(output)

    def clear(self, *, wait: bool) -> None:
        """Forget what was displayed, now or before the next display."""
        self._clears_before_next = wait
        if not wait:
            self._outputs.clear()


_captures: list[_Capture] = []
"""What takes displays now, each within the one before; the last one takes them."""


@contextmanager
def capture_displays(outputs: list[Display]) -> Iterator[None]:
    """Add what is displayed to a list instead of showing it."""
    _captures.append(_Capture(outputs))
    try:
        yield
        if "matplotlib.pyplot" in sys.modules:
            show_figures()
    finally:
        _captures.pop()


def show_figures() -> None:
    """Show all open figures of pyplot, if its backend has no screen."""
    for figure in open_figures():
        display(figure)


def display(*values: object) -> None:
    """Show the best display of each value. Raises any exception of its `__repr__`."""
    for value in values:
        show(make_display(value))


def show_named(value: object, name: str, *, update: bool) -> None:
    """Display a value that can be updated, or update it."""
    new_display = make_display(value)._replace(name=name)
    if update:
        new_display = new_display._replace(action="update")
    # A text, too, must be a display, not a part of what is printed.
    if not new_display.mime:
        new_display = new_display._replace(mime="text/plain")
    show(new_display)


def clear_output(wait: bool = False) -> None:
    """Remove the cell's output so far.

    Args:
        wait: Whether to remove it only when something else is shown.
    """
    if _captures:
        _captures[-1].clear(wait=wait)
        return
    sys.stdout.flush()
    sys.stderr.flush()
    request = Display("", "", "", action="clear")
    if wait:
        request = Display("", "", "", action="clear later")
    with suppress(RuntimeError):  # a forked child has no screen
        Host.call("display", request.to_message())


def show(output: Display) -> None:
    """Send a display after the output so far; print its text if there is no screen."""
    if _captures:
        _captures[-1].add(output)
        return
    if not output.mime:
        sys.stdout.write(output.text)
        return
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        Host.call("display", output.to_message())  # waits, so that later output comes after it
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
        return _display_marked_text(str(value), form)
    if any(find_in_class(type(value), method) is not MISSING for method in _RICH_METHODS):
        rendered = _render_with_rich(value)
        if rendered is not None:
            return Display("", "", rendered)

    mime, data = rich_form(value)
    table_key = ""
    words = ""
    if is_html_display(value):
        words = html_words(data)
    elif mime == "text/html":
        table_key = remember_table(value)
    text = words or _styled_text(value) or pretty_repr(value)
    if mime and is_instance_if_loaded(value, "matplotlib.figure", "Figure"):
        text = f"{text}\n{_figure_words(value)}".rstrip()
    return Display(mime, data, text + "\n", table_key)


def _display_marked_text(text: str, form: str) -> Display:
    """Return the display of a text that one of our functions wants to be shown as it is.

    Args:
        text: The text.
        form: What `text_form` says of it.
    """
    encoded = encode_form("text/markdown", text) if form == "markdown" else None
    mime, data = encoded or ("", "")
    if not text.endswith("\n"):
        text += "\n"
    return Display(mime, data, text)


def _styled_text(value: Any) -> str:
    """Return a styled table of pandas (`df.style`) as text, with its formatted values; empty for
    other values."""
    if not is_instance_if_loaded(value, "pandas.io.formats.style", "Styler"):
        return ""
    try:
        text = str(value.to_string(delimiter=_CELL_MARK, max_rows=MAX_STYLED_ROWS))
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
    aligned_lines = [
        "  ".join(cell.rjust(widths[column]) for column, cell in enumerate(line)) for line in lines
    ]
    return "\n".join(aligned_lines)


def _figure_words(figure: Any) -> str:
    """Return what a figure shows, for readers without the picture."""
    try:
        words: str = own_module("values.figure_words").describe_figure(figure)
        return words[:_MAX_FIGURE_CHARS]
    except Exception:  # raised by the code of a subclass, or by unusual data
        return ""


def _render_with_rich(value: object) -> str | None:
    """Return what rich writes of a value that knows rich; None if rich is not loaded, or fails."""
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
