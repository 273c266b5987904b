"""What cells written for notebooks import from `IPython.display`, whether IPython is installed or not.

`DISPLAY_NAMES` has all of it; `ipython_imports` puts these names into the modules that cells import.
The parameters are those of IPython. Options that have no effect in a terminal are accepted.
"""

from __future__ import annotations

import os
import sys
from typing import Any, ClassVar

from ..stdlib import late_import
from ..values import displays
from ..values.html_words import html_words
from ..values.rich_forms import MIMES

_JPEG_START = b"\xff\xd8"


class DisplayHandle:
    """A display that can be updated while its cell runs."""

    def __init__(self, display_id: str | None = None) -> None:
        self.display_id = display_id or os.urandom(8).hex()

    def __repr__(self) -> str:
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, obj: object, **options: object) -> None:
        """Show a value as a display that can be updated."""
        displays.show_named(_readable(obj), self.display_id, update=False)

    def update(self, obj: Any, **options: Any) -> None:
        """Replace what the display shows."""
        displays.show_named(_readable(obj), self.display_id, update=True)


def display(
    *objs: Any,
    display_id: str | bool | None = None,
    update: bool = False,
    clear: bool = False,
    raw: bool = False,
    **options: object,
) -> DisplayHandle | None:
    """Show values as `IPython.display.display` does.

    Args:
        objs: The values.
        display_id: A name by which the display can be updated; True for a new name.
        update: Whether to replace the display that has this name.
        clear: Whether to remove first what the cell has output.
        raw: Whether the values are dicts of data by MIME type.
        options: IPython's other options, which have no effect here.

    Returns:
        The handle that updates the display, if it has a name.
    """
    if clear:
        displays.clear_output(wait=True)
    if raw:
        # Some set up a notebook by scripts, and show nothing.
        values: list[object] = [bundle for bundle in map(_Bundle, objs) if bundle.is_visible]
    else:
        values = [_readable(value) for value in objs]
    if not display_id:
        if update:
            raise TypeError("display(…, update=True) needs a display_id")
        displays.display(*values)
        return None
    handle = DisplayHandle(None if display_id is True else str(display_id))
    for value in values:
        displays.show_named(value, handle.display_id, update=update)
    return None if update else handle


def update_display(obj: object, *, display_id: str, **options: object) -> None:
    """Replace the display of this name."""
    display(obj, display_id=display_id, update=True)


def clear_output(wait: bool = False) -> None:
    """Remove what the cell has output.

    Args:
        wait: Whether to do so only when it outputs something else.
    """
    # A widget means its own part of the output, which a terminal does not have.
    caller = sys._getframe(1).f_globals.get("__name__")
    if not str(caller).startswith("ipywidgets."):
        displays.clear_output(wait)


def publish_display_data(data: dict[str, object], *args: object, **options: object) -> None:
    """Show one of several forms of the same data, given by MIME type."""
    display(data, raw=True)


def _readable(value: Any) -> object:
    """Return a value that reads well as text where IPython's own shows only its class."""
    cls = type(value)
    if cls.__module__.partition(".")[0] == "IPython" and cls.__name__ in ("HTML", "Latex", "Math"):
        return globals()[cls.__name__](str(value.data or ""))
    return value


class _Bundle:
    """Data by MIME type, as a value that can be shown."""

    def __init__(self, data: dict[str, object]) -> None:
        self._data = data

    @property
    def is_visible(self) -> bool:
        """Whether there is something to show, besides scripts."""
        shown_mimes = {*MIMES} - {"text/html"}
        return bool(repr(self) or shown_mimes & self._data.keys())

    def __repr__(self) -> str:
        if "text/plain" in self._data:
            return str(self._data["text/plain"])
        words = html_words(str(self._data.get("text/html", "")))
        unknown_mimes = [mime for mime in self._data if mime not in MIMES]
        if words or not unknown_mimes:
            return words
        return f"<{unknown_mimes[0]}, which a terminal cannot show>"

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        return self._data


class DisplayObject:
    """Text or bytes that are shown in one way. Derived classes say in which."""

    _mime: ClassVar[str] = ""
    """The type of the data; empty to show its text only."""

    def __init__(
        self,
        data: object = None,
        url: str | None = None,
        filename: str | None = None,
        **options: object,
    ) -> None:
        """
        Args:
            data: The data, or, for some classes, the path of a file that has it.
            url: An address of the data, which is not loaded, but shown.
            filename: A file that has the data.
            options: IPython's other options; `metadata` is kept, and the others have no effect.
        """
        if isinstance(data, (str, os.PathLike)) and self._is_path(os.fspath(data)):
            filename = os.fspath(data)
            data = None
        self.data = data
        self.url = url
        self.filename = filename
        self.metadata = options.get("metadata") or {}
        if data is None and filename is not None:
            self.data = self._read(filename)

    @staticmethod
    def _is_path(text: str) -> bool:
        """Return whether data that is a text is the path of a file."""
        return False

    def _read(self, filename: str) -> object:
        """Return the data in a file."""
        with open(filename, encoding="utf-8") as file:
            return file.read()

    def __repr__(self) -> str:
        return str(self.data or self.url or "")

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        if self._mime:
            return {self._mime: self.data}
        return {}


class HTML(DisplayObject):
    """HTML. A terminal shows its words."""

    _mime = "text/html"

    def __repr__(self) -> str:
        return " ".join(html_words(str(self.data or "")).split())

    def _repr_html_(self) -> str:
        return str(self.data or "")


class Markdown(DisplayObject):
    """Markdown."""

    _mime = "text/markdown"


class Latex(DisplayObject):
    """LaTeX, which is shown as code."""

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        return {"text/markdown": f"```latex\n{self.data}\n```"}


class Math(Latex):
    """A formula in LaTeX."""


class Code(DisplayObject):
    """Python code."""

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        return {"text/markdown": f"```python\n{self.data}\n```"}


class Pretty(DisplayObject):
    """Text that is shown as it is."""


class SVG(DisplayObject):
    """A drawing, which is shown as its text."""


class Javascript(DisplayObject):
    """A script for a notebook, which does not run."""

    def __repr__(self) -> str:
        return "JavaScript, which a terminal cannot run"


class JSON(DisplayObject):
    """Data, which is shown as JSON."""

    def __repr__(self) -> str:
        return str(late_import("json").dumps(self.data, indent=1, default=repr))


class Image(DisplayObject):
    """A PNG or JPEG picture: its bytes, or the path of its file."""

    @staticmethod
    def _is_path(text: str) -> bool:
        return not text.startswith(("http://", "https://"))

    def _read(self, filename: str) -> bytes:
        with open(filename, "rb") as file:
            return file.read()

    def __repr__(self) -> str:
        if isinstance(self.data, bytes):
            return f"<Image: {len(self.data):,} bytes>"
        return f"<Image at {self.data or self.url}, which is not loaded>"

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        if not isinstance(self.data, bytes):
            return {}
        is_jpeg = self.data.startswith(_JPEG_START)
        return {"image/jpeg" if is_jpeg else "image/png": self.data}


DISPLAY_NAMES: dict[str, object] = {
    "HTML": HTML,
    "Markdown": Markdown,
    "Latex": Latex,
    "Math": Math,
    "Code": Code,
    "Pretty": Pretty,
    "SVG": SVG,
    "Javascript": Javascript,
    "JSON": JSON,
    "Image": Image,
    "DisplayObject": DisplayObject,
    "DisplayHandle": DisplayHandle,
    "display": display,
    "update_display": update_display,
    "clear_output": clear_output,
    "publish_display_data": publish_display_data,
}
