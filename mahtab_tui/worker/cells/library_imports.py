"""Fits libraries to the kernel when a cell imports them: plots, widths, event loops, notebooks, processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..link.interrupts import Interrupts
from ..stdlib import is_ours, own_module
from .debugger import load_pdb

_PROCESS_STARTERS = frozenset(
    {"multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver"}
)
"""Modules that start processes which do not inherit the cells. Code that does so has imported one
of them."""
_NOTEBOOK_LIBRARIES = frozenset(
    (
        *("IPython", "IPython.display", "IPython.core.display_functions"),
        *("IPython.core.getipython", "ipywidgets", "tqdm.notebook"),
    )
)
"""They expect a notebook; `ipython.prepare_import` fits them to this screen."""
_PANDAS_DEFAULT_WIDTH = 80
"""Characters of a line, if the user has not set another width."""


class LibraryImports:
    """Hears what cells import."""

    def __init__(
        self, names: dict[str, Any], interrupts: Interrupts, on_asyncio: Callable[[], None]
    ) -> None:
        """
        Args:
            names: The user's namespace.
            interrupts: Says whether a cell runs.
            on_asyncio: Called when a cell imports asyncio.
        """
        self.on_asyncio = on_asyncio
        self.cloudpickle = ""
        """The folder of cloudpickle; empty if unknown."""
        self._names = names
        self._interrupts = interrupts
        self._has_fitted_pandas = False

    def prepare(self, event: str, args: tuple[Any, ...]) -> None:
        """Handle the audit event of an import, before the module is loaded."""
        name = args[0]
        if name.startswith("matplotlib."):  # before pyplot has chosen a backend
            own_module("values.matplotlib_backend").choose_backend()
        elif name.startswith("pandas.") and not self._has_fitted_pandas:
            self._has_fitted_pandas = _fit_pandas()
        elif name.partition(".")[0] == "asyncio" and self._interrupts.running:
            if "asyncio" not in sys.modules and is_ours("asyncio"):
                self.on_asyncio()
        elif name in _NOTEBOOK_LIBRARIES:
            own_module("magic.ipython_imports").prepare_import(name)
        elif name in _PROCESS_STARTERS:
            own_module("saving.spawning").install(self._names, self.cloudpickle)
        elif name == "pdb" and is_ours("pdb"):
            load_pdb()


def _fit_pandas() -> bool:
    """Make pandas use the terminal's width; return False if its options do not exist yet."""
    config: Any = sys.modules.get("pandas._config")
    try:
        if config.get_option("display.width") == _PANDAS_DEFAULT_WIDTH:
            config.set_option("display.width", None)
    except (AttributeError, KeyError):  # pandas raises OptionError, a KeyError
        return False
    return True
