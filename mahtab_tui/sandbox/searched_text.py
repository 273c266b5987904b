"""The text of a node of a search, and where it comes from in the text of the whole search."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from mahtab_tui.worker.link.frames import Frame
from mahtab_tui.worker.sandbox.answer_values import find_values

if TYPE_CHECKING:
    from mahtab_tui.worker.rlm.contexts import ContextText, NamedContext


def without_surrogates(frame: Frame) -> Frame:
    """Return the frame with each lone surrogate replaced by a question mark."""
    text = json.dumps(frame, ensure_ascii=False)
    try:
        text.encode()
        return frame
    except UnicodeEncodeError:
        repaired: Frame = json.loads(text.encode("utf-8", "replace"))
        return repaired


TextSpan = tuple[int, int]
"""Start and end (exclusive), in characters."""
TextKind = Literal["str", "list", "dict"]
"""What a text was before it became one text."""
Document = tuple[str, int, int]
"""One document of a list or a dict: its name (a dict's key; of a list, its number), start and
end."""


def merge_spans(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Merge spans that overlap or touch; drop empty ones."""
    merged: list[TextSpan] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            last_start, last_end = merged[-1]
            merged[-1] = (last_start, max(last_end, end))
        elif start < end:
            merged.append((start, end))
    return merged


class TextRun(NamedTuple):
    """A run of a node's text that is also a run of the root's text. All numbers are characters."""

    start: int
    """Where it starts in the node's text."""
    root: int
    """Where it starts in the root's text."""
    length: int


@dataclass(frozen=True)
class SearchedText:
    """The text of a node, and where it comes from."""

    text: str
    kind: TextKind = "str"
    parts: tuple[Document, ...] = ()
    origin: tuple[TextRun, ...] = ()
    """Origins of its runs, in order; empty for a text that code has made."""
    about: str = ""
    """Description for the model besides its size: "CSV of a DataFrame with the columns …"."""
    contexts: tuple[NamedContext, ...] = ()
    """If the caller has given several: then `kind` is "dict", and `parts` are these."""
    instructions: str = ""
    """The caller's wishes, for the model of the whole search only."""

    @classmethod
    def of(cls, context: ContextText, instructions: str = "") -> SearchedText:
        """Make the text of a search of the caller's context."""
        kind = cast(TextKind, context.kind)
        root = cls.root(context.text, kind=kind, parts=context.parts, about=context.about)
        return replace(root, contexts=context.contexts, instructions=instructions)

    @classmethod
    def root(
        cls, text: str, *, kind: TextKind = "str", parts: Sequence[Document] = (), about: str = ""
    ) -> SearchedText:
        """Make the text of a whole search."""
        origin = (TextRun(0, 0, len(text)),) if text else ()
        return cls(text, kind, tuple(parts), origin, about)

    def joined(self, spans: Sequence[TextSpan]) -> SearchedText:
        """Return these parts of it, joined by line breaks."""
        return SearchedText(
            "\n".join(self.text[start:end] for start, end in spans),
            origin=tuple(self.joined_runs(spans)),
        )

    def joined_runs(self, spans: Sequence[TextSpan]) -> list[TextRun]:
        """Return the runs of these parts, joined by line breaks."""
        runs: list[TextRun] = []
        offset = 0
        for start, end in spans:
            for run in self.pieces(start, end):
                runs.append(run._replace(start=offset + run.start - start))
            offset += end - start + 1
        return runs

    def to_root(self, spans: Sequence[TextSpan]) -> list[TextSpan]:
        """Convert spans of this text to spans of the root's text."""
        runs = (run for start, end in spans for run in self.pieces(start, end))
        return [(run.root, run.root + run.length) for run in runs]

    def quoted(self, words: str) -> list[TextSpan]:
        """Return spans of the root's text with the values of an answer that occur once in this."""
        return self.to_root(sorted(find_values(words, self.text, [(0, len(self.text))])))

    def pieces(self, start: int, end: int) -> Iterator[TextRun]:
        """Yield the runs of a part."""
        first_index = bisect_right(self.origin, start, key=lambda run: run.start + run.length)
        end_index = bisect_left(self.origin, end, key=lambda run: run.start)
        for run in self.origin[first_index:end_index]:
            piece_start = max(start, run.start)
            piece_end = min(end, run.start + run.length)
            if piece_start < piece_end:
                root_start = run.root + piece_start - run.start
                yield TextRun(piece_start, root_start, piece_end - piece_start)
