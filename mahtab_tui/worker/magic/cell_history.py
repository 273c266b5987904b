"""Earlier inputs and values under IPython's names."""

from __future__ import annotations

import builtins
import os
from typing import Any

MAX_REMEMBERED_VALUES = 1_000
"""Values of cells that are remembered."""


class CellHistory:
    """`In`, `Out`, and IPython's other names for earlier inputs and values, in builtins, so that
    the user's names can hide them."""

    def __init__(self) -> None:
        self.inputs: list[str] = [""]
        self.outputs: dict[int, Any] = {}
        builtins.__dict__.update(
            {"In": self.inputs, "Out": self.outputs, "_ih": self.inputs, "_oh": self.outputs}
        )
        builtins.__dict__.setdefault("_dh", [os.getcwd()])

    def add_source(self, cell: int, source: str) -> None:
        """Record a cell's code. Earlier cells may belong to an earlier kernel; cell 0 is ours."""
        if type(self.inputs) is list and cell > 0:
            self.inputs.extend([""] * (cell + 1 - len(self.inputs)))
            self.inputs[cell] = source
            self._name_inputs(cell, source)

    def _name_inputs(self, cell: int, source: str) -> None:
        earlier = ["", "", *self.inputs[max(0, cell - 3) : cell]]
        builtins.__dict__.update(
            {f"_i{cell}": source, "_i": earlier[-1], "_ii": earlier[-2], "_iii": earlier[-3]}
        )

    def add_result(self, cell: int, value: object) -> None:
        names = builtins.__dict__
        names["___"] = names.get("__")
        names["__"] = names.get("_")
        names["_"] = value
        if value is self.outputs:
            return
        self.outputs[cell] = value
        names[f"_{cell}"] = value
        while len(self.outputs) > MAX_REMEMBERED_VALUES:
            oldest = next(iter(self.outputs))
            del self.outputs[oldest]
            names.pop(f"_{oldest}", None)
