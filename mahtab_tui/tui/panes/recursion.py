"""The tree of an RLM search: a model that explores a text by writing code and by calling itself on parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.bus.sanitize import plain

_STATES = {"running": ("●", "$moon"), "done": ("✓", "$good"), "error": ("✗", "$bad"), "waiting": ("◌", "$muted")}
_EMPTY = "The tree of a recursive search over a long text shows here. This version has no search engine yet."


@dataclass
class Node:
    """One call of the search."""

    query: str
    depth: int
    state: str = "running"
    children: list[str] = field(default_factory=list)


class RecursionPane(VerticalScroll, can_focus=True):
    """Fed by the ``rlm-…`` records."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._calls: dict[str, Node] = {}
        self._roots: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("RECURSION", classes="pane-title", markup=False)
        yield Static(Content.styled(_EMPTY, "$muted"), id="tree", markup=False)

    def fold(self, records: Sequence[Record]) -> None:
        """Take in what the bus brought."""
        changed = False
        for record in records:
            if record.tag in (tags.RLM_CALL, tags.RLM_FINAL):
                changed = True
                self._fold(record)
        if changed:
            self.query_one("#tree", Static).update(Content("\n").join(self._lines(self._roots)))

    def _fold(self, record: Record) -> None:
        name = str(record.attrs["node"])
        if record.tag == tags.RLM_FINAL:
            if name in self._calls:
                self._calls[name].state = str(record.attrs.get("state", "done"))
            return
        parent = record.attrs.get("parent")
        self._calls[name] = Node(plain(record.text), int(record.attrs.get("depth", 0)))
        siblings = self._calls[str(parent)].children if str(parent) in self._calls else self._roots
        siblings.append(name)

    def _lines(self, names: Sequence[str]) -> list[Content]:
        lines = []
        for name in names:
            node = self._calls[name]
            glyph, colour = _STATES.get(node.state, ("?", "$muted"))
            lines.append(Content.assemble("  " * node.depth, (glyph, colour), " ", node.query.split("\n")[0]))
            lines += self._lines(node.children)
        return lines
