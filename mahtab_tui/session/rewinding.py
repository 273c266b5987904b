"""Rewinds a session: takes conversation, namespace and files back to an earlier point.

The points are questions and cells (`rewind_points`). A preview says what would change, and what cannot
go back; the user sees it before the rewind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from mahtab_tui.bus.hidden_entries import HiddenEntries
from mahtab_tui.bus.values import NotRestored
from mahtab_tui.kernel.base import Kernel, KernelError
from mahtab_tui.kernel.values import Restoration, UndoScope
from mahtab_tui.session.cell_ranges import format_cell_ranges
from mahtab_tui.session.cells import Cells
from mahtab_tui.session.inbox import Inbox
from mahtab_tui.session.rewind_points import RewindPoint, RewindPoints
from mahtab_tui.session.undo_control import BUSY, NOTHING_RESTORED, UndoControl, UndoTarget

_CHANGED = "Something has run since you looked. Look again at what would go back."
_CELL_NUMBER = re.compile(r"(?:in ?)?\[? ?(\d{1,9}) ?\]?")
"""A cell, without its sign: ``12``, ``in 12``, ``in [12]``."""
_INSIDE_ANOTHER = "it ran inside another cell"


class RewindScope(NamedTuple):
    """What a rewind takes back, if it can."""

    conversation: bool = True
    namespace: bool = True
    files: bool = True


WHOLE_REWIND = RewindScope()


@dataclass(frozen=True)
class RewindPreview:
    """What a rewind would do."""

    point: RewindPoint
    """The point to which it goes back."""
    target: UndoTarget
    """What the undo would be asked for."""
    entries: Sequence[str]
    """The names of the entries that would leave the conversation."""
    cells: Sequence[int]
    """The numbers of the cells whose variables would be restored."""
    restoration: Restoration
    """What would change of variables and files."""
    unrestorable: Sequence[NotRestored]
    """What cannot go back, with reasons."""
    last_cell: int
    """The number of the newest cell when the preview was made."""
    last_entry: str
    """The name of the newest entry when the preview was made; empty if there was none."""

    @property
    def does_nothing(self) -> bool:
        """Whether neither an entry nor a variable or file would go back."""
        return not self.entries and self.target.cell is None


class _ReachableCells(NamedTuple):
    """How far the kernel can go back."""

    oldest: int | None
    """The oldest cell that can be undone; None if there is none."""
    unreachable: Sequence[NotRestored]
    """The cells that cannot be undone, with reasons."""


class _CellsPreview(NamedTuple):
    """What a rewind would do to variables and files."""

    target: UndoTarget
    restoration: Restoration
    """What would change."""
    unrestorable: Sequence[NotRestored] = ()
    """What cannot go back, with reasons."""


class Rewinding:
    """Goes back to earlier questions and cells.

    Its methods wait for the kernel, and raise `KernelError`.
    """

    def __init__(
        self,
        kernel: Kernel,
        inbox: Inbox,
        cells: Cells,
        undo: UndoControl,
        points: RewindPoints,
        hidden: HiddenEntries,
    ) -> None:
        """
        Args:
            kernel: The session's kernel.
            inbox: Tells whether something runs or waits; then nothing can go back.
            cells: Knows the newest cell.
            undo: Takes back what cells have done.
            points: The points to which the session can go back.
            hidden: Knows all entries, and which of them have left the conversation.
        """
        self._kernel = kernel
        self._inbox = inbox
        self._cells = cells
        self._undo = undo
        self._points = points
        self._hidden = hidden

    def points(self) -> list[RewindPoint]:
        """Return the points of the conversation, the newest first."""
        points = self._points.all()
        return [point for point in reversed(points) if not self._hidden.is_replaced(point.entry)]

    def find(self, name: str) -> RewindPoint:
        """Return the point with a name.

        Args:
            name: The name of an entry, a cell (``12``, ``In 12`` or ``In[12]``), the cells of a step
                (``In 12 to 14``), or a question.

        Raises:
            KernelError: There is no such point.
        """
        wanted_name = " ".join(name.lower().split())
        if match := _CELL_NUMBER.fullmatch(wanted_name):
            wanted_name = f"cell {match[1]}"
        for point in self.points():
            names = [point.entry, point.name, point.label.lower()]
            if point.mode == "python":
                names += [f"cell {cell}" for cell in point.cells]
            if wanted_name in names:
                return point
        raise KernelError(f"There is no point {name!r} to go back to.")

    def author_of(self, cell: int) -> str:
        """Return who has run a cell; empty if that is unknown."""
        return self._points.author_of(cell)

    def preview(self, point: RewindPoint, scope: RewindScope = WHOLE_REWIND) -> RewindPreview:
        """Return what a rewind to a point would do, without doing it.

        Raises:
            KernelError: Something runs or waits, or the kernel cannot tell.
        """
        self._refuse_while_busy()
        entries: Sequence[str] = ()
        if scope.conversation:
            entries = self._hidden.entries_from(point.entry)
        last_cell = self._cells.last
        last_entry = self._hidden.last_entry
        preview = self._preview_cells(point.first_cell, scope)
        target = preview.target
        cells: Sequence[int] = ()
        if target.cell is not None and target.scope.namespace:
            cells = self._undo.remaining_cells(target.cell)
        if entries:
            target = target._replace(entry=point.entry)
        return RewindPreview(
            point=point,
            target=target,
            entries=entries,
            cells=cells,
            restoration=preview.restoration,
            unrestorable=preview.unrestorable,
            last_cell=last_cell,
            last_entry=last_entry,
        )

    def _preview_cells(self, first_cell: int, scope: RewindScope) -> _CellsPreview:
        """Return what would be taken back of the variables and files that cells have changed.

        Args:
            first_cell: The first of these cells. All later ones are also taken back.
            scope: Whether variables go back, and whether files do.
        """
        no_target = UndoTarget(None)
        if not (scope.namespace or scope.files):
            return _CellsPreview(no_target, NOTHING_RESTORED)
        reachable = self._reachable_cells(first_cell)
        unrestorable = reachable.unreachable
        has_names = scope.namespace and reachable.oldest is not None
        if not (has_names or scope.files):
            return _CellsPreview(no_target, NOTHING_RESTORED, unrestorable)

        undo_scope = UndoScope(has_names, scope.files, first_cell)
        cell = reachable.oldest or first_cell
        try:
            restoration = self._kernel.preview_undo(cell, undo_scope)
        except KernelError as error:
            if has_names:
                raise
            # The kernel cannot undo anything. About the cells, `unrestorable` says that already.
            reason = str(error).rstrip(".")
            restoration = replace(NOTHING_RESTORED, files_unwatched=reason)
            return _CellsPreview(no_target, restoration, unrestorable)

        unrestorable = [*unrestorable, *restoration.not_restored]
        if restoration.files_unwatched:
            undo_scope = undo_scope._replace(files=False)
        if not (has_names or restoration.files):
            return _CellsPreview(no_target, restoration, unrestorable)
        return _CellsPreview(UndoTarget(cell, undo_scope), restoration, unrestorable)

    def rewind(self, preview: RewindPreview) -> Restoration:
        """Do what a preview shows, in one step, which a redo reverses.

        Raises:
            KernelError: The session has gone on since the preview, something runs or waits, or the
                kernel cannot go back.
        """
        self._refuse_while_busy()
        if (preview.last_cell, preview.last_entry) != (self._cells.last, self._hidden.last_entry):
            raise KernelError(_CHANGED)
        return self._undo.take_back(preview.target)

    def _refuse_while_busy(self) -> None:
        """Raise `KernelError` if something runs or waits."""
        if not self._inbox.idle:
            raise KernelError(BUSY)

    def _reachable_cells(self, first_cell: int) -> _ReachableCells:
        """Return how far the kernel can go back towards a cell, and why not further."""
        remaining_cells = self._undo.remaining_cells(first_cell)
        steps: list[int] = []
        # A kernel that has died can undo nothing, and the conversation can go back all the same.
        with suppress(KernelError):
            steps = [step.cell for step in self._kernel.undo_steps()]
        oldest = next((cell for cell in steps if cell >= first_cell), None)

        unreachable: list[NotRestored] = []
        old_cells = [cell for cell in remaining_cells if not steps or cell < steps[0]]
        if old_cells:
            unreachable.append(
                NotRestored(f"In {format_cell_ranges(old_cells)}", self._reason(old_cells[-1]))
            )
        unreachable += [
            NotRestored(f"In {cell}", _INSIDE_ANOTHER)
            for cell in remaining_cells
            if cell not in old_cells and cell not in steps and self._points.has_changes(cell)
        ]
        return _ReachableCells(oldest, unreachable)

    def _reason(self, cell: int) -> str:
        """Return why a cell cannot be undone, in the kernel's words."""
        try:
            self._kernel.preview_undo(cell)
        except KernelError as error:
            return str(error)
        return "it can be undone again"
