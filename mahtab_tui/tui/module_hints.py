"""Hints on modules that the kernel's Python lacks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from textual.widget import Widget

from mahtab_tui.bus.records import Record, ReplOut
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.kernel.environments import find_environments, has_package
from mahtab_tui.session import Session
from mahtab_tui.tui.workers import Fetcher

MESSAGE_SEARCH_CHARS = 2_000
"""The message of an exception is looked for in this many characters at the end of its traceback."""
MISSING_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([A-Za-z_]\w*)", re.MULTILINE)
PACKAGE_NAMES = {"PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Names of packages by the names of their modules, where the two differ."""


class MissingModuleHints:
    """Says how to get a module whose import has failed."""

    def __init__(self, session: Session, owner: Widget) -> None:
        """
        Args:
            owner: The widget whose end ends the search for modules.
        """
        self._session = session
        self._fetcher = Fetcher(owner)

    def fold(self, records: Sequence[Record]) -> None:
        """Log a hint for each cell that failed to import a module."""
        for record in records:
            if not isinstance(record, ReplOut) or record.status != "error":
                continue
            for module in MISSING_MODULE.findall(record.text[-MESSAGE_SEARCH_CHARS:]):
                hint = partial(self._find_hint, module)
                self._fetcher.run("hint", hint, self._session.notice)

    def _find_hint(self, module: str) -> str:
        """Return an environment of this machine that has the module, or else how to install it.

        Runs on a thread, because it reads the environments' folders.
        """
        info = self._session.kernel.info()
        can_change_python = info.pid != os.getpid() and not info.host
        if can_change_python:
            for environment in find_environments(Path(info.cwd), info.executable):
                if has_package(environment.prefix, module):
                    python = environment.path
                    return one_line(f"{python} has {module}: /python {python}")
        package = PACKAGE_NAMES.get(module, module)
        return f"This Python has no {module}: %pip install {package}"
