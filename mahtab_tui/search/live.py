"""The calls of a tree while it runs, and those that can be run again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mahtab_tui.sandbox.text import Text, TextRun, TextSpan
from mahtab_tui.search.conversation import Model
from mahtab_tui.search.findings import Findings

EndState = Literal["done", "partial", "error", "stopped"]
Kind = Literal["rlm", "llm"]

KEPT_BYTES = 16 * 2**20
"""Bytes that the ended nodes of one tree may hold; the oldest are forgotten first."""
_NODE = 2_000
"""Bytes that a node takes besides its texts."""


class NodeOutcome(NamedTuple):
    """How a node ended."""

    text: str
    """The answer, or a sentence saying why there is none."""
    state: EndState
    spans: Sequence[TextSpan] = ()
    """Spans of the root's text on which the answer rests."""
    why: str = ""
    """A sentence saying why it is partial."""

    @property
    def failed(self) -> bool:
        """Whether there is no answer."""
        return self.state in ("error", "stopped")


class NodeSource(NamedTuple):
    """Holder of a node's text, so that no copy is held before and after it is read."""

    text: Text
    places: tuple[TextSpan, ...] | None = None
    """Parts of it, to be joined by line breaks; None: all of it."""

    def take(self) -> Text:
        return self.text if self.places is None else self.text.joined(self.places)

    @property
    def runs(self) -> list[TextRun]:
        """Which runs of the node's text are runs of the root's text, in order."""
        return self.text.joined_runs(
            [(0, len(self.text.text))] if self.places is None else self.places
        )

    @property
    def chars(self) -> int:
        return (
            len(self.text.text)
            if self.places is None
            else sum(end - start + 1 for start, end in self.places) - 1
        )

    @property
    def spans(self) -> list[TextSpan]:
        """Spans of the root's text."""
        return self.text.to_root([(0, len(self.text.text))] if self.places is None else self.places)


class LiveFanOut:
    """Nodes that were started together, for whoever waits for their answers."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.waiting = True
        """Whether someone still waits for the answers."""
        self.size = size
        self._nodes: list[LiveNode | None] = [None] * size
        """By index; of a node and its retries, the newest."""
        self._left = size
        """How many have not ended."""
        self._done = asyncio.Event()

    def put(self, node: LiveNode) -> None:
        """Add a node, which may replace another."""
        before = self._nodes[node.index]
        if before is not None and before.outcome is not None:
            self._left += 1
            self._done.clear()
        self._nodes[node.index] = node

    def ended(self, node: LiveNode) -> None:
        """Note that a node has ended; it does not count if another has replaced it."""
        if self._nodes[node.index] is node:
            self._left -= 1
            if not self._left:
                self._done.set()

    def running(self) -> list[LiveNode]:
        """Return the nodes that have not ended."""
        return [node for node in self._nodes if node is not None and node.outcome is None]

    async def outcomes(self) -> list[NodeOutcome]:
        """Wait until all have ended, and return their outcomes in order."""
        try:
            while self._left:
                await self._done.wait()  # again if the last one was retried meanwhile
        finally:
            self.waiting = False
        return [
            node.outcome for node in self._nodes if node is not None and node.outcome is not None
        ]


@dataclass(eq=False)
class LiveNode:
    """A node, from its call until it is forgotten."""

    id: str
    parent: LiveNode | None
    depth: int
    kind: Kind
    query: str
    source: NodeSource
    model: Model
    batch: LiveFanOut
    index: int
    replaces: str = ""
    children: int = 0
    """How many there have been, retries included."""
    turn: int = 0
    """Number of the turn that runs, from 1."""
    batches: int = 0
    """How many batches of children there have been."""
    running: dict[LiveNode, None] = field(default_factory=dict)
    """Children that have not ended, in order."""
    asking: set[asyncio.Future[bool]] = field(default_factory=set)
    """Its fan-outs that wait for consent."""
    found: Findings = field(default_factory=Findings)
    over: bool = False
    """Whether it is ending and cannot start more children."""
    task: asyncio.Task[NodeOutcome] | None = None
    outcome: NodeOutcome | None = None


class EndedNodes:
    """The ended nodes of one tree that can be run again, limited by what they hold: texts that code
    has made, queries, answers."""

    def __init__(self) -> None:
        self._nodes: deque[tuple[LiveNode, int]] = deque()
        self._held = 0

    def add(self, node: LiveNode, size: int) -> list[LiveNode]:
        """Add a node that holds `size` bytes. Returns the nodes that were forgotten to make room,
        itself too if it is too large."""
        self._nodes.append((node, size + _NODE))
        self._held += size + _NODE
        forgotten = []
        while self._held > KEPT_BYTES:
            oldest, held = self._nodes.popleft()
            self._held -= held
            oldest.query, oldest.source = (
                "",
                NodeSource(Text("")),
            )  # others of its fan-out may still know it
            forgotten.append(oldest)
        return forgotten
