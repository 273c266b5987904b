"""Pictures that a cell has made: its value's, and the figures that pyplot holds."""

from __future__ import annotations

import base64
import binascii
import json
import re

from mahtab_tui.kernel.base import CellResult, Kernel, OutputKind, Status
from mahtab_tui.kernel.bounded import BoundedCell

MOST = 8
"""Pictures of one cell that are taken."""

LARGEST = 5_000_000
"""Bytes of one picture."""

SECONDS = 20.0
"""How long drawing may take."""

_DRAWS = re.compile(r"\b(?:plt|pyplot|matplotlib|seaborn|sns|pylab)\b")
_DRAWN = re.compile(r"^\[?<|\b(?:Figure|Axes|Image)\b")

# Runs in the person's namespace and leaves no name there. Only types that define `_repr_png_` themselves are asked for their picture.
_LOOK = f"""\
(lambda sys, builtins, json, io, base64: (lambda found: [
    (lambda value: getattr(type(value), "_repr_png_", None) and found.append(type(value)._repr_png_(value)))(getattr(builtins, "_", None))
    if VALUE else None,
    (lambda plt: plt and [
        (lambda file: (plt.figure(n).savefig(file, format="png", bbox_inches="tight"), found.append(file.getvalue()), plt.close(n)))(io.BytesIO())
        for n in plt.get_fignums()[:{MOST}]
    ])(sys.modules.get("matplotlib.pyplot")),
    builtins.print(json.dumps([base64.b64encode(data).decode() for data in found if data])),
])([]) and None)(*map(__import__, ("sys", "builtins", "json", "io", "base64")))
"""


def pictures(kernel: Kernel, code: str, result: CellResult, *, may_kill: bool) -> list[bytes]:
    """The pictures (PNG) that a cell has just made, at most `MOST` of at most `LARGEST` bytes.

    The kernel is asked only where the code or the value looks like drawing; drawing runs the person's code, so it is interrupted after
    `SECONDS`. may_kill: as of `BoundedCell`. To be called before the next cell runs.
    """
    value = "".join(text for kind, text in pieces(result) if kind == "value")
    by_value = bool(_DRAWN.search(value))
    if result.status is not Status.OK or not (by_value or _DRAWS.search(code)):
        return []

    def ignore(kind: OutputKind, text: str) -> None:
        """It is taken from the result."""

    look = _LOOK.replace("VALUE", str(by_value))
    bounded = BoundedCell(kernel, SECONDS, may_kill=may_kill)
    looked = bounded.run(lambda: kernel.execute(look, cell=0, origin="user", on_output=ignore))
    return _decoded(looked.output) if looked.status is Status.OK else []


def pieces(result: CellResult) -> list[tuple[OutputKind, str]]:
    """A result's output, by kind and in order."""
    found: list[tuple[OutputKind, str]] = []
    start = 0
    for kind, count in result.kinds:
        found.append((kind, result.output[start : start + count]))
        start += count
    return found


def _decoded(output: str) -> list[bytes]:
    try:
        found = [base64.b64decode(data, validate=True) for data in json.loads(output.strip().rpartition("\n")[2])]
    except (ValueError, TypeError, binascii.Error):
        return []
    return [data for data in found if data.startswith(b"\x89PNG") and len(data) <= LARGEST][:MOST]
