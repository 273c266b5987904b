"""The text of a node, and where it stands in the text of the whole search."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from mahtab_tui.kernel.worker.contexts import ContextText

Span = tuple[int, int]
"""Start and end (exclusive), in characters."""

Kind = Literal["str", "list", "dict"]


class Document(NamedTuple):
    """One document of a text that is a list or a dict."""

    name: str
    """A dict's key; of a list, its number."""
    start: int
    end: int


class Piece(NamedTuple):
    """A run of a node's text that is a run of the root's."""

    start: int
    """Where it stands in the node's text."""
    root: int
    """Where it stands in the root's."""
    length: int


@dataclass(frozen=True)
class Text:
    """What a node has to answer from."""

    text: str
    """All of it; documents are joined by line ends."""
    kind: Kind = "str"
    """What `context` is in the node's code."""
    parts: tuple[Document, ...] = ()
    """The documents, of a list or a dict."""
    origin: tuple[Piece, ...] = ()
    """Where it comes from, in order; empty for a text that was made on the way (a child's text that is not in the root's)."""
    about: str = ""
    """What the model is told of it beside its size: "CSV of a DataFrame with the columns …"."""

    @classmethod
    def of(cls, taken: ContextText) -> Text:
        """The text of a whole search, from what was made of a person's input."""
        kind: Kind = "list" if taken.kind == "list" else "dict" if taken.kind == "dict" else "str"
        return cls.root(taken.text, kind=kind, parts=[Document(*part) for part in taken.parts], about=taken.about)

    @classmethod
    def root(cls, text: str, *, kind: Kind = "str", parts: Sequence[Document] = (), about: str = "") -> Text:
        """The text of a whole search, which is its own origin."""
        return cls(text, kind, tuple(parts), (Piece(0, 0, len(text)),) if text else (), about)

    def slice(self, start: int, end: int) -> Text:
        """A part of it, as a plain string that knows where it comes from. Out of range is cut, as Python does."""
        start, end = max(0, start), min(end, len(self.text))
        return Text(self.text[start:end], origin=tuple(piece._replace(start=piece.start - start) for piece in self._pieces(start, end)))

    def joined(self, spans: Sequence[Span]) -> Text:
        """Several parts of it one below the other, each of which knows where it comes from; a line end stands between them."""
        texts, pieces, place = [], [], 0
        for start, end in spans:
            texts.append(self.text[start:end])
            pieces += [piece._replace(start=place + piece.start - start) for piece in self._pieces(start, end)]
            place += end - start + 1
        return Text("\n".join(texts), origin=tuple(pieces))

    def to_root(self, spans: Sequence[Span]) -> list[Span]:
        """Spans of this text as spans of the root's; what was made on the way has none."""
        return [(piece.root, piece.root + piece.length) for start, end in spans for piece in self._pieces(start, end)]

    def _pieces(self, start: int, end: int) -> Iterator[Piece]:
        """The runs between two places, cut to them."""
        first = bisect_right(self.origin, start, key=lambda piece: piece.start + piece.length)
        for piece in self.origin[first : bisect_left(self.origin, end, key=lambda piece: piece.start)]:
            low, high = max(start, piece.start), min(end, piece.start + piece.length)
            if low < high:
                yield Piece(low, piece.root + low - piece.start, high - low)
