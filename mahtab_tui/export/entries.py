"""Folds the records of a session into the entries of an export."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeGuard

from mahtab_tui.bus import records
from mahtab_tui.bus.answer_pieces import AnswerPieces, Piece
from mahtab_tui.bus.answers import AnswerPart
from mahtab_tui.bus.conversation import Conversation
from mahtab_tui.bus.entries import NOT_RUN, Cell, Entry, Note, Question, ToolUse
from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.magic_code import read_code
from mahtab_tui.bus.records import Record
from mahtab_tui.export.outputs import WholeOutput, outputs

ANNOTATIONS = ToolUse | Note
"""Entries that are exported only beside others."""


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

    def _answer_parts(self, record: records.AssistantChat) -> Sequence[AnswerPart]:
        return [part for part in super()._answer_parts(record) if part.kind != "thought"]

    def private(self, entry: Entry) -> bool:
        """Return whether a cell uses a private variable."""
        return self.hidden_entries.is_private(entry.key)

    def private_texts(self) -> Iterator[str]:
        """Yield the texts of private variables that are known without the kernel."""
        for cell in self.entries:
            if not isinstance(cell, Cell) or not self.private(cell):
                continue
            for part in read_code(cell.code):
                if part.tree is not None:
                    yield from _string_constants(part.tree)
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


def _string_constants(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
