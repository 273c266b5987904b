"""Hears what a locked process's databases may not do, even if its code hides the error.

A database whose file is open for reading only refuses by itself: the system is not asked, so that
`RefusalListener` hears nothing."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, Callable

_MODULES = ("_sqlite3", "_duckdb", "duckdb.duckdb")
"""Modules with a class `Error`, from which all their errors are derived."""
EVENTS = frozenset(("exec", "sqlite3.connect"))
"""Audit events after which such a module may have been loaded."""


class DatabaseErrors:
    """Reports each error of a database when it is made."""

    def __init__(self, on_error: Callable[[str], object]) -> None:
        """
        Args:
            on_error: Called with the text of each error.
        """
        self._on_error = on_error
        self._unwatched_modules = list(_MODULES)

    def watch(self) -> None:
        """Begin with the errors of modules that have been loaded."""
        for name in list(self._unwatched_modules):
            error_class = getattr(sys.modules.get(name), "Error", None)
            if isinstance(error_class, type):
                self._unwatched_modules.remove(name)
                with suppress(TypeError):  # a later version may have made it immutable
                    self._report_errors(error_class)

    def _report_errors(self, error_class: Any) -> None:
        initialize = error_class.__init__

        def report(error: object, *args: object, **options: object) -> None:
            initialize(error, *args, **options)
            if args and type(args[0]) is str:
                self._on_error(args[0])

        error_class.__init__ = report
