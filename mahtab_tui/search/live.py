"""One call in a tree, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.sandbox.text import Span, Text
from mahtab_tui.search.found import Found
from mahtab_tui.search.models import Model

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
    places: tuple[Span, ...] | None = None
    """Parts of it, one below the other; None: all."""

    def take(self) -> Text:
        if self.places is None:
            return self.text
        return self.text.slice(*self.places[0]) if len(self.places) == 1 else self.text.joined(self.places)

    @property
    def chars(self) -> int:
        return len(self.text.text) if self.places is None else sum(end - start + 1 for start, end in self.places) - 1

    @property
    def spans(self) -> list[Span]:
        """Of the root's text."""
        return self.text.to_root([(0, len(self.text.text))] if self.places is None else self.places)


class LiveFanOut:
    """Nodes that were called for at once, and whoever waits for them."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.waiting = True
        """Whether somebody still wants the answers."""
        self.size = size
        self._nodes: list[LiveNode | None] = [None] * size
        """By index; the latest where one was run again."""
        self._left = size
        """How many of them have not ended."""
        self._done = asyncio.Event()

    def put(self, node: LiveNode) -> None:
        """A node is there, perhaps in the place of another."""
        before = self._nodes[node.index]
        if before is not None and before.outcome is not None:
            self._left += 1
            self._done.clear()
        self._nodes[node.index] = node

    def ended(self, node: LiveNode) -> None:
        """A node has ended; it counts where no other has taken its place."""
        if self._nodes[node.index] is node:
            self._left -= 1
            if not self._left:
                self._done.set()

    def running(self) -> list[LiveNode]:
        """Those that have not ended."""
        return [node for node in self._nodes if node is not None and node.outcome is None]

    async def outcomes(self) -> list[Outcome]:
        """What came of all, in order, once none runs."""
        try:
            while self._left:
                await self._done.wait()  # and again, where the last one was run again meanwhile
        finally:
            self.waiting = False
        return [node.outcome for node in self._nodes if node is not None and node.outcome is not None]


@dataclass(eq=False)
class LiveNode:
    """A node, from its call to its end and after it."""

    id: str
    parent: LiveNode | None
    depth: int
    kind: Kind
    query: str
    source: Source
    model: Model
    batch: LiveFanOut
    index: int
    replaces: str = ""
    children: int = 0
    """How many there have been."""
    turn: int = 0
    """Which of its turns runs, from 1."""
    batches: int = 0
    """How often it has called for some."""
    running: dict[LiveNode, None] = field(default_factory=dict)
    """Children that have not ended, in order."""
    asking: set[asyncio.Future[bool]] = field(default_factory=set)
    """Its fan-outs that wait for consent."""
    found: Found = field(default_factory=Found)
    over: bool = False
    """It ends: it cannot call for any more children."""
    task: asyncio.Task[Outcome] | None = None
    outcome: Outcome | None = None
