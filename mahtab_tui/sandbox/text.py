"""The text of a node, and where it is in the root's text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from mahtab_tui.kernel.worker.contexts import ContextText, NamedContext

TextSpan = tuple[int, int]
"""Start and end (exclusive), in characters."""

Kind = Literal["str", "list", "dict"]

Document = tuple[str, int, int]
"""One document of a text that is a list or a dict: its name (a dict's key; of a list, its number),
start and end."""


class TextRun(NamedTuple):
    """A run of a node's text that is also a run of the root's text."""

    start: int
    """Its start in the node's text."""
    root: int
    """Its start in the root's text."""
    length: int


@dataclass(frozen=True)
class Text:
    """The text that a node searches."""

    text: str
    """All of it; documents are joined by line breaks."""
    kind: Kind = "str"
    """Type of `context` in the node's code."""
    parts: tuple[Document, ...] = ()
    """The documents, of a list or a dict."""
    origin: tuple[TextRun, ...] = ()
    """Origins of its runs, in order; empty for a text that code has made."""
    about: str = ""
    """Description for the model besides its size: "CSV of a DataFrame with the columns …"."""
    contexts: tuple[NamedContext, ...] = ()
    """If the caller has given several: then `kind` is "dict", and `parts` are these."""

    @classmethod
    def of(cls, taken: ContextText) -> Text:
        """Make the text of a whole search from the caller's context."""
        root = cls.root(taken.text, kind=_kind(taken.kind), parts=taken.parts, about=taken.about)
        return replace(
            root, contexts=tuple(each._replace(kind=_kind(each.kind)) for each in taken.contexts)
        )

    @classmethod
    def root(
        cls, text: str, *, kind: Kind = "str", parts: Sequence[Document] = (), about: str = ""
    ) -> Text:
        """Make the text of a whole search, which is its own origin."""
        return cls(text, kind, tuple(parts), (TextRun(0, 0, len(text)),) if text else (), about)

    def joined(self, spans: Sequence[TextSpan]) -> Text:
        """Join parts of it by line breaks; each knows where it comes from."""
        return Text(
            "\n".join(self.text[start:end] for start, end in spans),
            origin=tuple(self.joined_runs(spans)),
        )

    def joined_runs(self, spans: Sequence[TextSpan]) -> list[TextRun]:
        """Return where the runs of the joined parts come from."""
        runs, place = [], 0
        for start, end in spans:
            runs += [
                run._replace(start=place + run.start - start) for run in self.pieces(start, end)
            ]
            place += end - start + 1
        return runs

    def to_root(self, spans: Sequence[TextSpan]) -> list[TextSpan]:
        """Convert spans of this text to spans of the root's text. Text that code has made has
        none."""
        return [
            (piece.root, piece.root + piece.length)
            for start, end in spans
            for piece in self.pieces(start, end)
        ]

    def pieces(self, start: int, end: int) -> Iterator[TextRun]:
        """Yield the runs between two places of it, cut to them."""
        first = bisect_right(self.origin, start, key=lambda piece: piece.start + piece.length)
        for piece in self.origin[
            first : bisect_left(self.origin, end, key=lambda piece: piece.start)
        ]:
            low, high = max(start, piece.start), min(end, piece.start + piece.length)
            if low < high:
                yield TextRun(low, piece.root + low - piece.start, high - low)


def _kind(name: str) -> Kind:
    return "list" if name == "list" else "dict" if name == "dict" else "str"
