"""The notebook opened by a session, and exports of the session."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mahtab_tui.bus import StoreError, records
from mahtab_tui.bus.conversation import Cell, Entry
from mahtab_tui.bus.masking import MASK, PrivateTexts, mask_spans
from mahtab_tui.bus.records import Record, emit, get_record, warn
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.export import writing
from mahtab_tui.export.entries import (
    ANNOTATIONS,
    Conversation,
    NothingToExport,
    Selected,
    has_run,
    select,
)
from mahtab_tui.export.reading import Node, NotebookFile, cell_outputs, cell_source
from mahtab_tui.export.writing import ENDINGS, write
from mahtab_tui.kernel.base import Status
from mahtab_tui.store.resume import database
from mahtab_tui.store.sqlite import ALL, load_records
from mahtab_tui.system import start_thread

if TYPE_CHECKING:
    from mahtab_tui.session.components import Components
    from mahtab_tui.session.session import Session
    from mahtab_tui.store.sqlite import SessionRow


class ExportError(Exception):
    """The message is a sentence."""


_FORMATS = f"The file's extension sets its format: {', '.join(ENDINGS)}."


def parse_export(typed: str, session_name: str) -> Path:
    """Raises `ExportError`."""
    # The name may come from an untrusted file, and must not lead to another folder.
    name = Path(session_name).name.lstrip("~.") or "session"
    file = os.path.expanduser(typed.strip().strip("\"'") or f"{name}.ipynb")
    if not file.lower().endswith(ENDINGS):
        raise ExportError(f"{_FORMATS} {file} has none of them.")
    return Path(file)


def export(session: Session, file: Path, folder: Path) -> None:
    """Export on a thread, replacing the file; a notice reports the outcome. folder: the base of a
    relative path."""

    def work() -> None:
        try:
            conversation = Conversation(session.all_records())
            conversation.mask_texts(session.secrets.redact_for_model)
            chosen = select(conversation)
            write(chosen, folder / file, over=True)
            session.notice(chosen.sentence(str(file)))
        except (StoreError, NothingToExport) as error:
            session.notice(str(error), "warning")
        except OSError as error:
            session.notice(f"{file} cannot be written: {error.strerror}.", "error")

    start_thread("export", work)


def export_session(
    row: SessionRow, path: Path, mask: Callable[[str], str], *, over: bool = False
) -> str:
    """Export a saved session, and return a sentence about it. Raises `StoreError`,
    `NothingToExport`, `OSError`, and `FileExistsError` unless `over`."""
    if path.suffix.lower() not in ENDINGS:
        raise NothingToExport(_FORMATS)
    page = load_records(database(), row.id, limit=ALL)
    conversation = Conversation(record for _, record in page.records)
    private = PrivateTexts()
    private.add(conversation.private_texts())
    conversation.mask_texts(mask)
    conversation.mask_texts(lambda text: mask_spans(text, private.spans(text)))
    chosen = select(conversation)
    write(chosen, path, over=over)
    sentence = chosen.sentence(str(path))
    if page.unreadable:
        sentence += f" {page.unreadable:,} records cannot be read and are left out."
    return sentence


PAUSE = 2.0
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


class CellNotFound(Exception):
    """The message is a sentence."""


class Notebook(logging.Handler):
    """A notebook and the results of its cells, updated from records. Any thread may call it."""

    def __init__(
        self, parts: Components, file: NotebookFile, everything: Callable[[], Sequence[Record]]
    ) -> None:
        """everything: returns all stored records; may raise `StoreError`."""
        super().__init__()
        past = parts.past
        if past:
            try:
                past = everything() or past
            except StoreError as error:
                warn(parts.log, str(error))
        self._log = parts.log
        self._inbox = parts.inbox
        self._cells = parts.cells
        self._secrets = parts.secrets
        self._lock = threading.Lock()
        """Held while the file is read or written."""
        self._new_records: deque[Record] = deque(past)
        """Not yet folded."""
        self._conversation = Conversation()
        self._since = 0
        """The entries from this index on belong to the file as last read."""
        self._changes = self._written_changes = 0
        self._edited: dict[int, str] = {}
        """Edited sources of cells."""
        self._first = 1
        self._file = file
        self._content = file.content
        self._digest = file.digest
        self._shown = False
        self._opened = ""
        """The file last opened by the folded records."""
        self._timer: threading.Timer | None = None
        """Runs until the file is written."""
        self.problem = ""
        """Why the file could not be written, as a sentence."""
        self._ended = False
        self.confirmed = not file.language
        """Whether the user has agreed to run cells of another language."""
        self._resume(file, past)

    def _resume(self, file: NotebookFile, past: Sequence[Record]) -> None:
        """Continue with a file that this session opened earlier, unless another program has changed
        it."""
        kinds = records.NotebookFile | records.NotebookWritten
        marks = [record for record in past if isinstance(record, kinds)]
        files = [mark for mark in marks if isinstance(mark, records.NotebookFile)]
        if not files:
            return
        opened, written = files[-1], marks[-1]
        other = str(file.path) != (written.file or opened.file)
        if other or file.digest != written.digest:
            self._first = opened.first + opened.cells
            self._changes = int(other)
            return
        self._shown = True
        self._first = opened.first
        # The session's additions are at the file's end, and are written anew.
        self._file = replace(file, content={**file.content, "cells": file.cells[: opened.cells]})
        self._changes = sum(isinstance(record, _CHANGES) for record in past[past.index(written) :])

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
        return self._changes != self._written_changes and (
            not self._file.rewritable or bool(self.problem)
        )

    def emit(self, record: logging.LogRecord) -> None:
        value = get_record(record)
        self._new_records.append(value)
        if isinstance(value, _CHANGES):
            self._changes += 1
            self._write_soon()

    def start(self) -> None:
        if not self._shown:
            start_thread("notebook", self._show)
        if self._changes:
            self._write_soon()

    def _show(self) -> None:
        file, first = self._file, self._first
        count = len(file.cells)
        text = f"{self.label} has no cells yet."
        if count:
            last = first + count - 1
            cells = f"cells {first:,} to {last:,}" if count > 1 else f"cell {first:,}"
            text = f"{self.label}: {cells}, as in the file. None of them has run here."
        if file.language:
            text += f" It is for {file.language}, not for Python."
        if file.rewritable:
            text += " The file is kept up to date."
        opened = records.NotebookFile(
            text,
            file=str(file.path),
            digest=file.digest,
            first=first,
            cells=count,
            rewritable=file.rewritable,
        )
        emit(self._log, opened)
        for number, cell in enumerate(file.cells, first):
            kind = cell["cell_type"]
            emit(self._log, records.NotebookCell(cell_source(cell), position=number, kind=kind))
            for output in cell_outputs(cell):
                about = output._asdict()
                emit(self._log, records.NotebookOutput(about.pop("text"), position=number, **about))

    def stored_output(self, number: int) -> str | None:
        """Return the stored output of a cell, if it still exists."""
        try:
            return "".join(output.text for output in cell_outputs(self._cell(number)))
        except CellNotFound:
            return None

    # Running

    def run(self, number: int, source: str | None = None) -> None:
        """source: as shown on the screen; None for the last one. Raises `CellNotFound`."""
        cell = self._cell(number)
        if cell["cell_type"] != "code":
            raise CellNotFound(f"Notebook cell {number} is not a code cell.")
        if source is not None:
            self._edited[number] = self._unmasked(source, self._source(number), cell_source(cell))
        self._run_in_order([number])

    def _unmasked(self, source: str, *known: str) -> str:
        """Return a source as typed: the screen shows sources with masked secrets."""
        for each in known:
            if self._secrets.mask(each).strip("\n") == source.strip("\n"):
                return each
        if MASK in source:
            raise CellNotFound(
                "A secret in this cell was masked: bring it into the input (e) and type it again."
            )
        return source

    def run_up_to(self, number: int | None = None) -> None:
        """Run the code cells up to a position, or to the end, until one fails. Raises
        `CellNotFound`."""
        if number is not None:
            self._cell(number)
        last = self._first + len(self._file.cells) - 1 if number is None else number
        numbers = [
            each
            for each in range(self._first, last + 1)
            if self._cell(each)["cell_type"] == "code" and self._source(each).strip()
        ]
        if not numbers:
            raise CellNotFound("The notebook has no code cell there.")
        self._run_in_order(numbers)

    def _cell(self, number: int) -> Node:
        cells = self._file.cells
        if not self._first <= number < self._first + len(cells):
            raise CellNotFound(
                f"{self.label} has no cell {number}." if cells else f"{self.label} has no cells."
            )
        return cells[number - self._first]

    def _source(self, number: int) -> str:
        return self._edited.get(number) or cell_source(self._cell(number))

    def _run_in_order(self, numbers: Sequence[int]) -> None:
        waiting: dict[int, int] = {}
        """Queued inputs, by position."""

        def run_one(number: int, source: str) -> None:
            del waiting[number]
            result = self._cells.run(source, position=number)
            if result.status is Status.OK:
                return
            if cancelled := sum(self._inbox.cancel(item) is not None for item in waiting.values()):
                how = "failed" if result.status is Status.ERROR else f"was {result.status}"
                count = f"{cancelled:,} cells" if cancelled > 1 else "the cell"
                text = f"Notebook cell {number} {how}, so {count} after it did not run."
                warn(self._log, text)

        sources = [(number, self._source(number)) for number in numbers]
        cells = [(source, partial(run_one, number, source)) for number, source in sources]
        self._inbox.put_cells(cells, lambda items: waiting.update(zip(numbers, items, strict=True)))

    # Saving

    def save(self) -> str:
        """Write the file and return a sentence; "" if it is up to date. If another program has
        changed the file, use a new one next to it from now on. Raises `OSError`."""
        with self._lock:
            changes = self._changes
            content = self._build_content()
            text = writing.render_text(self._file, content)
            now = writing.file_digest(self.path)
            # A script has no outputs, so its content may be unchanged although cells ran.
            same = content == self._content or (
                self._file.form != "ipynb"
                and text == writing.render_text(self._file, self._content)
            )
            sentence = ""
            if now not in (self._digest, ""):
                copy = writing.free_name(self.path)
                self._digest = writing.write_text(copy, text, self._file.style.encoding)
                sentence = f"Another program has changed {self.label}, so this session is now saved in {one_line(copy.name)}."
                self._file = replace(self._file, path=copy)
            elif now != self._digest or not same:
                self._digest = writing.write_text(self.path, text, self._file.style.encoding)
                sentence = f"Saved {self.label}."
            if sentence:
                self._content = content
                emit(self._log, records.NotebookWritten(digest=self._digest, file=str(self.path)))
            self._written_changes = changes
            return sentence

    # Automatic updates

    def _write_soon(self) -> None:
        if self._file.rewritable and self._timer is None and not self._ended:
            self._timer = threading.Timer(PAUSE, self._autosave)
            self._timer.daemon = True
            self._timer.start()

    def _autosave(self) -> None:
        self._timer = None
        path, problem = self.path, ""
        try:
            saved = self.save()
            if self.path != path:
                warn(self._log, saved)
        except OSError as error:
            problem = f"{self.label} cannot be written: {error.strerror}."
            self._write_soon()
        if problem and problem != self.problem:
            warn(self._log, problem)
        self.problem = problem

    def flush(self) -> None:
        if self._file.rewritable and self._changes != self._written_changes and not self._ended:
            self._autosave()

    def end(self) -> None:
        self.flush()
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _fold(self) -> None:
        while self._new_records:
            record = self._new_records.popleft()
            if isinstance(record, records.NotebookFile):
                # It was read again, including this session's additions.
                if record.file == self._opened:
                    self._since = len(self._conversation.entries)
                self._opened = record.file
            self._conversation.fold((record,))

    def _build_content(self) -> Node:
        self._fold()
        conversation = self._conversation
        if self._secrets.may_redact:
            conversation.mask_texts(self._secrets.redact_for_model)
        ran, additions = dict[int, Cell](), list[Entry]()
        numbers = range(self._first, self._first + len(self._file.cells))
        for entry in conversation.entries[self._since :]:
            if isinstance(entry, ANNOTATIONS):
                continue
            if not has_run(entry) or (entry.status and entry.cell_number not in numbers):
                additions.append(entry)
            elif entry.status and entry.cell_number is not None and not conversation.private(entry):
                # Running and private cells are left out.
                ran[entry.cell_number - self._first] = entry
        selected = Selected(additions, "", conversation.private)
        redact = self._secrets.redact_for_model
        return writing.merge_content(self._file, ran, additions, selected, redact)
