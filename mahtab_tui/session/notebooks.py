"""The notebook opened by a session: its cells are logged, and run from the screen (`notebook_runs.py`).

`notebook_file.py` writes their results back, and `notebook_autosave.py` decides when.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.records import Record, emit, get_record, warn
from mahtab_tui.export.reading import LoadedNotebook, cell_outputs, cell_source
from mahtab_tui.session.notebook_autosave import NotebookAutosave
from mahtab_tui.session.notebook_file import CellNotFound, NotebookFile
from mahtab_tui.session.notebook_runs import NotebookRun
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from mahtab_tui.session.cells import Cells
    from mahtab_tui.session.inbox import Inbox
    from mahtab_tui.session.runtime import Runtime


class Notebook(logging.Handler):
    """A notebook and the results of its cells, updated from records. Any thread may call it."""

    def __init__(
        self,
        runtime: Runtime,
        inbox: Inbox,
        cells: Cells,
        file: LoadedNotebook,
        read_all_records: Callable[[], Sequence[Record]],
    ) -> None:
        """Open a notebook in a session.

        Args:
            runtime: What the session works with.
            inbox: The queue of cells.
            cells: Runs the cells.
            file: The notebook, as it was read.
            read_all_records: Returns all stored records; may raise `StoreError`.
        """
        super().__init__()
        past = runtime.past
        if past:
            try:
                past = read_all_records() or past
            except StoreError as error:
                warn(runtime.log, str(error))
        self._log = runtime.log
        self._inbox = inbox
        self._cells = cells
        self._secrets = runtime.secrets
        self._file = NotebookFile(file, past, runtime.log, runtime.secrets)
        self._autosave = NotebookAutosave(self._file, runtime.log)
        self._edited_sources: dict[int, str] = {}
        """Sources that the user has edited before running the cells, by position."""
        self.confirmed = not file.language
        """Whether the user has agreed to run cells of another language."""

    @property
    def language(self) -> str:
        """Empty for Python."""
        return self._file.loaded.language

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def label(self) -> str:
        """The name of the file, for the user."""
        return self._file.label

    @property
    def unsaved(self) -> bool:
        """Whether there are changes that will not be written automatically."""
        return self._file.has_changes and not self._autosave.is_working

    @property
    def problem(self) -> str:
        """Why the file could not be written automatically, as a sentence; empty if it could."""
        return self._autosave.problem

    def emit(self, record: logging.LogRecord) -> None:
        if self._file.add(get_record(record)):
            self._autosave.schedule()

    def start(self) -> None:
        """Log the notebook's cells, and write changes from before an earlier screen was closed."""
        if not self._file.is_logged:
            start_thread("notebook", self._log_cells)
        if self._file.has_changes:
            self._autosave.schedule()

    def _log_cells(self) -> None:
        """Log the file, its cells and their stored output."""
        file = self._file.loaded
        first = self._file.first_position
        cell_count = len(file.cells)
        opened = records.NotebookOpened(
            self._opening_sentences(),
            file=str(file.path),
            digest=file.digest,
            first=first,
            cells=cell_count,
            rewritable=file.rewritable,
        )
        emit(self._log, opened)

        for position, cell in enumerate(file.cells, first):
            opened_cell = records.NotebookCell(
                cell_source(cell), position=position, kind=cell["cell_type"]
            )
            emit(self._log, opened_cell)
            for output in cell_outputs(cell):
                fields = output._asdict()
                output_text = fields.pop("text")
                emit(self._log, records.NotebookOutput(output_text, position=position, **fields))

    def _opening_sentences(self) -> str:
        """Say which cells the file has, and what happens to it."""
        file = self._file.loaded
        first = self._file.first_position
        cell_count = len(file.cells)
        text = f"{self.label} has no cells yet."
        if cell_count:
            cells = f"cell {first:,}"
            if cell_count > 1:
                cells = f"cells {first:,} to {first + cell_count - 1:,}"
            text = f"{self.label}: {cells}, as in the file. None of them has run here. /run runs them all."
        if file.language:
            text += f" It is for {file.language}, not for Python."
        if file.rewritable:
            text += " The file is kept up to date."
        return text

    def stored_output(self, position: int) -> str | None:
        """Return the stored output of a cell, if it still exists."""
        try:
            return "".join(output.text for output in cell_outputs(self._file.cell(position)))
        except CellNotFound:
            return None

    # Running

    def run(self, position: int, source: str | None = None) -> None:
        """Run a code cell.

        Args:
            position: The cell's position in the notebook.
            source: The source as on the screen, where secrets are masked; None for the last one.

        Raises:
            CellNotFound: There is no such code cell, or a secret in it cannot be restored.
        """
        cell = self._file.cell(position)
        if cell["cell_type"] != "code":
            raise CellNotFound(f"Notebook cell {position} is not a code cell.")
        if source is not None:
            known_sources = [self._source(position), cell_source(cell)]
            self._edited_sources[position] = self._unmask(source, known_sources)
        self._run_in_order([position])

    def _unmask(self, source: str, known_sources: Sequence[str]) -> str:
        """Return the known source that the screen shows as this one, or else this one."""
        for known_source in known_sources:
            if self._secrets.mask(known_source).strip("\n") == source.strip("\n"):
                return known_source
        if MASK in source:
            raise CellNotFound(
                "A secret in this cell was masked: bring it into the input (e) and type it again."
            )
        return source

    def run_up_to(self, position: int | None = None) -> None:
        """Run the code cells up to a position, or to the end, until one fails.

        Raises `CellNotFound`.
        """
        if position is not None:
            self._file.cell(position)
        positions = [
            candidate
            for candidate in self._file.positions
            if (position is None or candidate <= position)
            and self._file.cell(candidate)["cell_type"] == "code"
            and self._source(candidate).strip()
        ]
        if not positions:
            raise CellNotFound("The notebook has no code cell there.")
        self._run_in_order(positions)

    def _source(self, position: int) -> str:
        if position in self._edited_sources:
            return self._edited_sources[position]
        return cell_source(self._file.cell(position))

    def _run_in_order(self, positions: Sequence[int]) -> None:
        """Queue cells. Those after a cell that fails are removed from the queue."""
        sources = {position: self._source(position) for position in positions}
        NotebookRun(self._inbox, self._cells, self._log).start(sources)

    # Saving

    def save(self) -> str:
        """Write the file, if it is not up to date. See `NotebookFile.save`."""
        return self._file.save()

    def flush(self) -> None:
        """Write the file now if it has changed, and the session may write it."""
        self._autosave.flush()

    def end(self) -> None:
        """Write the file for the last time, if the session may write it."""
        self._autosave.end()
