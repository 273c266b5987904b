"""What was entered and what came of it: `In`, `Out`, ``_``, ``__``, ``___``."""

from __future__ import annotations

import builtins
from typing import Any

KEPT = 1_000
"""Values that `Out` keeps."""


class CellHistory:
    """`In` and `Out` of one namespace, in builtins: they never clutter the namespace, and a name of the person's hides them."""

    def __init__(self) -> None:
        self.inputs: list[str] = [""]
        self.outputs: dict[int, Any] = {}

    def install(self) -> None:
        """Put the names into builtins."""
        builtins.__dict__.update({"In": self.inputs, "Out": self.outputs})

    def entered(self, cell: int, source: str) -> None:
        """A cell begins; `In[cell]` is its code, also where cells before it belong to an earlier kernel. Cell 0 is the session's own code."""
        if type(self.inputs) is list and cell > 0:
            self.inputs.extend([""] * (cell + 1 - len(self.inputs)))
            self.inputs[cell] = source

    def result(self, cell: int, value: Any) -> None:
        """A cell has shown a value (never None)."""
        names = builtins.__dict__
        names["___"], names["__"], names["_"] = names.get("__"), names.get("_"), value
        if value is self.outputs:
            return
        self.outputs[cell] = value
        while len(self.outputs) > KEPT:
            del self.outputs[next(iter(self.outputs))]
