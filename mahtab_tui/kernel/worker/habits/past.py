"""The input and output of earlier cells: `In`, `Out`, ``_``, ``__``, ``___``."""

from __future__ import annotations

import builtins
from typing import Any

KEPT = 1_000
"""Values that `Out` keeps."""


class CellHistory:
    """`In` and `Out` of one namespace. They are in builtins, so that they do not clutter the
    namespace, and the user's names hide them."""

    def __init__(self) -> None:
        self.inputs: list[str] = [""]
        self.outputs: dict[int, Any] = {}
        builtins.__dict__.update({"In": self.inputs, "Out": self.outputs})

    def entered(self, cell: int, source: str) -> None:
        """Record the code of a cell in `In[cell]`, even if earlier cells belong to an earlier
        kernel. Cell 0 is the session's own code."""
        if type(self.inputs) is list and cell > 0:
            self.inputs.extend([""] * (cell + 1 - len(self.inputs)))
            self.inputs[cell] = source

    def result(self, cell: int, value: Any) -> None:
        """Record a value that a cell has shown (never None)."""
        names = builtins.__dict__
        names["___"], names["__"], names["_"] = names.get("__"), names.get("_"), value
        if value is self.outputs:
            return
        self.outputs[cell] = value
        while len(self.outputs) > KEPT:
            del self.outputs[next(iter(self.outputs))]
