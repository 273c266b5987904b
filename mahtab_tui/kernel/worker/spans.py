"""Places in the contexts of a search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contexts import NamedContext


class Span(tuple[int, int]):
    """Start and end in characters, end exclusive. `context` names the context that they count in;
    empty if there is only one."""

    context: str

    def __new__(cls, start: int, end: int, context: str = "") -> Span:
        span = super().__new__(cls, (start, end))
        span.context = context
        return span

    @property
    def start(self) -> int:
        return self[0]

    @property
    def end(self) -> int:
        return self[1]

    def __repr__(self) -> str:
        return f"Span({self[0]}, {self[1]}{f', {self.context!r}' if self.context else ''})"

    def __reduce__(self) -> Any:
        return type(self), (self[0], self[1], self.context)


def in_contexts(
    spans: Iterable[Iterable[int]], contexts: Iterable[NamedContext]
) -> tuple[Span, ...]:
    """Return spans of the whole text as spans of its contexts; what is between two contexts is left
    out."""
    named = list(contexts)
    if not named:
        return tuple(Span(start, end) for start, end in spans)
    found = []
    for start, end in spans:
        for context in named:
            low, high = max(start, context.start), min(end, context.end)
            if low < high:
                found.append(Span(low - context.start, high - context.start, context.name))
    return tuple(found)
