"""Finds tools of all servers by words and by meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import wait
from typing import TYPE_CHECKING

from mahtab_tui.servers.tool_signature import ToolSignature

if TYPE_CHECKING:
    from mahtab_tui.knowledge.semantic_index import SemanticIndex
    from mahtab_tui.servers.servers import Servers

_WORD = re.compile(r"[a-z0-9]+")
_MAX_MATCHES = 100
_SEARCH_TIMEOUT_S = 10.0
"""Seconds that a search for tools waits for servers that start."""


def format_matches(
    servers: Servers, words: str, max_matches: int, meaning: SemanticIndex | None = None
) -> str:
    """Start all servers, and find their tools.

    Args:
        servers: The servers of the session.
        words: What to look for; empty for all tools.
        max_matches: How many tools to list, from 1 to 100.
        meaning: Finds tools by meaning; None to find them by words alone.

    Returns:
        The tools that fit, the best first, and the servers that fail, one a line.
    """
    starting = {name: servers.ready(name) for name in servers.states}
    wait(starting.values(), _SEARCH_TIMEOUT_S)
    failures: list[str] = []
    for name, future in starting.items():
        if not future.done():
            failures.append(f"The server {name} is still starting; search again for its tools.")
        elif (error := future.exception()) is not None:
            failures.append(str(error))

    tools = {
        f"{name}.{tool.name}": tool
        for name, state in servers.states.items()
        for tool in state.tools.values()
    }
    names = _rank_tools(tools, words, meaning)
    max_matches = max(1, min(max_matches, _MAX_MATCHES))
    lines = [f"{name}{tools[name].written}: {tools[name].summary}" for name in names[:max_matches]]
    if len(names) > max_matches:
        lines.append(f"… {len(names) - max_matches:,} more")
    if not lines:
        lines.append(f"No tool fits {words!r}.")
    return "\n".join([*lines, *failures])


def _rank_tools(
    tools: Mapping[str, ToolSignature], words: str, meaning: SemanticIndex | None
) -> list[str]:
    """Return the names of the tools that fit, the best first."""
    query_words = _WORD.findall(words.lower())
    if not query_words:
        return list(tools)

    scores: dict[str, int] = {}
    for name, tool in tools.items():
        wire_name = tool.wire.lower()
        doc = tool.doc.lower()
        # A word in the tool's name counts as much as three in its description.
        scores[name] = sum(3 * (word in wire_name) + (word in doc) for word in query_words)

    names = [name for name, score in scores.items() if score]
    names.sort(key=lambda name: -scores[name])
    if meaning is not None:
        from mahtab_tui.knowledge.semantic_index import merge_rankings

        texts = {name: f"{name}: {tool.doc}" for name, tool in tools.items()}
        names = merge_rankings(names, meaning.nearest("tools", words, texts))
    return names
