"""One call in a tree, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.recursion.models import Model
from mahtab_tui.recursion.text import Span, Text

State = Literal["done", "partial", "error", "stopped"]
Kind = Literal["rlm", "llm"]


class Outcome(NamedTuple):
    """How a node ended."""

    text: str
    """The answer, or a sentence that says why there is none."""
    state: State
    spans: Sequence[Span] = ()
    """Of the root's text, that the answer rests on."""

    @property
    def failed(self) -> bool:
        """Whether there is no answer."""
        return self.state in ("error", "stopped")


class Source(NamedTuple):
    """Where a node's text is, so that it need not be held before and after it is read."""

    text: Text
    span: Span | None = None
    """A part of it; None: all."""

    def take(self) -> Text:
        return self.text if self.span is None else self.text.slice(*self.span)

    @property
    def chars(self) -> int:
        return len(self.text.text) if self.span is None else self.span[1] - self.span[0]

    @property
    def spans(self) -> list[Span]:
        """Of the root's text."""
        return self.text.to_root([self.span or (0, len(self.text.text))])


class Batch:
    """Nodes that were called for at once, and whoever waits for them."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.nodes: list[Node | None] = [None] * size
        """By index; the latest where one was run again."""
        self.waiting = True
        """Whether somebody still wants the answers."""
        self._changed = asyncio.Event()

    def ended(self) -> None:
        """One of the nodes has ended."""
        self._changed.set()

    async def outcomes(self) -> list[Outcome]:
        """What came of all, in order, once none runs."""
        try:
            while True:
                found = [node.outcome for node in self.nodes if node is not None and node.outcome is not None]
                if len(found) == len(self.nodes):
                    return found
                self._changed.clear()
                await self._changed.wait()
        finally:
            self.waiting = False


@dataclass(eq=False)
class Node:
    """A node, from its call to its end and after it."""

    id: str
    parent: Node | None
    depth: int
    kind: Kind
    query: str
    source: Source
    model: Model
    batch: Batch
    index: int
    replaces: str = ""
    children: int = 0
    """How many there have been."""
    batches: int = 0
    """How often it has called for some."""
    running: dict[Node, None] = field(default_factory=dict)
    """Children that have not ended, in order."""
    task: asyncio.Task[Outcome] | None = None
    outcome: Outcome | None = None
