"""Finds where in the text of a search an answer comes from.

A span is evidence if the answer contains it as a piece of the text, quotes it, or has a value (a
name, a number, a line) that is there only once. All positions count characters.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .answer_values import Span, find_values, named_lines
from .line_search import line_end
from .pieces import MAX_SENT_SPANS, Part, Piece, to_plain_str

MAX_ANSWER_SPANS = 1_000
"""At most this many spans of an answer are sent."""

_HEAD_CHARS = 16
"""A quoted part is recognised by this many of its first characters."""
_QUOTABLE_CHARS = range(_HEAD_CHARS, 2_001)
"""Lengths of parts that are looked for in an answer; shorter ones match by chance."""
_MAX_REMEMBERED_PARTS = 5_000
_MAX_QUOTING_CHARS = 5_000_000
"""Characters of texts made by code that are searched for quoted parts, about a second."""
_MAX_ANSWER_DEPTH = 4
"""Levels of nested lists and dicts in which pieces are looked for."""


class QuotedRun(NamedTuple):
    """A remembered part that another text quotes."""

    offset: int
    """Where it begins in the other text."""
    start: int
    """Where it begins in the whole text."""
    size: int
    """Its length in characters."""


class EvidenceFinder:
    """Remembers which parts of a text code has read, and finds them again in what it writes. Any
    thread of the code may use it."""

    def __init__(self, text: str) -> None:
        """
        Args:
            text: The whole text of the search.
        """
        self._text = text
        # Re-entrant, because a finalizer of the code may run while it is held, and read the text.
        self._lock = threading.RLock()
        self._parts: deque[Part] = deque(maxlen=_MAX_REMEMBERED_PARTS)
        self._quotations: _QuotationFinder | None = None
        """The quotations of all these parts; None if there are new parts."""
        self._quoting_chars = _MAX_QUOTING_CHARS
        """Characters that may still be searched for quoted parts."""

    def remember(self, parts: Iterable[str]) -> None:
        """Remember parts that code has read. Those of another text, or of a length that nobody
        quotes, are left out."""
        new_parts = [
            part for part in parts if isinstance(part, Part) and len(part) in _QUOTABLE_CHARS
        ]
        with self._lock:
            self._parts.extend(new_parts)
            self._quotations = None

    def find_runs(self, text: str) -> list[QuotedRun]:
        """Return where a text that code has made quotes remembered parts; nothing once too much text
        has been searched."""
        with self._lock:
            if len(text) > self._quoting_chars or not self._parts:
                return []
            self._quoting_chars -= len(text)
            if self._quotations is None:
                self._quotations = _QuotationFinder(self._parts)
            quotations = self._quotations
        return quotations.find_runs(text)

    def find(self, answer: object, words: str, numbered: bool) -> list[Span]:
        """Return the spans that support an answer, in order.

        Args:
            answer: The value, which may contain pieces of the text.
            words: The answer as text.
            numbered: Whether line numbers in it are those of the text.
        """
        pieces = list(_pieces_in(answer))
        spans = {(piece.start, piece.end) for piece in pieces}
        piece_texts = {to_plain_str(piece) for piece in pieces}
        for run in self.find_runs(words):
            # Of a piece in the answer, its own position counts.
            if words[run.offset : run.offset + run.size] not in piece_texts:
                spans.add((run.start, run.start + run.size))
        self._add_values(words, spans)
        if numbered:
            spans.update(self._named_lines(words))
        return sorted(spans)

    def _add_values(self, words: str, spans: set[Span]) -> None:
        """Add the spans of an answer's values that occur only once in what code has read, or else in
        the whole text, unless one of the spans has them in it already."""
        with self._lock:
            parts = tuple(self._parts)
        read_spans = _merge_spans(sorted((part.start, part.end) for part in parts))
        whole_text = [(0, len(self._text))]
        covered_spans = _merge_spans(sorted(spans))
        for searched_spans in (read_spans, whole_text):
            for start, end in find_values(words, self._text, searched_spans):
                index = bisect_right(covered_spans, (start, len(self._text))) - 1
                is_covered = index >= 0 and end <= covered_spans[index][1]
                if not is_covered:
                    spans.add((start, end))
                    insort(covered_spans, (start, end))

    def _named_lines(self, words: str) -> Iterator[Span]:
        """Yield the spans of the lines whose numbers an answer names."""
        line = 1
        start = 0
        for number in sorted(named_lines(words)):
            while line < number:
                line_break = str.find(self._text, "\n", start)
                if line_break < 0:
                    return
                start = line_break + 1
                line += 1
            if start >= len(self._text):
                return
            yield start, line_end(self._text, start)


class _QuotationFinder:
    """Finds parts of the text in another one. Never changes, so threads may share it."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts_by_words: dict[str, Part | None] = {}
        """None if parts at several positions have these words."""
        for part in tuple(parts):
            earlier_part = self._parts_by_words.setdefault(part, part)
            if earlier_part is not None and earlier_part.start != part.start:
                self._parts_by_words[part] = None

        sizes_by_head: defaultdict[str, set[int]] = defaultdict(set)
        for words in self._parts_by_words:
            sizes_by_head[str.__getitem__(words, slice(_HEAD_CHARS))].add(len(words))
        self._sizes_by_head = {
            head: sorted(sizes, reverse=True) for head, sizes in sizes_by_head.items()
        }
        """The lengths of the parts that begin in this way, longest first."""

    def find_runs(self, text: str) -> list[QuotedRun]:
        """Return the runs of quoted text, as `EvidenceFinder.find_runs` does."""
        runs: list[QuotedRun] = []
        offset = 0
        while offset <= len(text) - _HEAD_CHARS and len(runs) < MAX_SENT_SPANS:
            part = None
            if text[offset : offset + _HEAD_CHARS] in self._sizes_by_head:
                part = self._find_longest_at(text, offset)
            if part is None:
                offset += 1
            else:
                runs.append(QuotedRun(offset, part.start, len(part)))
                offset += len(part)
        return runs

    def _find_longest_at(self, text: str, offset: int) -> Part | None:
        """Return the longest part that a text has at an offset; None if it has none."""
        for size in self._sizes_by_head[text[offset : offset + _HEAD_CHARS]]:
            part = self._parts_by_words.get(text[offset : offset + size])
            if part is not None:
                return part
        return None


def _pieces_in(answer: object, depth: int = 0) -> Iterator[Piece]:
    """Yield the pieces of the text in an answer.

    Args:
        depth: The level of the answer in another one.
    """
    if isinstance(answer, Piece):
        yield answer
        return
    if depth == _MAX_ANSWER_DEPTH:
        return
    if isinstance(answer, dict):
        answer = answer.values()
    elif not isinstance(answer, (list, tuple, set, frozenset)):
        return
    for item in answer:
        yield from _pieces_in(item, depth + 1)


def _merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Merge spans, given in order, that touch or have only a line break between them. Empty ones are
    dropped."""
    merged_spans: list[Span] = []
    for start, end in spans:
        if start >= end:
            continue
        if merged_spans and start <= merged_spans[-1][1] + 1:
            merged_start, merged_end = merged_spans.pop()
            merged_spans.append((merged_start, max(merged_end, end)))
        else:
            merged_spans.append((start, end))
    return merged_spans
