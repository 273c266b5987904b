"""`search_code()` and `read_file()` of a cell."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mahtab_tui.knowledge.code import CodeSearcher


class CodeCalls:
    """Serves what cells want of the source; a search that a cell waits for can be stopped."""

    def __init__(self, code_dir: Path) -> None:
        self._code_dir = code_dir
        self._waiting: set[threading.Event] = set()

    @cached_property
    def _searcher(self) -> CodeSearcher:
        from mahtab_tui.knowledge.code import CodeSearcher

        return CodeSearcher(self._code_dir)

    def search(self, args: Mapping[str, Any]) -> str:
        """The matches as text. Raises `CodeError`."""
        cancelled = threading.Event()
        self._waiting.add(cancelled)
        try:
            return self._searcher.search(
                args["pattern"],
                args["file_pattern"],
                args["context_lines"],
                ignore_case=args["ignore_case"],
                limit=args["limit"],
                encoding=args["encoding"] or None,
                cancelled=cancelled,
            ).as_text()
        finally:
            self._waiting.discard(cancelled)

    def read(self, args: Mapping[str, Any]) -> str:
        """Lines of a file, numbered. Raises `CodeError`."""
        return self._searcher.read_file(args["path"], args["start"], args["end"])

    def cancel(self) -> None:
        """Stop the searches that are waited for."""
        for cancelled in list(self._waiting):
            cancelled.set()
