"""A notebook on a bus, for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from mahtab_tui.bus import records
from mahtab_tui.bus.display_handler import DisplayHandler
from mahtab_tui.bus.logger import close_logging, setup_logging
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import NotebookCell, Record, emit
from mahtab_tui.export.merging import new_notebook as new_file
from mahtab_tui.export.reading import read_notebook
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.notebooks import Notebook
from tests.notebooks import write
from tests.unit.test_export import cell as ran


class OpenedNotebook:
    def __init__(
        self,
        path: Path,
        past: tuple[Record, ...] = (),
        secrets: tuple[str, ...] = (),
        saved: bool = False,
        everything: tuple[Record, ...] = (),
    ) -> None:
        self.log = setup_logging()
        self.secrets = Secrets(lambda: secrets)
        self.shown = DisplayHandler()
        self.log.addHandler(self.shown)
        file = read_notebook(path) if path.exists() else new_file(path)
        file = replace(file, rewritable=saved)
        runtime: Any = SimpleNamespace(log=self.log, secrets=self.secrets, past=past)
        cells: Any = None
        self.notebook = Notebook(runtime, Inbox(self.log), cells, file, lambda: everything)
        self.log.addHandler(self.notebook)
        if not self.notebook._file.is_logged:
            self.notebook._log_cells()
        self.received: list[Record] = []

    def happen(self, *happened: Record) -> None:
        for record in happened:
            emit(self.log, record)

    def records(self) -> tuple[Record, ...]:
        self.received += self.shown.pop_records()
        return tuple(self.received)

    def cells(self) -> list[NotebookCell]:
        return [record for record in self.records() if isinstance(record, NotebookCell)]

    def close(self) -> None:
        close_logging(self.log)


OpenNotebook = Callable[..., OpenedNotebook]


def again(
    position: int, number: int, code: str, *outputs: tuple[str, str], **fields: Any
) -> list[Record]:
    return [
        record.changed(position=position) if hasattr(record, "position") else record
        for record in ran(number, code, *outputs, **fields)
    ]


def notices(it: OpenedNotebook) -> list[str]:
    return [record.text for record in it.records() if isinstance(record, records.Notice)]


def write_notebook_file(tmp_path: Path) -> Path:
    """Write a small notebook."""
    cells = [new_markdown_cell("# Title"), new_code_cell("x = 1"), new_code_cell("x + 1")]
    return write(new_notebook(cells=cells), tmp_path / "it.ipynb")
