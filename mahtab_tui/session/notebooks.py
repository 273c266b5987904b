"""The notebook opened by a session: its cells are logged, run from the screen, and written back with their
results."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.entries import Cell, Entry
from mahtab_tui.bus.masking import MASK
from mahtab_tui.bus.records import Record, emit, get_record, warn
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.bus.values import Status
from mahtab_tui.export import merging, writing
from mahtab_tui.export.entries import ANNOTATIONS, ExportedConversation, has_run
from mahtab_tui.export.reading import LoadedNotebook, Node, cell_outputs, cell_source
from mahtab_tui.export.selection import ExportedEntries
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from mahtab_tui.session.cells import Cells
    from mahtab_tui.session.inbox import Inbox
    from mahtab_tui.session.runtime import Runtime

WRITE_DELAY_S = 2.0
"""Seconds between a change and updating the file."""
_CHANGES = (
    records.ReplOut
    | records.UserChat
    | records.AssistantChat
    | records.Undo
    | records.Hide
    | records.Private
    | records.Replace
    | records.Usage
)
"""Records that change what the file contains."""


class CellNotFound(Exception):
    """A notebook has no such cell. The message is a sentence."""


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
        self._lock = threading.Lock()
        """Held while the file is read or written."""
        self._new_records: deque[Record] = deque(past)
        """Not yet folded."""
        self._conversation = ExportedConversation()
        self._first_entry = 0
        """The entries from this index on belong to the file as last read."""
        # Numbers of changes: so far, and those that the file has.
        self._change_count = 0
        self._written_change_count = 0
        self._edited_sources: dict[int, str] = {}
        """Sources that the user has edited before running the cells, by position."""
        self._first_position = 1
        """The position of the file's first cell among those of all notebooks of the session."""
        self._file = file
        self._content = file.content
        """The content as last written or read."""
        self._digest = file.digest
        self._is_logged = False
        """Whether an earlier screen has logged the cells."""
        self._opened_file = ""
        """The file last opened by the folded records."""
        self._timer: threading.Timer | None = None
        """Runs until the file is written."""
        self.problem = ""
        """Why the file could not be written, as a sentence."""
        self._ended = False
        self.confirmed = not file.language
        """Whether the user has agreed to run cells of another language."""
        self._resume(file, past)

    def _resume(self, file: LoadedNotebook, past: Sequence[Record]) -> None:
        """Continue with a file that this session opened earlier, unless another program has changed
        it."""
        record_classes = records.NotebookFile | records.NotebookWritten
        file_records = [record for record in past if isinstance(record, record_classes)]
        opened_files = [
            record for record in file_records if isinstance(record, records.NotebookFile)
        ]
        if not opened_files:
            return

        last_opened = opened_files[-1]
        last_state = file_records[-1]
        is_other_file = str(file.path) != (last_state.file or last_opened.file)
        if is_other_file or file.digest != last_state.digest:
            # Its cells are logged again, after those of the earlier file.
            self._first_position = last_opened.first + last_opened.cells
            self._change_count = int(is_other_file)
            return

        self._is_logged = True
        self._first_position = last_opened.first
        # The session's additions are at the file's end, and are written anew.
        own_cells = file.cells[: last_opened.cells]
        self._file = replace(file, content={**file.content, "cells": own_cells})
        later_records = past[past.index(last_state) :]
        self._change_count = sum(isinstance(record, _CHANGES) for record in later_records)

    @property
    def language(self) -> str:
        """Empty for Python."""
        return self._file.language

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def label(self) -> str:
        return one_line(self.path.name)

    @property
    def unsaved(self) -> bool:
        """Whether there are changes that will not be written automatically."""
        has_changes = self._change_count != self._written_change_count
        is_written_automatically = self._file.rewritable and not self.problem
        return has_changes and not is_written_automatically

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        self._new_records.append(value)
        if isinstance(value, _CHANGES):
            self._change_count += 1
            self._write_soon()

    def start(self) -> None:
        """Log the notebook's cells, and write changes from before an earlier screen was closed."""
        if not self._is_logged:
            start_thread("notebook", self._log_cells)
        if self._change_count:
            self._write_soon()

    def _log_cells(self) -> None:
        """Log the file, its cells and their stored output."""
        file = self._file
        first = self._first_position
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
        opened = records.NotebookFile(
            text,
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

    def stored_output(self, position: int) -> str | None:
        """Return the stored output of a cell, if it still exists."""
        try:
            return "".join(output.text for output in cell_outputs(self._cell(position)))
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
        cell = self._cell(position)
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
        """Run the code cells up to a position, or to the end, until one fails. Raises
        `CellNotFound`."""
        if position is not None:
            self._cell(position)
        last_position = self._first_position + len(self._file.cells) - 1
        if position is not None:
            last_position = position
        positions = [
            position
            for position in range(self._first_position, last_position + 1)
            if self._cell(position)["cell_type"] == "code" and self._source(position).strip()
        ]
        if not positions:
            raise CellNotFound("The notebook has no code cell there.")
        self._run_in_order(positions)

    def _cell(self, position: int) -> Node:
        """Return a cell of the file. Raises `CellNotFound`."""
        cells = self._file.cells
        if not cells:
            raise CellNotFound(f"{self.label} has no cells.")
        if not self._first_position <= position < self._first_position + len(cells):
            raise CellNotFound(f"{self.label} has no cell {position}.")
        return cells[position - self._first_position]

    def _source(self, position: int) -> str:
        return self._edited_sources.get(position) or cell_source(self._cell(position))

    def _run_in_order(self, positions: Sequence[int]) -> None:
        """Queue cells. Those after a cell that fails are removed from the queue."""
        queued_ids: dict[int, int] = {}
        """Ids of the queued inputs, by position."""

        def run_one(position: int, source: str) -> None:
            del queued_ids[position]
            result = self._cells.run(source, position=position)
            if result.status is Status.OK:
                return

            cancelled_count = 0
            for item_id in list(queued_ids.values()):
                if self._inbox.cancel(item_id) is not None:
                    cancelled_count += 1
            if cancelled_count:
                verb = "failed" if result.status is Status.ERROR else f"was {result.status}"
                subject = f"{cancelled_count:,} cells" if cancelled_count > 1 else "the cell"
                text = f"Notebook cell {position} {verb}, so {subject} after it did not run."
                warn(self._log, text)

        def remember_ids(item_ids: list[int]) -> None:
            queued_ids.update(zip(positions, item_ids, strict=True))

        cells: list[tuple[str, Callable[[], None]]] = []
        for position in positions:
            source = self._source(position)
            cells.append((source, partial(run_one, position, source)))
        self._inbox.put_cells(cells, remember_ids)

    # Saving

    def save(self) -> str:
        """Write the file, if it is not up to date.

        If another program has changed the file, a new one next to it is used from now on.

        Returns:
            A sentence; empty if the file is up to date.

        Raises:
            OSError: The file cannot be read or written.
        """
        with self._lock:
            # Counted first: what is logged while the file is written counts as not written.
            change_count = self._change_count
            content = self._build_content()
            text = merging.render_text(self._file, content)
            digest_on_disk = writing.file_digest(self.path)
            is_unchanged = content == self._content
            # A script has no outputs, so its text may be unchanged although cells ran.
            if not is_unchanged and self._file.format != "ipynb":
                is_unchanged = text == merging.render_text(self._file, self._content)

            sentence = ""
            if digest_on_disk not in (self._digest, ""):
                copy = writing.free_name(self.path)
                self._digest = writing.write_text(copy, text, self._file.style.encoding)
                sentence = f"Another program has changed {self.label}, so this session is now saved in {one_line(copy.name)}."
                self._file = replace(self._file, path=copy)
            elif digest_on_disk != self._digest or not is_unchanged:
                self._digest = writing.write_text(self.path, text, self._file.style.encoding)
                sentence = f"Saved {self.label}."

            if sentence:
                self._content = content
                emit(self._log, records.NotebookWritten(digest=self._digest, file=str(self.path)))
            self._written_change_count = change_count
            return sentence

    # Automatic updates

    def _write_soon(self) -> None:
        """Write the file after a moment, so that many changes are written at once."""
        if self._file.rewritable and self._timer is None and not self._ended:
            self._timer = threading.Timer(WRITE_DELAY_S, self._autosave)
            self._timer.daemon = True
            self._timer.start()

    def _autosave(self) -> None:
        """Write the file; a warning says if that failed, or if the file is another one now."""
        self._timer = None
        path = self.path
        problem = ""
        try:
            sentence = self.save()
            if self.path != path:
                warn(self._log, sentence)
        except OSError as error:
            problem = f"{self.label} cannot be written: {error.strerror}."
            self._write_soon()
        if problem and problem != self.problem:
            warn(self._log, problem)
        self.problem = problem

    def flush(self) -> None:
        """Write the file now if it has changed."""
        has_changes = self._change_count != self._written_change_count
        if self._file.rewritable and has_changes and not self._ended:
            self._autosave()

    def end(self) -> None:
        """Write the file for the last time."""
        self.flush()
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _fold(self) -> None:
        """Add the new records to the conversation."""
        while self._new_records:
            record = self._new_records.popleft()
            if isinstance(record, records.NotebookFile):
                # It was read again, including this session's additions.
                if record.file == self._opened_file:
                    self._first_entry = len(self._conversation.entries)
                self._opened_file = record.file
            self._conversation.fold((record,))

    def _build_content(self) -> Node:
        """Return the file's content with the results of its cells and the session's additions."""
        self._fold()
        conversation = self._conversation
        redact = self._secrets.redact_for_model
        if self._secrets.may_redact:
            conversation.mask_texts(redact)

        run_cells: dict[int, Cell] = {}
        """The newest runs of the file's cells, by index in the file."""
        additions: list[Entry] = []
        positions = range(self._first_position, self._first_position + len(self._file.cells))
        for entry in conversation.entries[self._first_entry :]:
            if isinstance(entry, ANNOTATIONS):
                continue
            if not has_run(entry) or (entry.status and entry.cell_number not in positions):
                additions.append(entry)
            elif entry.status and entry.cell_number is not None and not conversation.private(entry):
                # Running and private cells are left out.
                run_cells[entry.cell_number - self._first_position] = entry
        selected = ExportedEntries(additions, "", conversation.private)
        return merging.merge_content(self._file, run_cells, additions, selected, redact)
