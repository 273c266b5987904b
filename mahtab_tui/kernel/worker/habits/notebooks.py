"""Commands of IPython that are not needed here: each prints a muted line, and the cell
continues."""

from __future__ import annotations

import importlib
from typing import Callable

from ..stdlib import late_import
from .magics import Caller

_INSTEAD = {
    "autosave": "the session is saved continuously",
    "colors": "the theme sets the colours (F10)",
    "config": "this is not IPython",
    "gui": "figures are shown automatically",
    "matplotlib": "figures are shown automatically",
    "pdb": "use %debug after an error",
    "precision": "numbers are shown as Python formats them",
    "reset": "F9 restarts the kernel, and Delete in the namespace pane deletes a variable",
    "store": "variables live as long as the kernel; Ctrl+S on an open variable writes it to a file",
    "unload_ext": "extensions are a feature of IPython",
    "xmode": "`f` on an error shows its frames with the source",
}
_NOT_NEEDED = frozenset(("autosave", "gui", "matplotlib"))


def _say(name: str) -> Callable[[str, Caller], None]:
    def say(rest: str, caller: Caller) -> None:
        needed = "is not needed" if name in _NOT_NEEDED else "does nothing here"
        print(f"\x1b[2m%{f'{name} {rest}'.strip()} {needed}: {_INSTEAD[name]}.\x1b[22m")

    return say


def _show_figures(rest: str, caller: Caller) -> None:
    """Choose the backend that shows figures here, also where MPLBACKEND or `matplotlib.use` has
    chosen another one."""
    plots = late_import(f"{__package__.rpartition('.')[0]}.showing.plots")
    try:
        importlib.import_module("matplotlib").use(plots.BACKEND)
    except ImportError:
        print("\x1b[2mmatplotlib is not installed: %pip install matplotlib.\x1b[22m")
    else:
        _say("matplotlib")(rest, caller)


globals().update({name: _say(name) for name in _INSTEAD}, matplotlib=_show_figures)
