"""Follows which cell each variable of a session is from, through changes, undo and new kernels."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from mahtab_tui.bus.values import Change

NO_CELL = sys.maxsize
"""A number after those of all cells."""
GONE = ("deleted", "absent")
"""Kinds of changes after which a variable does not exist."""


class VariableState(NamedTuple):
    """A variable as it is at one time."""

    value: int | None
    """The cell that has first made a value that is equal to its value, 0 if none has; None if it
    does not exist."""
    first_maker: int
    """The cell that had made it anew, from which that value and all changes since have come;
    `NO_CELL` if it does not exist."""


class VariableMakers:
    """The cells that have made the variables of a session, as they are now and as they were.

    A value is known by the first cell that has made it: to make it again, as far as the kernel can
    compare values, changes nothing. In all fields, a variable is its name, and a cell its number.
    """

    def __init__(self) -> None:
        self._makers: dict[str, int] = {}
        """The cell that has changed each variable last; 0 if none has."""
        self._last_makers: dict[str, int] = {}
        """The cell that has changed each variable last, also of earlier kernels."""
        self._deleters: dict[str, int] = {}
        """The cell that has deleted each variable last, in this kernel."""
        self._first_makers: dict[tuple[str, int], int] = {}
        """The cell that had made a variable anew before another cell changed it, by the variable
        and the cell that changed it. Left out if both are the same cell."""
        self._equal_before: dict[tuple[str, int], int] = {}
        """The cell that had made a variable before another cell made it again with an equal value, by
        the variable and that cell."""
        self._names_made_equal: defaultdict[int, list[str]] = defaultdict(list)
        """The variables that a cell has made again with an equal value."""
        self._first_equal: dict[tuple[str, int], int] = {}
        """The cell that had first made a value, by the variable and a later cell that made an equal
        one."""
        self._numbered_values: dict[tuple[str, int], int] = {}
        """The cells that have first made values, by the variable and the value's number."""

    @property
    def current(self) -> Mapping[str, int]:
        """The cell that has changed each variable last; 0 if none has. Those that do not exist are
        left out."""
        return self._makers

    def state_of(self, name: str) -> VariableState:
        """Return a variable as it is now."""
        maker = self._makers.get(name)
        if maker is None:
            return VariableState(None, NO_CELL)
        value = self.value_of(name, maker)
        return VariableState(value, self._first_makers.get((name, maker), maker))

    def value_of(self, name: str, maker: int) -> int:
        """Return the cell that has first made the value that a cell gave a variable."""
        return self._first_equal.get((name, maker), maker)

    def deleter_since(self, name: str, cell: int, undone_cells: Container[int]) -> int | None:
        """Return the cell because of which a variable does not exist, after an undo or a redo.

        Args:
            name: The variable.
            cell: The cell that has used it.
            undone_cells: The cells that are undone.

        Returns:
            The last cell that has deleted the variable, if that was after `cell` and it was not made
            since; otherwise None.
        """
        deleter = self._deleters.get(name, 0)
        if deleter <= cell or deleter in undone_cells:
            return None
        last_maker = self._last_makers.get(name, 0)
        was_made_since = last_maker > deleter and last_maker not in undone_cells
        return None if was_made_since else deleter

    def note_made(self, change: Change, cell: int) -> None:
        """Note that a cell has made or changed a variable."""
        name = change.name
        maker_before = self._makers.get(name, cell)
        self._set_maker(name, cell)
        self._note_value(change, cell)
        is_equal = self.value_of(name, maker_before) == self.value_of(name, cell)
        if is_equal and maker_before != cell:
            self._equal_before[name, cell] = maker_before
            self._names_made_equal[cell].append(name)

    def note_gone(self, name: str, cell: int) -> None:
        """Note that a cell has deleted a variable."""
        self._makers.pop(name, None)
        self._deleters[name] = cell

    def note_first_maker(self, name: str, cell: int, first_maker: int) -> None:
        """Note that what a cell has made of a variable still comes from the cell that had made it
        anew."""
        self._first_makers[name, cell] = first_maker

    def _note_value(self, change: Change, cell: int) -> None:
        """Note which cell has first made the value that a variable has after its change."""
        self._first_equal.pop((change.name, cell), None)
        if change.value_number is None:
            return
        key = (change.name, change.value_number)
        first_maker = self._numbered_values.setdefault(key, cell)
        if first_maker != cell:
            self._first_equal[change.name, cell] = first_maker

    def replace(self, name: str, maker: int | None) -> None:
        """Note that a variable is as a cell had made it, for an undo or in a new kernel.

        Args:
            name: The variable.
            maker: The cell; 0 if none had made it, None if the variable is gone.
        """
        if maker is None:
            self._makers.pop(name, None)
        else:
            self._set_maker(name, maker)

    def _set_maker(self, name: str, maker: int) -> None:
        self._makers[name] = maker
        if maker:
            self._last_makers[name] = maker

    def makers_after_undo(self, cells: Sequence[int], *, undone: bool) -> dict[str, int | None]:
        """Return which cells variables are from after an undo or a redo that has not changed them,
        because the cells had made them again with equal values.

        Args:
            cells: The cells in order.
            undone: Whether they were undone, rather than redone.
        """
        makers: dict[str, int | None] = {}
        for cell in reversed(cells) if undone else cells:
            for name in self._names_made_equal.get(cell, ()):
                maker_before = self._equal_before[name, cell]
                if undone:
                    old_maker = cell
                    new_maker = maker_before
                else:
                    old_maker = maker_before
                    new_maker = cell
                if makers.get(name, self._makers.get(name)) == old_maker:
                    makers[name] = new_maker
        return makers

    def makers_restored(self, cell: int, changes: Iterable[Change]) -> dict[str, int | None]:
        """Return which cells variables are from that were restored, or are to be so soon.

        Args:
            cell: The cell as whose result they are restored; 0 if none had made them.
            changes: The variables.

        Returns:
            The cell of each variable; None if it is gone.
        """
        makers: dict[str, int | None] = {}
        for change in changes:
            name = change.name
            if change.change in GONE:
                makers[name] = None
            elif change.change == "restoring":
                makers[name] = self._last_makers.get(name, cell)
            else:
                makers[name] = cell
                if change.value_number is not None:
                    key = (name, change.value_number)
                    self._numbered_values.setdefault(key, self.value_of(name, cell))
        return makers

    def makers_in_new_kernel(self, changes: Iterable[Change]) -> dict[str, int | None]:
        """Return the cells of variables in a new kernel, which has only these: none has made them.
        Forget which cells have deleted variables."""
        self._deleters.clear()
        makers: dict[str, int | None] = dict.fromkeys(self._makers)
        makers |= {change.name: 0 for change in changes}
        return makers

    def forget(self, cell: int) -> None:
        """Forget an earlier cell of a number that is given again."""
        self._names_made_equal.pop(cell, None)
