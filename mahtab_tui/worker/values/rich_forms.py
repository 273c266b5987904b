"""Finds the rich representation of a value: a picture, Markdown or a table.

Unlike most of the worker, this runs code of the value's class: that is how a class says how its objects
are displayed. So whatever it raises is caught.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

from ..stdlib import late_import
from .figures import draw_png
from .html_tables import is_essentially_table
from .matplotlib_backend import has_file_backend
from .objects import MISSING, find_in_class, is_instance_if_loaded

MAX_PICTURE_BYTES = 5_000_000
"""Bytes of a picture's file."""
_MAX_BASE64_CHARS = 2 * MAX_PICTURE_BYTES
"""Characters of a picture in base64, with line breaks."""
MAX_TEXT_CHARS = 300_000
"""Characters of Markdown or HTML."""
_PICTURE_SIDES_PIXELS = (3_000, 1_000)
"""Lengths of the longer side; the second is tried if the file is too large."""
_MAX_TABLE_COLUMNS = 200
_DEFAULT_MAX_COLUMNS = (0, 20)
"""What pandas sets `display.max_columns` to with and without a terminal."""
MAX_STYLED_ROWS = 60
"""Rows of a table with a style of the user's."""

_METHODS_BY_MIME = {
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "text/markdown": "_repr_markdown_",
    "text/html": "_repr_html_",
}
MIMES = tuple(_METHODS_BY_MIME)
"""The types that the screen can show, the best first."""


def rich_form(value: object) -> tuple[str, str]:
    """Return the type and data of the first rich representation; empty texts if there is none."""
    form_finders = (
        *(_from_figure, _from_image, _from_frame, _from_styler),
        *(_from_html, _from_bundle, _from_methods),
    )
    for find_form in form_finders:
        try:
            form = find_form(value)
        except Exception:  # raised by the object's code, or by a library
            continue
        if form is not None:
            return form
    return "", ""


# Each of these returns a type and data, or None if the value is of another kind, or too large.


def _from_figure(value: Any) -> tuple[str, str] | None:
    """Draw a figure of matplotlib."""
    if not is_instance_if_loaded(value, "matplotlib.figure", "Figure"):
        return None
    if has_file_backend():
        # Close the figure so that it is not shown again at the end of the cell. matplotlib 3.11
        # then removes its canvas, but later cells may draw on it.
        canvas = value.canvas
        sys.modules["matplotlib.pyplot"].close(value)
        value.set_canvas(canvas)
    # The smaller picture is only drawn if the larger one is not accepted.
    forms = (encode_form("image/png", draw_png(value, side)) for side in _PICTURE_SIDES_PIXELS)
    return next(filter(None, forms), None)


def _from_image(value: Any) -> tuple[str, str] | None:
    """Return an image of Pillow, made smaller if it is too large."""
    if not is_instance_if_loaded(value, "PIL.Image", "Image"):
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
    """Return the best form of a value that has several, as IPython asks for them."""
    if find_in_class(type(value), "_repr_mimebundle_") is MISSING:
        return None
    bundle = value._repr_mimebundle_(include=list(MIMES), exclude=[])
    if isinstance(bundle, tuple):
        bundle = bundle[0]
    forms = (encode_form(mime, bundle.get(mime)) for mime in MIMES)
    return next(filter(None, forms), None)


def _from_frame(value: object) -> tuple[str, str] | None:
    """Return a pandas table with its shape and with all columns that the screen can show, unless
    the user chose otherwise."""
    if not is_instance_if_loaded(value, "pandas", "DataFrame"):
        return None
    pandas = sys.modules["pandas"]
    options: list[Any] = []
    if pandas.get_option("display.max_columns") in _DEFAULT_MAX_COLUMNS:
        options += ["display.max_columns", _MAX_TABLE_COLUMNS]
    if pandas.get_option("display.show_dimensions") == "truncate":
        options += ["display.show_dimensions", True]
    with pandas.option_context(*options) if options else nullcontext():
        return _from_methods(value)


def _from_styler(value: Any) -> tuple[str, str] | None:
    """Return a styled table of pandas, as far as the screen can show it."""
    if not is_instance_if_loaded(value, "pandas.io.formats.style", "Styler"):
        return None
    return encode_form("text/html", value.to_html(max_rows=MAX_STYLED_ROWS))


def _from_html(value: Any) -> tuple[str, str] | None:
    """Return HTML that was written to be displayed, also if it is not a table: exports have it, and
    the screen its words."""
    if not is_html_display(value) or not isinstance(value.data, str):
        return None
    html = str.__str__(value.data)
    return ("text/html", html) if len(html) <= MAX_TEXT_CHARS else None


def is_html_display(value: object) -> bool:
    """Return whether a value is an `HTML` of IPython."""
    return is_instance_if_loaded(value, "IPython.core.display", "HTML")


def _from_methods(value: object) -> tuple[str, str] | None:
    """Return what the first of IPython's methods returns that a value has."""
    for mime, method in _METHODS_BY_MIME.items():
        if find_in_class(type(value), method) is MISSING:
            continue
        try:
            data = getattr(value, method)()
            if isinstance(data, tuple):  # with metadata
                data = data[0]
            form = encode_form(mime, data)
        except Exception:  # raised by the object's code
            continue
        if form is not None:
            return form
    return None


def encode_form(mime: str, data: object) -> tuple[str, str] | None:
    """Return the type, and the data as text; None if they are invalid, too large, or HTML that is
    not a table."""
    if mime.startswith("image/"):
        picture = _decode_picture(data)
        if picture is None or len(picture) > MAX_PICTURE_BYTES:
            return None
        return mime, late_import("base64").b64encode(picture).decode()
    if not isinstance(data, str) or len(data) > MAX_TEXT_CHARS:
        return None
    text = str.__str__(data)  # of a subclass
    if mime == "text/html" and not is_essentially_table(text):
        return None
    return mime, text


def _decode_picture(data: object) -> bytes | None:
    """Return a picture's file; None if the data are neither bytes nor base64, which may be broken
    into lines."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, str) or len(data) > _MAX_BASE64_CHARS:
        return None
    base64_text = "".join(str.split(data))
    try:
        picture: bytes = late_import("base64").b64decode(base64_text, validate=True)
    except ValueError:
        return None
    return picture
