"""What notebooks say to IPython and need not say here: each in one muted line, and the cell goes on."""

from __future__ import annotations

from typing import Any, Callable

from .magics import Caller

_INSTEAD = {
    "autoreload": "modules of your project are loaded anew by themselves when their file has changed",
    "autosave": "everything that is said and run is kept as it happens",
    "colors": "the theme gives the colours (F10)",
    "config": "IPython is not what runs here",
    "gui": "figures show by themselves",
    "load_ext": "extensions are IPython's",
    "matplotlib": "figures show by themselves",
    "pdb": "after an error %debug looks around",
    "precision": "numbers show as Python writes them",
    "reload_ext": "extensions are IPython's",
    "reset": "F9 gives a fresh kernel, and Delete in the namespace pane deletes a variable",
    "store": "variables live as long as the kernel; Ctrl+S on an open variable writes it to a file",
    "unload_ext": "extensions are IPython's",
    "xmode": "`f` on an error shows its frames with the source",
}
_NOT_NEEDED = frozenset(("autoreload", "autosave", "gui", "matplotlib"))


def _say(name: str) -> Callable[[str, Caller], None]:
    def say(rest: str, caller: Caller) -> None:
        instead = _INSTEAD["autoreload"] if name.endswith("load_ext") and rest.strip() == "autoreload" else _INSTEAD[name]
        needed = "is not needed" if name in _NOT_NEEDED or instead is not _INSTEAD[name] else "does nothing here"
        print(f"\x1b[2m%{f'{name} {rest}'.strip()} {needed}: {instead}.\x1b[22m")

    return say


COMMANDS: dict[str, Callable[[str, Caller], Any]] = {name: _say(name) for name in _INSTEAD}
