"""Answers equal nodes of a search only once: nodes that ask the same of the same text."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from mahtab_tui.sandbox.searched_text import TextRun
from mahtab_tui.search.nodes import LiveNode, NodeOutcome, NodeSource

_DIGEST_CHUNK_CHARS = 1_000_000
"""A text is hashed in chunks of this many characters."""


class _MemoKey(NamedTuple):
    """A key that is equal for nodes with the same answer. It has digests, so that it holds no text."""

    model_name: str
    query_digest: bytes
    text_digest: bytes
    exploring_depth: int | None
    """The depth of a node that explores its text; None for a plain call. An exploring
    node waits only for exploring nodes of its own depth, and a plain call only for a plain call, so
    that no two wait for each other."""

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
    """A node that is answered, or is being answered."""

    outcome: asyncio.Future[NodeOutcome]
    runs: list[TextRun]
    """Where the node's text stands in the root's text."""


class Memo:
    """Answers equal nodes of a tree only once."""

    def __init__(self) -> None:
        self._entries: dict[_MemoKey, _MemoEntry] = {}

    async def answer(
        self, node: LiveNode, work: Callable[[LiveNode], Awaitable[NodeOutcome]]
    ) -> NodeOutcome:
        """Return the answer of a node: that of an equal node, or what its own work returns.

        Args:
            node: The node. If an equal node is running, this waits for it.
            work: Answers the node.
        """
        if node.parent is None:
            return await work(node)

        key = _MemoKey.of(node)
        while key in self._entries:
            entry = self._entries[key]
            outcome = await asyncio.shield(entry.outcome)
            # The other node was stopped, and this one was not.
            if outcome.state == "stopped":
                continue
            # If its text stands elsewhere in the root's text, so does the evidence.
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
            # Nodes that wait get any outcome. Later nodes only get a complete answer.
            if outcome.state != "done":
                del self._entries[key]
            future.set_result(outcome)
        return outcome


def _digest(source: NodeSource) -> bytes:
    """Return the digest of a node's text.

    The text is hashed in chunks, because copies of the texts of a whole fan-out might be too large.
    """
    digest = hashlib.blake2b(digest_size=16)
    text = source.container.text
    for index, (start, end) in enumerate(source.part_spans):
        if index > 0:
            digest.update(b"\n")
        for chunk_start in range(start, end, _DIGEST_CHUNK_CHARS):
            chunk = text[chunk_start : min(end, chunk_start + _DIGEST_CHUNK_CHARS)]
            digest.update(chunk.encode("utf-8", "surrogatepass"))
    return digest.digest()
