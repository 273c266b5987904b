"""What a place holds, as an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mahtab_tui.kernel.base import Variable
from mahtab_tui.mcp.environments import prefix_of, project_of
from mahtab_tui.mcp.place import Inside
from mahtab_tui.mcp.results import Information, Name
from mahtab_tui.mcp.tools import Answer

MOST = 500
"""Variables that are listed, and modules."""


def named(variable: Variable) -> Name:
    return Name(name=variable.name, type=variable.type, summary=variable.summary)


def information(inside: Inside, mode: Literal["private", "shared"]) -> Information:
    """The structured answer of ``info``."""
    kernel = inside.kernel
    shown = [variable for variable in inside.variables if not variable.private]
    return Information(
        mode=mode,
        python=kernel.python,
        executable=kernel.executable,
        environment=str(prefix_of(kernel.executable) or ""),
        project=str(project_of(Path(kernel.cwd)) or ""),
        cwd=kernel.cwd,
        worker=kernel.pid,
        variables=[named(variable) for variable in shown if variable.kind != "module"][:MOST],
        modules=[variable.name for variable in shown if variable.kind == "module"][:MOST],
        cells=inside.cells,
        busy_seconds=round(inside.busy, 3),
        worker_seconds=round(inside.alive, 1),
        others=inside.others,
    )


def answer(inside: Inside, mode: Literal["private", "shared"]) -> Answer:
    """The answer of ``info``."""
    told = information(inside, mode)
    since = "you joined" if mode == "shared" else "the worker was started"
    lines = [
        f"Python {told.python} · {told.executable} · worker {told.worker} · {told.mode}",
        f"environment: {told.environment or 'none of its own'}",
        f"project: {told.project or 'none'} · working directory: {told.cwd}",
        f"{told.cells} {'cell' if told.cells == 1 else 'cells'} in {told.busy_seconds:g} s · {told.worker_seconds:g} s since {since}",
        f"modules: {', '.join(told.modules) or 'none'}",
        "variables:" if told.variables else "variables: none",
        *(f"  {row.name}: {row.type} {row.summary}".rstrip() for row in told.variables),
    ]
    if told.others:
        lines += ["run by others since you last asked:", *(f"  {line}" for line in told.others)]
    return Answer("\n".join(lines), told)
