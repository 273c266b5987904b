"""The events of a tree as records: `bus.tags` says what each carries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from mahtab_tui.bus import tags
from mahtab_tui.bus.records import Record
from mahtab_tui.recursion.text import Span

Emit = Callable[[Record], None]


class Events:
    """Numbers and gives out the events of one tree. Lives in one loop."""

    def __init__(self, tree: str, emit: Emit) -> None:
        self.tree = tree
        self._emit = emit
        self._seq = 0

    def send(self, tag: str, node: str, text: str = "", /, **attrs: Any) -> None:
        """One event, with the next number."""
        self._emit(Record(tag, text, {"tree": self.tree, "node": node, "seq": self._seq, **attrs}, time.time()))
        self._seq += 1

    def call(self, node: str, event: str, text: str = "", /, **attrs: Any) -> None:
        """An event of tag ``rlm-call``."""
        self.send(tags.RLM_CALL, node, text, event=event, **attrs)

    def stream(self, node: str, turn: int, text: str) -> None:
        """A piece of what the model says; it has no number, since the whole follows."""
        self._emit(Record(tags.RLM_CHAT_STREAM, text, {"tree": self.tree, "node": node, "turn": turn}, time.time()))

    def touch(self, node: str, how: str, spans: Sequence[Span]) -> None:
        """Spans of the root's text that a node has seen or handed on."""
        if spans:
            self.call(node, "touch", how=how, spans=merged(spans))


def merged(spans: Sequence[Span]) -> list[Span]:
    """Spans in order, those that overlap or touch made one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
