"""Folds the records of a session into the entries of an export."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeGuard

from mahtab_tui.bus import records
from mahtab_tui.bus.answer_pieces import AnswerPieces, Piece
from mahtab_tui.bus.answers import AnswerPart
from mahtab_tui.bus.conversation import Conversation
from mahtab_tui.bus.entries import NOT_RUN, Cell, Entry, Note, Question, ToolUse
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.output import DisplayedValue, OutputBuffer
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.worker.magic.notes import remove_notes
from mahtab_tui.worker.magic.syntax import parse_python

MAX_OUTPUT_CHARS = 1_000_000
"""Maximum characters of one output."""
MAX_TITLE_CHARS = 300

ANNOTATIONS = ToolUse | Note
"""Entries that are exported only beside others."""
RICH_TEXT_MIMES = ("text/markdown", "text/html")
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*+")


def to_title(text: str) -> str:
    """Return a text on one line, cut if it is long."""
    line = one_line(text).strip()
    if len(line) <= MAX_TITLE_CHARS:
        return line
    return f"{line[:MAX_TITLE_CHARS]}…"


class OutputPart(NamedTuple):
    """A part of a cell's output."""

    kind: str
    """See `records.ReplOutStream`."""
    text: str
    mime: str = ""
    """Empty if it is only text."""
    data: str = ""

    def with_mask(self, mask: Callable[[str], str]) -> OutputPart:
        data = self.data if self.mime.startswith("image/") else mask(self.data)
        return self._replace(text=mask(self.text), data=data)


class WholeOutput(OutputBuffer):
    """All output of a cell; the screen's buffer keeps only its start and end."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[OutputPart] = []

    def clear(self) -> None:
        self.received = 0
        self.parts.clear()

    def feed(self, kind: str, text: str) -> None:
        if text:
            self.received += len(text)
            self.parts.append(OutputPart(kind, text))

    def show(self, text: str, mime: str, data: str, value: str = "") -> None:
        self.received += len(text)
        is_rich_text = mime in RICH_TEXT_MIMES
        is_picture = mime in records.PICTURES and BASE64.fullmatch(data)
        if is_rich_text or is_picture:
            self.parts.append(OutputPart("display", text, mime, data))
        else:
            self.parts.append(OutputPart("display", text))

    def replace_display(self, old: DisplayedValue, new: DisplayedValue) -> None:
        """Do nothing: only cells that have ended are exported."""


def outputs(cell: Cell) -> list[OutputPart]:
    """Return the outputs of a cell, without the middle of long ones and notes of this program."""
    parts: list[OutputPart] = []
    for buffer in (cell.output, cell.late_output):
        if isinstance(buffer, WholeOutput):
            parts += buffer.parts
    exported_parts: list[OutputPart] = []
    for part in parts:
        text = part.text
        if part.kind == "stdout":
            text = remove_notes(text)
        if text:
            exported_parts.append(part._replace(text=shorten(text)))
    return exported_parts


def has_run(entry: Entry) -> TypeGuard[Cell]:
    """Whether an entry is a cell that was run."""
    return isinstance(entry, Cell) and entry.number is not None


class ExportedConversation(Conversation):
    """The entries of a session with all their output, without what only the screen shows."""

    def __init__(self, past: Iterable[Record] = ()) -> None:
        super().__init__()
        self.hidden_entries = HiddenEntries()
        self._folds[records.Approval] = self._fold_approval
        self.fold(past)

    def fold(self, new_records: Iterable[Record]) -> None:
        for record in new_records:
            self.hidden_entries.fold(record)
            # Only cells that have a number are exported as code.
            is_unnumbered_input = isinstance(record, records.ReplIn) and record.cell is None
            if not is_unnumbered_input:
                super().fold((record,))

    def append(self, entry: Entry) -> None:
        if isinstance(entry, Cell):
            entry.output = WholeOutput()
        # Other notes are about the screen, or markers.
        is_minor_note = isinstance(entry, Note) and entry.level not in ("warning", "error")
        if not is_minor_note:
            super().append(entry)

    def _fold_approval(self, record: records.Approval) -> None:
        """Note which code was not run, for the steps of a plan."""
        cell = self._block(record) if record.guest is None else None
        if cell is not None and record.state in NOT_RUN:
            cell.approval = record.state

    def _drop(self, piece: Piece) -> None:
        self.entries.remove(piece)
        super()._drop(piece)

    def _mark_end(self, pieces: AnswerPieces, record: records.AssistantChat) -> None:
        """Do nothing, because only the screen shows which answers were stopped."""

    def _answer_parts(self, text: str) -> Sequence[AnswerPart]:
        return [part for part in super()._answer_parts(text) if part.kind != "thought"]

    def private(self, entry: Entry) -> bool:
        """Return whether a cell uses a private variable."""
        return self.hidden_entries.is_private(entry.key)

    def private_texts(self) -> Iterator[str]:
        """Yield the texts of private variables that are known without the kernel."""
        for cell in self.entries:
            if not isinstance(cell, Cell) or not self.private(cell):
                continue
            tree = parse_python(cell.code)
            if tree is not None:
                for node in ast.walk(tree):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield node.value
            # A text is displayed in quotes, and printed without them.
            for output in outputs(cell):
                if output.kind != "traceback":
                    yield output.text
                    yield output.text.strip().strip("'\"")

    def mask_texts(self, mask: Callable[[str], str]) -> None:
        """Mask the texts of all entries and outputs."""
        for entry in self.entries:
            for name in entry.texts:
                setattr(entry, name, mask(getattr(entry, name)))
            if isinstance(entry, Cell):
                for output in (entry.output, entry.late_output):
                    if isinstance(output, WholeOutput):
                        output.parts = [part.with_mask(mask) for part in output.parts]
            elif isinstance(entry, Question):
                entry.attachments = [
                    chip._replace(label=mask(chip.label)) for chip in entry.attachments
                ]
                for step in entry.plan:
                    step.text = mask(step.text)


def find_title(entries: Sequence[Entry]) -> str:
    """Return the first line of the first question, or else of the first cell that was run."""
    questions = (entry.text for entry in entries if isinstance(entry, Question))
    codes = (entry.code for entry in entries if has_run(entry))
    first_text = next(questions, None) or next(codes, "")
    for line in first_text.splitlines():
        if line.strip():
            return line.strip()[:100]
    return ""


class NothingToExport(Exception):
    """There is nothing to export; the message is a sentence."""


class ExportedEntries(NamedTuple):
    """What is exported of a session."""

    entries: Sequence[Entry]
    title: str
    is_private: Callable[[Entry], bool]

    def sentence(self, file: str) -> str:
        """Return what was exported to a file, as a sentence."""
        cell_count = sum(has_run(entry) and not self.is_private(entry) for entry in self.entries)
        private_count = sum(map(self.is_private, self.entries))
        cells = "cell" if cell_count == 1 else "cells"
        text = f"Exported {cell_count:,} {cells} to {one_line(file)}."
        if private_count:
            use = "uses" if private_count == 1 else "use"
            text += f" Left out: {private_count:,} that {use} a private variable."
        return text


def shorten(text: str) -> str:
    """Return an output without its middle if it is too long."""
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    half = MAX_OUTPUT_CHARS // 2
    note = f"… {len(text) - MAX_OUTPUT_CHARS:,} characters are left out here …"
    return f"{text[:half]}\n{note}\n{text[-half:]}"


def select(conversation: ExportedConversation) -> ExportedEntries:
    """Choose what to export: all but hidden, replaced and undone entries. Raises
    `NothingToExport`."""
    entries: list[Entry] = []
    for entry in conversation.entries:
        is_undone = isinstance(entry, Cell) and entry.undone
        if not entry.removed and not is_undone:
            entries.append(entry)
    if all(isinstance(entry, ANNOTATIONS) for entry in entries):
        raise NothingToExport("Nothing has been said or run yet.")
    title = find_title([entry for entry in entries if not conversation.private(entry)])
    return ExportedEntries(entries, plain(title), conversation.private)
