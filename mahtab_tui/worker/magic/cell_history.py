"""Earlier inputs and values under IPython's names."""

from __future__ import annotations

import builtins
import os
from typing import Any

from ..values.objects import MISSING

MAX_REMEMBERED_VALUES = 1_000
"""Maximum number of cell results kept in `Out`."""


class CellHistory:
    """`In`, `Out` and IPython's other names for earlier inputs and values.

    They are builtins, so that the user's variables can hide them.
    """

    def __init__(self) -> None:
        self.inputs: list[str] = [""]
        self.outputs: dict[int, Any] = {}
        self.latest_cell = 0
        """The number of the cell that ran last; 0 if none has run."""
        self._newest_value: object = MISSING
        """The value that was recorded last; `MISSING` if there is none."""
        builtins.__dict__.update(
            {"In": self.inputs, "Out": self.outputs, "_ih": self.inputs, "_oh": self.outputs}
        )
        builtins.__dict__.setdefault("_dh", [os.getcwd()])

    def add_source(self, cell: int, source: str) -> None:
        """Record the code of a cell.

        Cells that ran in an earlier kernel have no code in `In`. Cell 0 is the program's own, and is
        not recorded.
        """
        if cell <= 0:
            return
        self.latest_cell = cell
        self.inputs.extend([""] * (cell + 1 - len(self.inputs)))
        self.inputs[cell] = source
        earlier = ["", "", *self.inputs[max(0, cell - 3) : cell]]
        builtins.__dict__.update(
            {f"_i{cell}": source, "_i": earlier[-1], "_ii": earlier[-2], "_iii": earlier[-3]}
        )

    def add_result(self, cell: int, value: object) -> None:
        """Record the value of a cell, unless the value is `Out` itself."""
        if value is self.outputs:
            return
        names = builtins.__dict__
        if self._owns_underscore():
            earlier_value = names.get("_", self._newest_value)
            names["___"] = names.get("__")
            names["__"] = None if earlier_value is MISSING else earlier_value
            names["_"] = value
        self._newest_value = value

        self.outputs[cell] = value
        names[f"_{cell}"] = value
        while len(self.outputs) > MAX_REMEMBERED_VALUES:
            oldest = next(iter(self.outputs))
            del self.outputs[oldest]
            names.pop(f"_{oldest}", None)

    def _owns_underscore(self) -> bool:
        """Return whether `_` in builtins is a value of a cell, perhaps an earlier one after an undo.

        `gettext.install` puts a function there, which must stay, as in IPython.
        """
        current_value = builtins.__dict__.get("_", MISSING)
        if current_value is MISSING or current_value is self._newest_value:
            return True
        return any(current_value is value for value in self.outputs.values())
