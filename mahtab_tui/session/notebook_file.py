"""The file of a notebook: its cells, and how the results and additions of a session are written to
it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.entries import Cell, Entry
from mahtab_tui.bus.masking import Secrets
from mahtab_tui.bus.records import Record, emit
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.export import merging, writing
from mahtab_tui.export.entries import ANNOTATIONS, ExportedConversation, has_run
from mahtab_tui.export.reading import LoadedNotebook, Node
from mahtab_tui.export.selection import ExportedEntries

CONTENT_RECORDS = (
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


class _ResumedFile(NamedTuple):
    """How a session goes on with a notebook's file."""

    loaded: LoadedNotebook
    """The file without the additions of this session."""
    first_position: int = 1
    """The position of the file's first cell among those of all notebooks of the session."""
    is_logged: bool = False
    """Whether an earlier screen has logged the cells."""
    change_count: int = 0
    """Changes that the file does not have yet."""


class NotebookFile:
    """A notebook's file, as it was read and as it will be written. Any thread may call it."""

    def __init__(
        self, file: LoadedNotebook, past: Sequence[Record], log: logging.Logger, secrets: Secrets
    ) -> None:
        """Continue with a file that this session opened earlier, unless another program has changed
        it.

        Args:
            file: The notebook, as it was read.
            past: The stored records of the session.
            log: The bus.
            secrets: Are masked in what is written.
        """
        self._log = log
        self._secrets = secrets
        self._lock = threading.Lock()
        """Held while the file is read or written."""
        self._new_records: deque[Record] = deque(past)
        """Not yet folded."""
        self._conversation = ExportedConversation()
        self._first_entry = 0
        """The entries from this index on belong to the file as last read."""
        self._opened_file = ""
        """The file last opened by the folded records."""

        resumed = _resume(file, past)
        self._change_count = resumed.change_count
        """How many changes of the content there were so far."""
        self._written_change_count = 0
        """How many of them the file has."""
        self.first_position = resumed.first_position
        """The position of the file's first cell among those of all notebooks of the session."""
        self.is_logged = resumed.is_logged
        """Whether an earlier screen has logged the cells."""
        self.loaded = resumed.loaded
        """The file as it was read, without the session's additions."""
        self._content = file.content
        """The content as last written or read."""
        self._digest = file.digest
        """The digest of the file as last written or read; empty if it does not exist yet."""

    @property
    def path(self) -> Path:
        """Where the file is written, which changes if another program has changed it."""
        return self.loaded.path

    @property
    def label(self) -> str:
        """The name of the file, for the user."""
        return one_line(self.path.name)

    @property
    def has_changes(self) -> bool:
        """Whether the file is not up to date."""
        return self._change_count != self._written_change_count

    @property
    def positions(self) -> range:
        """The positions of its cells."""
        return range(self.first_position, self.first_position + len(self.loaded.cells))

    def add(self, record: Record) -> bool:
        """Take a record of the session; return whether it changes what the file contains."""
        self._new_records.append(record)
        is_change = isinstance(record, CONTENT_RECORDS)
        self._change_count += is_change
        return is_change

    def cell(self, position: int) -> Node:
        """Return a cell as it was read. Raises `CellNotFound`."""
        if not self.loaded.cells:
            raise CellNotFound(f"{self.label} has no cells.")
        if position not in self.positions:
            raise CellNotFound(f"{self.label} has no cell {position}.")
        return self.loaded.cells[position - self.first_position]

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
            sentence = self._write(self._build_content())
            self._written_change_count = change_count
            return sentence

    def _write(self, content: Node) -> str:
        """Write the file, unless it has this content. Result and errors are those of `save`."""
        text = merging.render_text(self.loaded, content)
        digest_on_disk = writing.file_digest(self.path)
        is_missing = digest_on_disk == ""
        encoding = self.loaded.style.encoding
        if digest_on_disk != self._digest and not is_missing:
            copy = writing.free_name(self.path)
            self._digest = writing.write_text(copy, text, encoding)
            sentence = f"Another program has changed {self.label}, so this session is now saved in {one_line(copy.name)}."
            self.loaded = replace(self.loaded, path=copy)
        elif digest_on_disk != self._digest or not self._has_content(content, text):
            self._digest = writing.write_text(self.path, text, encoding)
            sentence = f"Saved {self.label}."
        else:
            return ""
        self._content = content
        emit(self._log, records.NotebookWritten(digest=self._digest, file=str(self.path)))
        return sentence

    def _has_content(self, content: Node, text: str) -> bool:
        """Return whether the file as last written or read has this content.

        Args:
            content: The content.
            text: The same as text.
        """
        if content == self._content:
            return True
        # A script has no outputs, so its text may be the same although cells ran.
        if self.loaded.format == "ipynb":
            return False
        return text == merging.render_text(self.loaded, self._content)

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
        for entry in conversation.entries[self._first_entry :]:
            if isinstance(entry, ANNOTATIONS):
                continue
            if not has_run(entry) or (entry.status and entry.cell_number not in self.positions):
                additions.append(entry)
            elif entry.status and entry.cell_number is not None and not conversation.private(entry):
                # Running and private cells are left out.
                run_cells[entry.cell_number - self.first_position] = entry
        exported = ExportedEntries(additions, "", conversation.private)
        return merging.merge_content(self.loaded, run_cells, additions, exported, redact)

    def _fold(self) -> None:
        """Add the new records to the conversation."""
        while self._new_records:
            record = self._new_records.popleft()
            if isinstance(record, records.NotebookOpened):
                # It was read again, including this session's additions.
                if record.file == self._opened_file:
                    self._first_entry = len(self._conversation.entries)
                self._opened_file = record.file
            self._conversation.fold((record,))


def _resume(file: LoadedNotebook, past: Sequence[Record]) -> _ResumedFile:
    """Return how a session goes on with a file.

    Args:
        file: The file, as it was read.
        past: The stored records of the session.
    """
    record_classes = records.NotebookOpened | records.NotebookWritten
    file_records = [record for record in past if isinstance(record, record_classes)]
    opened_files = [record for record in file_records if isinstance(record, records.NotebookOpened)]
    if not opened_files:
        return _ResumedFile(file)

    last_opened = opened_files[-1]
    last_state = file_records[-1]
    is_other_file = str(file.path) != (last_state.file or last_opened.file)
    if is_other_file or file.digest != last_state.digest:
        # Its cells are logged again, after those of the earlier file.
        first_position = last_opened.first + last_opened.cells
        return _ResumedFile(file, first_position, change_count=int(is_other_file))

    # The session's additions are at the file's end, and are written anew.
    own_cells = file.cells[: last_opened.cells]
    loaded = replace(file, content={**file.content, "cells": own_cells})
    later_records = past[past.index(last_state) :]
    change_count = sum(isinstance(record, CONTENT_RECORDS) for record in later_records)
    return _ResumedFile(loaded, last_opened.first, is_logged=True, change_count=change_count)
