"""Commands of IPython that are not needed here: each prints a muted line, and the cell continues."""

from __future__ import annotations

from typing import Callable

from .magics import Caller

_INSTEAD = {
    "autoreload": "modules of your project are reloaded automatically when their file has changed",
    "autosave": "the session is saved continuously",
    "colors": "the theme sets the colours (F10)",
    "config": "this is not IPython",
    "gui": "figures are shown automatically",
    "load_ext": "extensions are a feature of IPython",
    "matplotlib": "figures are shown automatically",
    "pdb": "use %debug after an error",
    "precision": "numbers are shown as Python formats them",
    "reload_ext": "extensions are a feature of IPython",
    "reset": "F9 restarts the kernel, and Delete in the namespace pane deletes a variable",
    "store": "variables live as long as the kernel; Ctrl+S on an open variable writes it to a file",
    "unload_ext": "extensions are a feature of IPython",
    "xmode": "`f` on an error shows its frames with the source",
}
_NOT_NEEDED = frozenset(("autoreload", "autosave", "gui", "matplotlib"))


def _say(name: str) -> Callable[[str, Caller], None]:
    def say(rest: str, caller: Caller) -> None:
        instead = _INSTEAD["autoreload"] if name.endswith("load_ext") and rest.strip() == "autoreload" else _INSTEAD[name]
        needed = "is not needed" if name in _NOT_NEEDED or instead is not _INSTEAD[name] else "does nothing here"
        print(f"\x1b[2m%{f'{name} {rest}'.strip()} {needed}: {instead}.\x1b[22m")

    return say


globals().update({name: _say(name) for name in _INSTEAD})
