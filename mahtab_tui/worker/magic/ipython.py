"""What cells written for IPython and notebooks import and call: `get_ipython()` and
`IPython.display`, whether IPython is installed or not."""

from __future__ import annotations

import builtins
import html
import os
import re
import sys
import types
from typing import Any, Callable, ClassVar

from ..cells.compiling import compile_callable
from ..cells.tracebacks import CELL
from ..stdlib import late_import
from ..tools import shell_commands
from ..values import displays
from . import syntax
from .expansion import Names, expand_command
from .notes import note_widgets

_VERSION = (9, 0, 0)
"""Version of the IPython whose names are here."""

_TAG = re.compile(r"<[^<>]*>")

_importing: set[str] = set()
"""Libraries that `prepare_import` is importing, for which it must not be called again."""


# The shell

_DISPLAY_FUNCTIONS = (
    "DisplayHandle display update_display clear_output publish_display_data".split()
)


class _Events:
    """The shell's `events`, which accepts callbacks and never calls them."""

    def register(self, event: str, function: Callable[..., object]) -> None: ...

    def unregister(self, event: str, function: Callable[..., object]) -> None: ...


class InteractiveShell:
    """The methods of IPython's shell that cells call. One per kernel."""

    instances: ClassVar[list[InteractiveShell]] = []

    def __init__(self, namespace: dict[str, object], await_: Callable[[Any], object]) -> None:
        self.user_ns = namespace
        self.user_global_ns = namespace
        self.config: dict[str, Any] = {}
        self.events = _Events()
        self._await = await_

    def __repr__(self) -> str:
        return "<get_ipython() of mahtab-tui: run_line_magic, run_cell_magic, system, getoutput, run_cell, ev, ex, push, user_ns>"

    @property
    def execution_count(self) -> int:
        return len(builtins.__dict__["In"]) - 1

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> object:
        names = Names.of_frame(sys._getframe(_stack_depth))
        return syntax.run_magic(magic_name, line, names, self._await)

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> object:
        names = Names.of_frame(sys._getframe(1))
        return syntax.run_magic(f"%{magic_name}", f"{line}\n{cell}", names, self._await)

    def magic(self, arg_s: str) -> Any:
        name, _, line = arg_s.lstrip("%").partition(" ")
        return self.run_line_magic(name, line, _stack_depth=2)

    def system(self, cmd: str) -> None:
        shell_commands.run_command(expand_command(cmd, Names.of_frame(sys._getframe(1))))

    def getoutput(self, cmd: str, split: bool = True) -> list[str] | str:
        lines = shell_commands.read_command(expand_command(cmd, Names.of_frame(sys._getframe(1))))
        return lines if split else "\n".join(lines)

    def run_cell(self, raw_cell: str, **options: object) -> object:
        source = syntax.transform(raw_cell)
        return compile_callable(source, "<run_cell>", self.user_ns, self._await)()

    def ev(self, expr: str) -> object:
        return eval(expr, self.user_ns)

    def ex(self, cmd: str) -> None:
        exec(cmd, self.user_ns)

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: figures are shown in the transcript."""

    def push(self, variables: dict[str, object], interactive: bool = True) -> None:
        self.user_ns.update(variables)


def get_shell(namespace: dict[str, object], await_: Callable[[Any], object]) -> InteractiveShell:
    """Return the kernel's only shell; the first call makes it."""
    if not InteractiveShell.instances:
        InteractiveShell.instances.append(InteractiveShell(namespace, await_))
    return InteractiveShell.instances[0]


# Displays


class DisplayHandle:
    """A display that can be updated while its cell runs."""

    def __init__(self, display_id: str | None = None) -> None:
        self.display_id = display_id or os.urandom(8).hex()

    def __repr__(self) -> str:
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, obj: object, **options: object) -> None:
        displays.show_named(_readable(obj), self.display_id, update=False)

    def update(self, obj: Any, **options: Any) -> None:
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
        objs: the values.
        display_id: a name by which the display can be updated; True for a new name.
        update: replace the display that has this name.
        clear: first remove what the cell has output.
        raw: whether the values are dicts of data by MIME type.
        options: IPython's other options, which have no effect here.

    Returns:
        The handle that updates the display, if it has a name.
    """
    if clear:
        displays.clear_output(wait=True)
    values = [_Bundle(value) if raw else _readable(value) for value in objs]
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
    display(obj, display_id=display_id, update=True)


def clear_output(wait: bool = False) -> None:
    displays.clear_output(wait)


def publish_display_data(data: dict[str, object], *args: object, **options: object) -> None:
    display(data, raw=True)


def _readable(value: Any) -> object:
    """Return a value that reads well as text where IPython's own shows only its class."""
    cls = type(value)
    if cls.__module__.partition(".")[0] == "IPython" and cls.__name__ in ("HTML", "Latex", "Math"):
        return globals()[cls.__name__](str(value.data or ""))
    return value


class _Bundle:
    """Data by MIME type."""

    def __init__(self, data: dict[str, object]) -> None:
        self._data = data

    def __repr__(self) -> str:
        return str(self._data.get("text/plain", ""))

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        return self._data


class DisplayObject:
    """Text or bytes that are shown in one way."""

    _mime: ClassVar[str] = ""

    def __init__(
        self,
        data: object = None,
        url: str | None = None,
        filename: str | None = None,
        **options: object,
    ) -> None:
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
        return False

    def _read(self, filename: str) -> object:
        with open(filename, encoding="utf-8") as file:
            return file.read()

    def __repr__(self) -> str:
        return str(self.data or self.url or "")

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        if self._mime:
            return {self._mime: self.data}
        return {}


class HTML(DisplayObject):
    _mime = "text/html"

    def __repr__(self) -> str:
        return " ".join(html.unescape(_TAG.sub(" ", str(self.data or ""))).split())

    def _repr_html_(self) -> str:
        return str(self.data or "")


class Markdown(DisplayObject):
    _mime = "text/markdown"


class Latex(DisplayObject):
    _mime = "text/markdown"

    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        return {"text/markdown": f"```latex\n{self.data}\n```"}


class Math(Latex): ...


class Code(DisplayObject):
    def _repr_mimebundle_(self, **options: object) -> dict[str, object]:
        return {"text/markdown": f"```python\n{self.data}\n```"}


class Pretty(DisplayObject): ...


class SVG(DisplayObject): ...


class Javascript(DisplayObject):
    def __repr__(self) -> str:
        return "JavaScript, which a terminal cannot run"


class JSON(DisplayObject):
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
        mime = "image/png"
        if self.data.startswith(b"\xff\xd8"):
            mime = "image/jpeg"
        return {mime: self.data}


_DISPLAY_NAMES: dict[str, object] = {
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


# Imports


def prepare_import(name: str) -> None:
    """Adapt a library that a cell is about to import to this kernel and a terminal."""
    if name in _importing:
        return
    if name == "ipywidgets":
        if _is_imported_by_cell() and _has_module(name):
            note_widgets()
        return

    _importing.add(name)
    try:
        _adapt(name)
    except ImportError:
        pass  # the cell's own import says what is missing
    finally:
        _importing.discard(name)


def _adapt(name: str) -> None:
    """Import a library, and replace what does not work here. Raises `ImportError`."""
    if name == "tqdm.notebook":
        _adapt_tqdm()
    elif not _has_module("IPython"):
        # Other libraries must not believe that IPython is installed.
        if _is_imported_by_cell():
            _add_ipython()
    elif name == "IPython.core.display_functions":
        module = _import_for_cell(name)
        for function_name in _DISPLAY_FUNCTIONS:
            setattr(module, function_name, _DISPLAY_NAMES[function_name])
    elif name == "IPython.core.getipython":
        _import_for_cell(name).get_ipython = builtins.__dict__["get_ipython"]


def _is_imported_by_cell() -> bool:
    """Return whether a line of a cell imports, rather than a library that tries what is there."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if filename.startswith(CELL):
            return True
        if "importlib" not in filename and not filename.startswith(
            os.path.dirname(os.path.dirname(__file__))
        ):
            return False
        frame = frame.f_back
    return False


def _has_module(name: str) -> bool:
    return (
        name in sys.modules
        or late_import("importlib.machinery").PathFinder.find_spec(name) is not None
    )


def _import_for_cell(name: str) -> Any:
    return late_import("importlib").import_module(name)


def _adapt_tqdm() -> None:
    """Replace the progress bars of notebooks with those of terminals."""
    notebook = _import_for_cell("tqdm.notebook")
    bars = _import_for_cell("tqdm.std")
    notebook.tqdm = notebook.tqdm_notebook = bars.tqdm
    notebook.trange = notebook.tnrange = bars.trange


def _add_ipython() -> None:
    """Add modules with the names of IPython, which is not installed."""
    package = types.ModuleType("IPython", "The part of IPython that cells use, by mahtab-tui.")
    display_module = types.ModuleType("IPython.display", "IPython's displays, by mahtab-tui.")
    core = types.ModuleType("IPython.core.display", display_module.__doc__)
    for module in (display_module, core):
        vars(module).update(_DISPLAY_NAMES, __getattr__=_explain_missing)
    vars(package).update(
        __path__=[],
        __version__=".".join(map(str, _VERSION)),
        version_info=_VERSION,
        display=display_module,
        get_ipython=builtins.__dict__["get_ipython"],
    )
    sys.modules.update(
        {
            "IPython": package,
            "IPython.display": display_module,
            "IPython.core": types.ModuleType("IPython.core"),
            "IPython.core.display": core,
        }
    )


def _explain_missing(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"{name} needs IPython, which is not installed (%pip install ipython)")
