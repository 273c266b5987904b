"""Finds tools by words in their names and descriptions."""

from __future__ import annotations

import re
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from mahtab_tui.servers.signatures import ToolSignature

if TYPE_CHECKING:
    from mahtab_tui.knowledge.semantic_index import SemanticIndex
    from mahtab_tui.servers.servers import Servers

_WORD = re.compile(r"[a-z0-9]+")
_MOST = 100
_PATIENCE = 10.0
"""Seconds to wait for servers that start."""


def found(servers: Servers, words: str, most: int, meaning: SemanticIndex | None = None) -> str:
    """Return the tools that fit, the best first, one a line; and a line for each server that cannot
    be started. Starts all servers.

    meaning: None to find them by words alone.
    """
    starting: dict[str, Future[None]] = {name: servers.ready(name) for name in servers.states}
    wait(starting.values(), _PATIENCE)
    failed = []
    for name, future in starting.items():
        if not future.done():
            failed.append(f"The server {name} is still starting; search again for its tools.")
        elif (error := future.exception()) is not None:
            failed.append(str(error))
    wanted = _WORD.findall(words.lower())
    tools = {
        f"{name}.{tool.name}": tool
        for name, state in servers.states.items()
        for tool in state.tools.values()
    }
    scores = {name: _score(wanted, tool) for name, tool in tools.items()}
    fitting = sorted(
        (name for name, score in scores.items() if score or not wanted),
        key=lambda name: -scores[name],
    )
    if meaning is not None and wanted:
        from mahtab_tui.knowledge.semantic_index import joined

        fitting = joined(
            fitting,
            meaning.nearest(
                "tools", words, {name: f"{name}: {tool.doc}" for name, tool in tools.items()}
            ),
        )
    most = max(1, min(most, _MOST))
    lines = [f"{name}{tools[name].written}: {tools[name].summary}" for name in fitting[:most]]
    if len(fitting) > most:
        lines.append(f"… {len(fitting) - most:,} more")
    return "\n".join([*(lines or [f"No tool fits {words!r}."]), *failed])


def _score(wanted: list[str], tool: ToolSignature) -> float:
    name, doc = tool.wire.lower(), tool.doc.lower()
    return sum(3.0 * (word in name) + 1.0 * (word in doc) for word in wanted)
