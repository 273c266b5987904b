"""What a place holds, as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mahtab_tui.bus.told import told
from mahtab_tui.kernel.base import Variable
from mahtab_tui.kernel.environments import prefix_of
from mahtab_tui.mcp.environments import project_of
from mahtab_tui.mcp.look import short
from mahtab_tui.mcp.place import Inside

MOST = 200
"""Variables that are listed, and modules; of the others it is told how many they are."""


def variables(inside: Inside) -> list[str]:
    """A line for each variable: name, type, and shape, length, or the value of simple things."""
    shown = [variable for variable in _shown(inside) if variable.kind != "module"]
    return _listed([f"{short(row.name)}: {short(row.type)} {short(row.summary)}".rstrip() for row in shown])


def text(inside: Inside, mode: Literal["private", "shared"]) -> str:
    """The answer of ``info``."""
    kernel = inside.kernel
    since = "you joined" if mode == "shared" else "the worker was started"
    modules = _listed([short(variable.name) for variable in _shown(inside) if variable.kind == "module"])
    rows = variables(inside)
    lines = [
        f"Python {kernel.python} · {kernel.executable} · worker {kernel.pid} · {mode}",
        f"environment: {prefix_of(kernel.executable) or 'none of its own'}",
        f"project: {project_of(Path(kernel.cwd)) or 'none'} · working directory: {kernel.cwd}",
        f"{inside.cells} {'cell' if inside.cells == 1 else 'cells'} in {round(inside.busy, 3):g} s · {inside.alive:.1f} s since {since}",
        f"modules: {', '.join(modules) or 'none'}",
        "variables:" if rows else "variables: none",
        *(f"  {row}" for row in rows),
    ]
    if inside.others:
        lines += ["run by others since you last asked:", *(f"  {line}" for line in inside.others)]
    return told("\n".join(lines))


def _shown(inside: Inside) -> list[Variable]:
    return [variable for variable in inside.variables if not variable.private]


def _listed(rows: Sequence[str]) -> list[str]:
    more = len(rows) - MOST
    return [*rows[:MOST], *([f"… and {more:,} more"] if more > 0 else [])]
