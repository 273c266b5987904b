"""The rich form of a value, as it tells it itself (IPython's and rich's protocols), and sending it to the screen."""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import Any, Callable, NamedTuple

from ..capture import LimitedOutput, OutputLimitError
from ..host import Host
from ..readable import form_of
from ..statics import MISSING, in_class, loaded
from ..stdlib import late_import

LARGEST_PICTURE = 5_000_000
"""Bytes that are sent at most."""
LARGEST_TEXT = 300_000
"""Characters of HTML and Markdown that are sent at most."""

SIDES = (2_000, 1_000)
"""Pixels of the longer side to which a picture in memory is made smaller; the second where its file is still too large to be sent."""
FIGURE_SIDES = (3_000, 1_000)
"""The same of a figure."""

MIMES = ("image/png", "image/jpeg", "text/markdown", "text/html")
"""What can be shown, the best first."""

_METHODS = {"image/png": "_repr_png_", "image/jpeg": "_repr_jpeg_", "text/markdown": "_repr_markdown_", "text/html": "_repr_html_"}
_RICH = ("__rich__", "__rich_console__")


class Display(NamedTuple):
    """What stands for a value on the screen."""

    mime: str
    """One of `MIMES`; ``text/plain`` for help, which is opened at its beginning; empty for all other text."""
    data: str
    """Of pictures: base64."""
    text: str
    """The value as text, for who cannot see the rest: a line or more, with its end."""


def display(*values: object) -> None:
    """Show values, each in its best form."""
    for value in values:
        show(display_of(value))


def show(shown: Display) -> None:
    """Send it to the screen, after what was printed so far; where nobody listens, print its text."""
    if not shown.mime:
        sys.stdout.write(shown.text)
        return
    # The text counts as printed: a model's cell is stopped by it where it is too long.
    out: Any = sys.stdout
    if isinstance(out, LimitedOutput) and len(out.take(shown.text)) < len(shown.text):
        raise OutputLimitError(out.limit)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        Host.call("display", shown._asdict())  # and wait: what is printed next comes after it
    except RuntimeError:  # a forked child
        sys.stdout.write(shown.text)


def show_help(text: str) -> None:
    """Show a text that is read from its beginning, as help is. It is printed where the person has redirected what is printed."""
    text = text.rstrip("\n") + "\n"
    if isinstance(sys.stdout, (io.StringIO, io.TextIOWrapper)) and sys.stdout is not sys.__stdout__:
        sys.stdout.write(text)
    else:
        show(Display("text/plain", "", text))


def display_of(value: object) -> Display:
    """The best form that a value has. Raises what its `__repr__` raises; its richer methods may fail."""
    if (form := form_of(value)) is not None:
        readable = str(value)
        mime, data = _sendable("text/markdown", readable) or ("", "") if form == "markdown" else ("", "")
        return Display(mime, data, readable if readable.endswith("\n") else readable + "\n")
    if any(in_class(type(value), name) is not MISSING for name in _RICH) and (text := _by_rich(value)) is not None:
        return Display("", "", text)
    mime, data = _rich_form(value)
    return Display(mime, data, str.__str__(repr(value)) + "\n")


def _rich_form(value: object) -> tuple[str, str]:
    for found in (_figure, _image, _bundle, _by_methods):
        form = _attempt(found, value)
        if form is not None:
            return form
    return "", ""


def _attempt(make: Callable[[object], tuple[str, str] | None], value: object) -> tuple[str, str] | None:
    try:
        return make(value)
    except Exception:  # the object's own code: its plain form is left
        return None


def _figure(value: object) -> tuple[str, str] | None:
    """A matplotlib figure."""
    figure = loaded("matplotlib.figure", "Figure")
    if figure is MISSING or not isinstance(value, figure):
        return None
    shown = late_import(f"{__package__}.plots")
    shown.done_with(value)
    forms = (_sendable("image/png", shown.png_of(value, side)) for side in FIGURE_SIDES)
    return next((form for form in forms if form is not None), None)


def _image(value: object) -> tuple[str, str] | None:
    """A picture of Pillow's."""
    image = loaded("PIL.Image", "Image")
    if image is MISSING or not isinstance(value, image):
        return None
    forms = (_by_methods(_smaller(value, side)) for side in SIDES)
    return next((form for form in forms if form is not None), None)


def _smaller(image: Any, side: int) -> Any:
    if max(image.size) <= side:
        return image
    smaller = image.copy()
    smaller.thumbnail((side, side))
    return smaller


def _bundle(value: object) -> tuple[str, str] | None:
    method = in_class(type(value), "_repr_mimebundle_")
    if method is MISSING:
        return None
    bundle = value._repr_mimebundle_(include=list(MIMES), exclude=[])  # type: ignore[attr-defined]
    if isinstance(bundle, tuple):
        bundle = bundle[0]
    return next((form for mime in MIMES if (form := _sendable(mime, bundle.get(mime))) is not None), None)


def _by_methods(value: object) -> tuple[str, str] | None:
    for mime in MIMES:
        if in_class(type(value), _METHODS[mime]) is MISSING:
            continue
        found = getattr(value, _METHODS[mime])()
        form = _sendable(mime, found[0] if isinstance(found, tuple) else found)
        if form is not None:
            return (mime, form[1] + _shape(value)) if mime == "text/html" and "columns</p>" not in form[1] else form
    return None


def _shape(value: Any) -> str:
    """The shape of a table of pandas, which tells it by itself only where it leaves something out; empty where the person has changed that."""
    frame = loaded("pandas", "DataFrame")
    if frame is MISSING or not isinstance(value, frame) or sys.modules["pandas"].get_option("display.show_dimensions") != "truncate":
        return ""
    rows, columns = value.shape
    return f"<p>{rows} rows × {columns} columns</p>"


def _sendable(mime: str, data: object) -> tuple[str, str] | None:
    """Text as it is, pictures as base64; None for what is too large, and for HTML that is no table."""
    if mime.startswith("image/"):
        base64 = late_import("base64")
        picture = base64.b64decode(data, validate=True) if isinstance(data, str) else data
        if not isinstance(picture, bytes) or len(picture) > LARGEST_PICTURE:
            return None
        return mime, base64.b64encode(picture).decode()
    if not isinstance(data, str) or len(data) > LARGEST_TEXT or (mime == "text/html" and "<table" not in data):
        return None
    return mime, str.__str__(data)


def _by_rich(value: object) -> str | None:
    """What rich draws for it, with its colours; None where rich is not loaded or does not draw it."""
    if "rich" not in sys.modules:
        return None
    console = importlib.import_module("rich.console").Console
    file = io.StringIO()
    colour = os.environ.get("NO_COLOR") is None
    drawing = console(file=file, force_terminal=colour, color_system="truecolor" if colour else None, no_color=not colour, legacy_windows=False)
    try:
        drawing.print(value)
    except Exception:  # the object's own code
        return None
    return str(file.getvalue())
