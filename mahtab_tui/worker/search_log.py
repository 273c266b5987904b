"""The places on which an answer rests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contexts import NamedContext


class Span(tuple[int, int]):
    """Start and end in characters; `context` names what they count in, if there are several."""

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


def to_context_spans(
    spans: Iterable[Iterable[int]], contexts: Iterable[NamedContext]
) -> tuple[Span, ...]:
    """Convert spans of the whole text to spans of its contexts."""
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


class SearchCall:
    """A call of a search, in variables that earlier versions have saved."""


CallTurn = SearchCall
