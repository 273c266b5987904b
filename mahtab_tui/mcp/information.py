"""Formats what a place contains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mahtab_tui.bus.escaping import escape_for_model
from mahtab_tui.kernel.environments import prefix_of
from mahtab_tui.kernel.values import Variable
from mahtab_tui.mcp.connection import SessionContents
from mahtab_tui.mcp.environments import project_of
from mahtab_tui.mcp.formatting import short

MOST = 200
"""Variables and modules that are listed; of the others only their number is given."""


def variable_lines(contents: SessionContents) -> list[str]:
    """List the variables, a line each: name, type, and shape, length, or a simple value."""
    shown = [variable for variable in _shown(contents) if variable.kind != "module"]
    return _listed(
        [f"{short(row.name)}: {short(row.type)} {short(row.summary)}".rstrip() for row in shown]
    )


def describe_contents(contents: SessionContents, mode: Literal["private", "shared"]) -> str:
    kernel = contents.kernel
    since = "you joined" if mode == "shared" else "your session started"
    modules = _listed(
        [short(variable.name) for variable in _shown(contents) if variable.kind == "module"]
    )
    rows = variable_lines(contents)
    lines = [
        f"Python {kernel.python} · {kernel.executable} · worker {kernel.pid} · {mode}",
        f"environment: {prefix_of(kernel.executable) or 'none of its own'}",
        f"project: {project_of(Path(kernel.cwd)) or 'none'} · working directory: {kernel.cwd}",
        f"{contents.cells} {'cell' if contents.cells == 1 else 'cells'} in {round(contents.busy, 3):g} s · {contents.alive:.1f} s since {since}",
        f"modules: {', '.join(modules) or 'none'}",
        "variables:" if rows else "variables: none",
        *(f"  {row}" for row in rows),
    ]
    if contents.others:
        lines += ["run by others since you last asked:", *(f"  {line}" for line in contents.others)]
    return escape_for_model("\n".join(lines))


def _shown(contents: SessionContents) -> list[Variable]:
    return [variable for variable in contents.variables if not variable.underscored]


def _listed(rows: Sequence[str]) -> list[str]:
    more = len(rows) - MOST
    return [*rows[:MOST], *([f"… and {more:,} more"] if more > 0 else [])]
