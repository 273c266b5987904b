"""Answers equal nodes of a search once."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from mahtab_tui.sandbox.searched_text import TextRun
from mahtab_tui.search.nodes import LiveNode, NodeOutcome, NodeSource

_DIGEST_CHUNK_CHARS = 1_000_000
"""Characters that are encoded at a time."""


class _MemoKey(NamedTuple):
    """Equal for nodes that have the same answer. Digests, so that no text is held."""

    model_name: str
    query_digest: bytes
    text_digest: bytes
    exploring_depth: int | None
    """None for a plain call. An exploring node waits only for nodes of its own depth, and plain
    calls for nobody, so that no two wait for each other."""

    @classmethod
    def of(cls, node: LiveNode) -> _MemoKey:
        """Return the key of a node."""
        return cls(
            model_name=node.model.name,
            query_digest=hashlib.blake2b(node.query.encode("utf-8", "surrogatepass")).digest(),
            text_digest=_digest(node.source),
            exploring_depth=None if node.is_plain else node.depth,
        )


class _MemoEntry(NamedTuple):
    """The outcome of a node, which may still be running."""

    outcome: asyncio.Future[NodeOutcome]
    runs: list[TextRun]
    """Where the node's text stands in the root's text."""


class Memo:
    """Answers equal nodes of a tree once."""

    def __init__(self) -> None:
        self._entries: dict[_MemoKey, _MemoEntry] = {}

    async def answer(
        self, node: LiveNode, work: Callable[[LiveNode], Awaitable[NodeOutcome]]
    ) -> NodeOutcome:
        """Return the answer of an equal node, even of a running one, or do the work."""
        if node.parent is None:
            return await work(node)

        key = _MemoKey.of(node)
        while key in self._entries:
            entry = self._entries[key]
            outcome = await asyncio.shield(entry.outcome)
            # Only the other node was stopped, so this one goes on.
            if outcome.state == "stopped":
                continue
            # In an equal text from elsewhere, the answer rests on other places.
            if entry.runs != node.source.runs:
                return outcome._replace(evidence=())
            return outcome

        future: asyncio.Future[NodeOutcome] = asyncio.get_running_loop().create_future()
        self._entries[key] = _MemoEntry(future, node.source.runs)
        outcome = NodeOutcome("", "stopped")
        try:
            outcome = await work(node)
        except Exception as error:
            outcome = NodeOutcome(str(error), "error")
            raise
        finally:
            # Those that wait get any outcome; later nodes only a complete answer.
            if outcome.state != "done":
                del self._entries[key]
            future.set_result(outcome)
        return outcome


def _digest(source: NodeSource) -> bytes:
    """Hash a text chunk by chunk: copies of all parts of a fan-out might be too much."""
    digest = hashlib.blake2b(digest_size=16)
    text = source.container.text
    for index, (start, end) in enumerate(source.part_spans):
        if index > 0:
            digest.update(b"\n")
        for chunk_start in range(start, end, _DIGEST_CHUNK_CHARS):
            chunk = text[chunk_start : min(end, chunk_start + _DIGEST_CHUNK_CHARS)]
            digest.update(chunk.encode("utf-8", "surrogatepass"))
    return digest.digest()
