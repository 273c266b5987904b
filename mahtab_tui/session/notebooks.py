"""The notebook that a session has opened, and exports of the session."""

from __future__ import annotations

import logging
import os
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mahtab_tui.bus import records
from mahtab_tui.bus.logger import StoreError
from mahtab_tui.bus.masking import MASK, PrivateTexts, Secrets, mask_spans
from mahtab_tui.bus.records import Record, emit, get_record
from mahtab_tui.bus.sanitize import one_line
from mahtab_tui.export import writing
from mahtab_tui.export.entries import (
    LONGEST,
    Cell,
    Conversation,
    Entry,
    NothingToExport,
    Selected,
    select,
)
from mahtab_tui.export.reading import Node, NotebookFile, cell_outputs, cell_source
from mahtab_tui.export.writing import ENDINGS, write
from mahtab_tui.kernel.values import Status
from mahtab_tui.session.cells import YOU, Cells
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.store.resume import database
from mahtab_tui.store.sqlite import ALL, load_records

if TYPE_CHECKING:
    from mahtab_tui.session.session import Session
    from mahtab_tui.store.sqlite import SessionRow


class ExportError(Exception):
    """The argument of ``/export`` cannot be carried out; the message is a sentence."""


class ExportRequest(NamedTuple):
    """Export as the user ordered it: content and file."""

    file: Path
    """As it was typed."""
    folder: Path
    """Folder of the file, unless its path is absolute."""
    shown: bool = False
    """Nothing that is hidden from the model, replaced or undone."""
    whole: bool = False
    """Outputs of any length."""

    @property
    def path(self) -> Path:
        return self.folder / self.file


def parse_export(typed: str, session_name: str, folder: Path) -> ExportRequest:
    """Read ``[FILE] [shown] [whole]``, in any order; a name with spaces is in quotes. Raises
    `BadExport`."""
    files, flags = list[str](), set[str]()
    try:
        words = shlex.split(typed)
    except ValueError:
        raise ExportError('A quotation mark is not closed: /export "my report.html"') from None
    for word in words:
        if word in ("shown", "whole"):
            flags.add(word)
        elif word.lower().endswith(ENDINGS):
            files.append(word)
        else:
            raise ExportError(
                f"The file's extension sets its format: {', '.join(ENDINGS)}. {word} has none of them."
            )
    if len(files) > 1:
        raise ExportError("Name one file, as in /export report.html.")
    own = (
        Path(session_name).name.lstrip("~.") or "session"
    )  # the name may come from a stranger's file: it leads to no other folder
    file = files[0] if files else f"{own}.ipynb"
    return ExportRequest(Path(os.path.expanduser(file)), folder, "shown" in flags, "whole" in flags)


def export(session: Session, order: ExportRequest) -> None:
    """Export on a thread; a notice tells how it went. Replaces the file."""

    def work() -> None:
        try:
            session.notice(_export(session, order))
        except (StoreError, NothingToExport) as error:
            session.notice(str(error), "warning")
        except OSError as error:
            session.notice(f"{order.file} cannot be written: {error.strerror}.", "error")

    threading.Thread(target=work, name="export", daemon=True).start()


def export_session(
    row: SessionRow,
    path: Path,
    mask: Callable[[str], str],
    *,
    shown: bool = False,
    whole: bool = False,
    over: bool = False,
) -> str:
    """Export a saved session, and say so in a sentence. mask: covers what must not be written. The
    others: as in `ExportOrder`.

    Raises `StoreError`, `NothingToExport`, `OSError`; `FileExistsError` if the file is there and
    not `over`.
    """

    if path.suffix.lower() not in ENDINGS:
        raise NothingToExport(f"The file's extension sets its format: {', '.join(ENDINGS)}.")
    page = load_records(database(), row.id, limit=ALL)
    conversation = Conversation((record for _, record in page.records), asides=True)
    private = PrivateTexts()
    private.add(conversation.private_texts())
    conversation.mask_texts(mask)
    conversation.mask_texts(lambda text: mask_spans(text, private.spans(text)))
    chosen = select(conversation, row.id, shown=shown, longest=None if whole else LONGEST)
    write(chosen, path, over=over)
    lost = (
        f" {page.unreadable:,} records cannot be read and are left out." if page.unreadable else ""
    )
    return chosen.sentence(str(path)) + lost


def _export(session: Session, order: ExportRequest) -> str:
    """Write the file, and say so in a sentence."""
    conversation = Conversation(session.all_records(), asides=True)
    conversation.mask_texts(session.secrets.redact_for_model)
    chosen = select(
        conversation, session.saved_id, shown=order.shown, longest=None if order.whole else LONGEST
    )
    write(chosen, order.path, over=True)
    return chosen.sentence(str(order.file))


LONGEST_FILE = 1_000_000
"""Characters of one cell's output that are written."""

PAUSE = 2.0
"""Seconds from a change until a file that is kept up to date is written, and between two
attempts."""

SHARE = 20
"""The pause is at least this many times the duration of the last write: a large file must not keep
the machine busy."""

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
"""Records after which the file is behind."""


class CellNotFound(Exception):
    """The notebook has no such cell of code; the message is a sentence."""


class Notebook(logging.Handler):
    """Follows the session's records, so that it knows what its cells have become. Methods may be
    called from any thread."""

    def __init__(
        self,
        log: logging.Logger,
        inbox: Inbox,
        cells: Cells,
        secrets: Secrets,
        file: NotebookFile,
        past: Sequence[Record] = (),
        everything: Callable[[], Sequence[Record]] = tuple,
        kernel_language: Callable[[], str] = str,
    ) -> None:
        """past: the last records of a resumed session. everything: returns all of them that are
        kept, or raises `StoreError`.

        kernel_language: returns the language that the kernel runs, if it is not Python.
        If the session has opened the file earlier, its cells are not shown again.
        """
        super().__init__()
        if past:
            try:
                past = everything() or past
            except StoreError as error:
                emit(log, records.Notice(str(error), level="warning"))
        self._log = log
        self._inbox = inbox
        self._cells = cells
        self._secrets = secrets
        self._kernel_language = kernel_language
        self._lock = threading.Lock()
        """Held while the file is read or written."""
        self._new_records: deque[Record] = deque(past)
        """Records that are not folded yet."""
        self._conversation = Conversation()
        self._since = 0
        """The entries from here on belong to the file as it was read last."""
        self._changes = self._written_changes = 0
        self._edited: dict[int, str] = {}
        """The sources of cells that were changed, by their places."""
        self._first = 1
        """The place of the file's first cell."""
        self._file = file
        """As it was read, without what this session has added."""
        self._content = file.content
        """Content of the file now."""
        self._digest = file.digest
        self._shown = False
        self._opened = ""
        """The file that the folded records have opened last."""
        self._timer: threading.Timer | None = None
        """Until a file that is kept up to date is written."""
        self._asked = ""
        """The language of which a notice said that the kernel does not run it."""
        self._pause = PAUSE
        self.problem = ""
        """Why a file that is kept up to date could not be written, as a sentence."""
        self._ended = False
        if opened := next(
            (record for record in reversed(past) if isinstance(record, records.NotebookFile)), None
        ):
            self._resume(file, opened, past)

    def _resume(
        self, file: NotebookFile, opened: records.NotebookFile, past: Sequence[Record]
    ) -> None:
        """Go on with a file that this session has opened earlier. If another program has changed it
        since, its cells are shown again."""
        written = next(
            (
                record
                for record in reversed(past)
                if isinstance(record, records.NotebookWritten | records.NotebookFile)
            ),
            opened,
        )
        other = str(file.path) != (written.file or opened.file)
        if other or file.digest != written.digest:
            self._first = opened.first + opened.cells
            self._changes = int(other)
            return
        self._shown = True
        self._first = opened.first
        # What the session has added is at the file's end; it is made anew.
        self._file = replace(file, content={**file.content, "cells": file.cells[: opened.cells]})
        self._changes = sum(isinstance(record, _CHANGES) for record in past[past.index(written) :])

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def label(self) -> str:
        """The file's name, to show."""
        return one_line(self.path.name)

    @property
    def unsaved(self) -> bool:
        """Whether something has happened that is not in the file, and will not be by itself."""
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
        """Show the cells, on a thread."""
        if not self._shown:
            threading.Thread(target=self._show, name="notebook", daemon=True).start()
        if self._changes:
            self._write_soon()

    def _show(self) -> None:
        file, first = self._file, self._first
        count = len(file.cells)
        cells = f"cells {first:,} to {first + count - 1:,}" if count > 1 else f"cell {first:,}"
        text = (
            f"{self.label}: {cells}, as in the file. None of them has run here."
            if count
            else f"{self.label} has no cells yet."
        )
        if file.language:
            text += f" It is for {file.language}, not for Python."
        if file.rewritable:
            text += " The file is kept up to date."
        emit(
            self._log,
            records.NotebookFile(
                text,
                file=str(file.path),
                digest=file.digest,
                first=first,
                cells=count,
                kept=file.rewritable,
            ),
        )
        for number, cell in enumerate(file.cells, first):
            emit(
                self._log,
                records.NotebookCell(cell_source(cell), place=number, kind=cell["cell_type"]),
            )
            for output in cell_outputs(cell):
                emit(
                    self._log,
                    records.NotebookOutput(
                        output.text,
                        place=number,
                        kind=output.kind,
                        mime=output.mime,
                        data=output.data,
                    ),
                )

    def stored_output(self, number: int) -> str | None:
        """Return all output that a cell has in the file as it was read; None if there is no such
        cell any more."""
        try:
            return "".join(output.text for output in cell_outputs(self._cell(number), whole=True))
        except CellNotFound:
            return None

    # Running

    def run(self, number: int, source: str | None = None) -> None:
        """Run a cell. source: what it is now, as the screen shows it; None for what it was last.
        Raises `NoSuchCell`."""
        cell = self._cell(number)
        if cell["cell_type"] != "code":
            raise CellNotFound(f"Notebook cell {number} is not a code cell.")
        if source is not None:
            known = (
                self._source(number),
                cell_source(cell),
            )  # the screen shows them without secrets
            self._edited[number] = next(
                (
                    each
                    for each in known
                    if self._secrets.mask(each).strip("\n") == source.strip("\n")
                ),
                source,
            )
            if MASK in source and self._edited[number] == source:
                raise CellNotFound(
                    "A secret in this cell was masked: bring it into the input (e) and type it again."
                )
        self._run_in_order([number])

    def run_up_to(self, number: int | None = None) -> None:
        """Run all cells of code up to a place, or to the end, until one fails. Raises
        `NoSuchCell`."""
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
        language = self._file.language
        if language not in ("", self._kernel_language(), self._asked):
            self._asked = language
            raise CellNotFound(
                f"{self.label} is for {language}, and this kernel runs Python. Run it again to run its cells as Python anyway."
            )
        waiting: dict[int, int] = {}
        """The inputs that still wait, by their places."""

        def run_one(number: int, source: str) -> None:
            del waiting[number]
            result = self._cells.run(source, origin="user", party=YOU, place=number)
            if result.status is Status.OK:
                return
            cancelled = sum(self._inbox.cancel(item) is not None for item in waiting.values())
            if cancelled:
                how = "failed" if result.status is Status.ERROR else f"was {result.status}"
                count = (
                    f"{cancelled:,} cells after it did"
                    if cancelled > 1
                    else "the cell after it did"
                )
                emit(
                    self._log,
                    records.Notice(
                        f"Notebook cell {number} {how}, so {count} not run.", level="warning"
                    ),
                )

        sources = [(number, self._source(number)) for number in numbers]
        cells = [(source, partial(run_one, number, source)) for number, source in sources]
        self._inbox.put_cells(cells, lambda items: waiting.update(zip(numbers, items, strict=True)))

    # Saving

    def save(self) -> str:
        """Write the file and return a sentence about it; do nothing and return "" if the file has
        all of it.

        If another program has changed the file meanwhile, write a new one beside it, and go on with
        that. Raises `OSError`.
        """
        with self._lock:
            changes = self._changes
            content = self._build_content()
            text = writing.render_text(self._file, content)
            now = writing.file_digest(self.path)
            # A script has no outputs, so it may be the same although cells ran.
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

    # Keeping it up to date

    def _write_soon(self) -> None:
        if self._file.rewritable and self._timer is None and not self._ended:
            self._timer = threading.Timer(self._pause, self._autosave)
            self._timer.daemon = True
            self._timer.start()

    def _autosave(self) -> None:
        self._timer = None
        began = time.monotonic()
        path, problem = self.path, ""
        try:
            saved = self.save()
            if self.path != path:
                emit(self._log, records.Notice(saved, level="warning"))
        except OSError as error:
            problem = f"{self.label} cannot be written: {error.strerror}."
            self._write_soon()
        self._pause = max(PAUSE, SHARE * (time.monotonic() - began))
        if problem and problem != self.problem:
            emit(self._log, records.Notice(problem, level="warning"))
        elif self.problem and not problem:
            emit(self._log, records.Notice(f"Saving {self.label} works again."))
        self.problem = problem

    def flush(self) -> None:
        """Write the file now, if it is kept up to date and something has changed."""
        if self._file.rewritable and self._changes != self._written_changes and not self._ended:
            self._autosave()

    def end(self) -> None:
        """Write the file for the last time, if it is kept up to date."""
        self.flush()
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def save_copy(self, path: Path) -> None:
        """Write the notebook as it is now into another file. Raises `OSError`."""
        with self._lock:
            writing.write_text(
                path,
                writing.render_text(self._file, self._build_content()),
                self._file.style.encoding,
            )

    def _fold(self) -> None:
        while self._new_records:
            record = self._new_records.popleft()
            if isinstance(record, records.NotebookFile):
                if (
                    record.file == self._opened
                ):  # it was read again, with all that this session has added
                    self._since = len(self._conversation.entries)
                self._opened = record.file
            self._conversation.fold(record)

    def _build_content(self) -> Node:
        """Return the notebook as it is now."""
        self._fold()
        conversation = self._conversation
        if self._secrets.may_redact:
            conversation.mask_texts(self._secrets.redact_for_model)
        ran, besides = dict[int, Cell](), list[Entry]()
        numbers = range(self._first, self._first + len(self._file.cells))
        for entry in conversation.entries[self._since :]:
            if not isinstance(entry, Cell) or (entry.status and entry.cell_number not in numbers):
                besides.append(entry)
            elif (
                entry.status and entry.cell_number is not None and not conversation.private(entry)
            ):  # otherwise it runs still, or is not told
                ran[entry.cell_number - self._first] = entry
        selected = Selected(
            besides,
            "",
            "",
            conversation.costs,
            conversation.hidden,
            conversation.private,
            LONGEST_FILE,
        )
        return writing.merge_content(
            self._file, ran, besides, selected, self._secrets.redact_for_model
        )
