"""What cells have used: the inputs of each cell, and the cells that have used each variable.

`staleness` keeps both, one by cell and one by variable, to find the cells that a change makes stale.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from mahtab_tui.bus.stale_inputs import StaleInput
from mahtab_tui.bus.variable_makers import VariableState


@dataclass
class CellUse:
    """What a cell has used, and which of that it has changed."""

    code: str
    made_by: Mapping[str, int]
    """The cells that had made the inputs, by name."""
    values: Mapping[str, int]
    """The cells that had first made the values that the inputs had, by name."""
    sources: dict[str, frozenset[str]]
    """The inputs from which the variables that the cell binds or changes are computed, by their
    names."""
    call_targets: Set[str]
    """Names that the cell's calls may have changed, as far as its code shows."""
    mention_sources: Mapping[str, frozenset[str]]
    """The inputs in statements that mention a variable, by its name."""
    reused_names: Set[str]
    """Names that the cell has read after it had bound them, if it may have printed something."""
    changed_inputs: set[str] = field(default_factory=set)
    """Inputs that the cell has changed or deleted itself."""
    stale: dict[str, StaleInput] = field(default_factory=dict)
    """How inputs are different now, by name."""
    last_run: int | None = None
    """The last cell before it with the same code."""
    next_run: int | None = None
    """The next cell with the same code."""

    def sources_of(self, name: str) -> frozenset[str]:
        """Return the inputs from which the cell has computed a variable, as far as its code shows."""
        sources = self.sources.get(name)
        return self.mention_sources.get(name, frozenset()) if sources is None else sources


@dataclass
class VariableUsers:
    """The cells that have used a variable, so that a change need not review all of them."""

    by_value: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """All of them, by the cell that had first made the value that they used."""
    changers: list[int] = field(default_factory=list)
    """The cells that have changed or deleted it themselves, in ascending order."""
    latest_changer: int | None = None
    """The user that has changed it last. The next change shows whether it is stale."""
    stale_by_undo: set[int] = field(default_factory=set)
    """The stale cells since which no cell has changed it, only an undo or a new kernel."""

    def add_changer(self, cell: int) -> None:
        """Note that a user has changed the variable itself."""
        insort(self.changers, cell)

    def remove(self, cell: int, value: int) -> None:
        """Forget a user; `value` is the cell that had first made the value that it used."""
        self.by_value[value].discard(cell)
        self.stale_by_undo.discard(cell)
        if cell in self.changers:
            self.changers.remove(cell)
        if self.latest_changer == cell:
            self.latest_changer = None

    def all_cells(self) -> set[int]:
        """Return all users."""
        return set().union(*self.by_value.values())

    def affected_cells(self, before: VariableState, now: VariableState) -> set[int]:
        """Return the users that a cell's change of the variable may make stale, or no longer stale, or
        stale for another reason."""
        start = bisect_left(self.changers, min(before.first_maker, now.first_maker))
        end = bisect_left(self.changers, max(before.first_maker, now.first_maker))
        cells = self.stale_by_undo.union(self.changers[start:end])
        for value in (before.value, now.value):
            if value is not None:
                cells |= self.by_value.get(value, set())
        if self.latest_changer is not None:
            cells.add(self.latest_changer)
        return cells
