"""The text of a sandbox: its parts, its lines, and the evidence for an answer."""

from __future__ import annotations

import operator
import re
from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from re import Pattern
from typing import Any, Protocol

from ..tools.text_tools import LONG_LINE_CHARS

MAX_ANSWER_SPANS = 1_000

MAX_SENT_SPANS = 1_000
"""A list of at most this many parts is passed on as their positions."""

MIN_LOOKED_UP_CHARS = 64
"""Shorter plain strings are not looked up in the text: they could be anywhere."""

_NEGATED = re.compile(r"\[\^(?:\\.|[^\]\\])*\]?", re.DOTALL)
_ACROSS = re.compile(r"\n|\\n|\[\\s\\S\]|\[\\S\\s\]|\(\?[aiLmux]*s")

_MAY_CROSS = re.compile(r"\[\^|\\[sDWAZzBx0u\n]|\(\?(?!:|P<|[aiLm]+\))", re.DOTALL)
"""May look beyond a line, so that searching all of the text differs from searching line by line."""

_LEADING = re.compile(r"((?:\(\?[aiLmu]+\))?)\^?\.\*(?![+*{])\??")
"""A start that affects no result, but makes the search retry each line from every character."""

CONTEXT_CHARS = 300

_HEAD_CHARS = 16
_QUOTED = range(_HEAD_CHARS, 2_001)
"""Lengths of parts that are looked for in an answer; shorter ones match by chance."""
_MAX_REMEMBERED_PARTS = 5_000
_MAX_CHARS_READ_FOR_SPANS = 5_000_000
"""Characters of texts made by code that are searched for given parts, about a second."""
_MAX_SCANNED_CHARS = 100_000_000
_QUOTE = re.compile(
    r'"([^"\n]{4,2000})"|“([^“”\n]{4,2000})”|`([^`\n]{4,2000})`|(?<!\w)\'([^\'\n]{4,2000})\''
)
_MORE = r"(?:\s*(?:,|-|–|to|and)\s*\d{1,9})"
_NAMED = re.compile(rf"\b(?:line\s+(\d{{1,9}}{_MORE}*)|lines\s+(\d{{1,9}}{_MORE}+))", re.IGNORECASE)
"""\"lines 6000" counts lines; "lines 6000 and 6001" names them."""
_MAX_NAMED_LINES = 1_000
_BETWEEN_VALUES = re.compile(r"[\n,;|\t]|: ")
_BETWEEN_WORDS = re.compile(r"[\s,;|\"'`“”()\[\]{}<>]+")
_AROUND_VALUES = " \t\r\n-*•.:\"'`“”()[]{}<>"
_MAX_VALUES = 1_000
_MAX_OCCURRENCES = 10_000
"""Most occurrences of a value to check; most are within other words."""
_MAX_ANSWER_DEPTH = 4


class CallError(Exception):
    """The engine refused a call; the message is a sentence for the author of the code."""


class EngineHost(Protocol):
    """Any thread of the sandboxed code may call both methods."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Send a call and wait for its value. Raises `CallError`."""

    def send(self, name: str, args: dict[str, Any]) -> None:
        """Send a message that has no answer."""


def merge(spans: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Merge spans, given in order, that touch or have only a line break between them; drop empty ones."""
    merged: list[list[int]] = []
    for start, end in spans:
        if start >= end:
            continue
        if merged and start <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


class Piece(str):
    """A slice of the text: a str that knows its position. start, end: in characters of the text
    (end is exclusive)."""

    __slots__ = ("start",)

    start: int

    def __new__(cls, text: str = "", start: int = 0) -> Piece:  # the defaults are for copies
        piece = super().__new__(cls, text)
        piece.start = start
        return piece

    @property
    def end(self) -> int:
        return self.start + len(self)

    @property
    def text(self) -> str:
        return self

    def __getitem__(self, key: Any) -> str:
        characters = str.__getitem__(self, key)
        if type(key) is not slice or (key.step is not None and key.step != 1) or not characters:
            return characters
        start = 0 if key.start is None else operator.index(key.start)
        return Piece(characters, self.start + (max(0, start + len(self)) if start < 0 else start))


class Part(Piece):
    """A piece of the text returned by a function. line: the number of its first line, from 1."""

    __slots__ = ("line",)

    line: int

    def __new__(cls, text: str = "", start: int = 0, line: int = 1) -> Part:
        part = super().__new__(cls, text, start)
        assert isinstance(part, Part)
        part.line = line
        return part


class Hit(str):
    """A piece of another text than the search's, with its position there."""

    __slots__ = ("line", "start")

    start: int
    line: int

    def __new__(cls, text: str = "", start: int = 0, line: int = 1) -> Hit:
        hit = super().__new__(cls, text)
        hit.start = start
        hit.line = line
        return hit

    end = Piece.end
    text = Piece.text


class Source(Part):
    """The text, or one of its documents."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the text itself: a copy might not fit into memory."""
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Part, (to_plain_str(self), self.start, self.line)


Piece.__name__ = Source.__name__ = "str"  # shown to code that asks for their type


class _AwaitableAnswer:
    """The answer of a sub-call, which may be awaited, as in other programs for searches."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Any]:
        return self
        yield


class SubAnswer(_AwaitableAnswer, str):
    """The answer of a sub-call: a str. failed: whether it says why there is no answer."""

    failed = False


class AnswerList(_AwaitableAnswer, list[SubAnswer]):
    """The answers of several sub-calls."""


class Final(BaseException):
    """Ends the code after FINAL."""


def to_answer(reply: dict[str, Any]) -> SubAnswer:
    text = str(reply["text"])
    if reply["failed"] and not text.startswith("[failed"):
        text = f"[failed: {text}]"
    answer = SubAnswer(text)
    answer.failed = bool(reply["failed"])
    return answer


def to_plain_str(text: str) -> str:
    return str.__getitem__(text, slice(None))


def find_span(value: str, text: str) -> tuple[int, int] | None:
    """Return the position of a string in the text; None if it is no piece of it and occurs
    twice."""
    if isinstance(value, Piece):
        return value.start, value.end
    if len(value) == len(text):
        return (0, len(text)) if value == text else None
    if len(value) < MIN_LOOKED_UP_CHARS:
        return None
    start = str.find(text, value)
    if start < 0 or str.find(text, value, start + 1) >= 0:
        return None
    return start, start + len(value)


def find_spans(values: object) -> list[list[int]]:
    """Return the positions of the pieces in a list, without their last line breaks; empty if not
    all are pieces."""
    if not isinstance(values, (list, tuple)) or len(values) > MAX_SENT_SPANS:
        return []
    if not all(isinstance(value, Piece) for value in values):
        return []
    return [[value.start, value.start + len(str.rstrip(value, "\n"))] for value in values]


def compile_pattern(pattern: object) -> Pattern[str]:
    """Compile a pattern whose ``^`` and ``$`` match at line ends. Raises ValueError and TypeError."""
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return re.compile(pattern.pattern, pattern.flags | re.MULTILINE)
    if not isinstance(pattern, str):
        raise TypeError(
            f"pattern must be a str (a regular expression), not {type(pattern).__name__}"
        )
    try:
        return re.compile(pattern, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{pattern[:200]!r} is not a regular expression: {error}. For plain text with special characters use re.escape(text)."
        ) from None


def matching_lines(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield start and end (without the line break) of each matching line, in order; all lines of a
    match across lines are treated as one."""
    source = _NEGATED.sub("", pattern.pattern)
    if pattern.flags & re.DOTALL or _ACROSS.search(source):
        return _search_whole(text, pattern)
    if pattern.flags & re.VERBOSE or _MAY_CROSS.search(pattern.pattern):
        return _search_lines(text, pattern)
    if leading := _LEADING.match(pattern.pattern):
        pattern = re.compile(leading[1] + pattern.pattern[leading.end() :], pattern.flags)
    return _search_whole(text, pattern)


def context_spans(
    text: str, pattern: Pattern[str], start: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield the text around each match in a long line."""
    low = high = -1
    for match in pattern.finditer(text, start, end):
        if high < 0 or match.start() - CONTEXT_CHARS > high:
            if high >= 0:
                yield low, high
            low = max(start, match.start() - CONTEXT_CHARS)
        high = min(end, match.end() + CONTEXT_CHARS)
    if high >= 0:
        yield low, high


def find_line(text: str, offset: int) -> tuple[int, int]:
    return str.rfind(text, "\n", 0, offset) + 1, _line_end(text, offset)


def _line_end(text: str, offset: int) -> int:
    end = str.find(text, "\n", offset)
    return len(text) if end < 0 else end


def extend_lines(text: str, start: int, end: int, lines: int) -> tuple[int, int]:
    """Extend a run of lines on both sides, but not beyond one that is too long to show."""
    for _ in range(lines):
        line_start = text.rfind("\n", 0, max(0, start - 1)) + 1
        if start - line_start > LONG_LINE_CHARS:
            break
        start = line_start
    for _ in range(lines):
        if end + 1 >= len(text):
            break
        line_end = find_line(text, end + 1)[1]
        if line_end - end > LONG_LINE_CHARS:
            break
        end = line_end
    return start, end


def _search_whole(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Search all of the text at once: ten times as fast for plain first characters."""
    offset = 0
    while offset < len(text):
        match = pattern.search(text, offset)
        if match is None:
            return
        start, end = find_line(text, match.start())
        if match.end() - 1 > end:
            end = find_line(text, match.end() - 1)[1]
        if start < len(text):
            yield start, end
        offset = end + 1


def _search_lines(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = _line_end(text, start)
        if pattern.search(str.__getitem__(text, slice(start, end))):
            yield start, end
        start = end + 1


class EvidenceFinder:
    def __init__(self, text: str) -> None:
        self._text = text
        self._given: deque[Part] = deque(maxlen=_MAX_REMEMBERED_PARTS)
        self._by_words: tuple[dict[str, Part | None], dict[str, list[int]]] | None = None
        self._left = _MAX_CHARS_READ_FOR_SPANS

    def remember(self, parts: Iterable[str]) -> None:
        new = (part for part in parts if isinstance(part, Part) and len(part) in _QUOTED)
        self._given.extend(new)
        self._by_words = None

    def find_runs(self, text: str) -> list[list[int]]:
        """Return the remembered parts in a text that code has made, as [offset there, offset in the whole text, characters]."""
        if len(text) > self._left or not self._given:
            return []
        self._left -= len(text)
        parts_by_words, sizes = self._given_by_words()
        runs: list[list[int]] = []
        offset = 0
        while offset <= len(text) - _HEAD_CHARS and len(runs) < MAX_SENT_SPANS:
            for size in sizes.get(text[offset : offset + _HEAD_CHARS], ()):
                origin = parts_by_words.get(text[offset : offset + size])
                if origin is not None:
                    runs.append([offset, origin.start, size])
                    offset += size - 1
                    break
            offset += 1
        return runs

    def find(self, answer: object, words: str, numbered: bool) -> list[tuple[int, int]]:
        """Return the spans that support an answer, in order. numbered: whether line numbers in it
        are those of the text."""
        pieces = list(_pieces(answer))
        given_texts = {to_plain_str(piece) for piece in pieces}
        spans = {(piece.start, piece.end) for piece in pieces}
        for offset, start, size in self.find_runs(words):
            if (
                words[offset : offset + size] not in given_texts
            ):  # else the answer's own piece counts
                spans.add((start, start + size))
        read = merge(sorted((part.start, part.end) for part in tuple(self._given)))
        covered = merge(sorted(spans))
        for where in (read, [(0, len(self._text))]):
            for start, end in find_values(words, self._text, where):
                position = bisect_right(covered, [start, len(self._text)]) - 1
                if position < 0 or end > covered[position][1]:
                    spans.add((start, end))
                    insort(covered, [start, end])
        if numbered:
            spans.update(self._named(words))
        return sorted(spans)

    def _given_by_words(self) -> tuple[dict[str, Part | None], dict[str, list[int]]]:
        """Return the remembered parts by their words (None if they are from several places), and
        their lengths by beginning, longest first."""
        if self._by_words is not None:
            return self._by_words
        parts_by_words: dict[str, Part | None] = {}
        for part in tuple(self._given):  # other threads may add some
            earlier_part = parts_by_words.setdefault(part, part)
            if earlier_part is not None and earlier_part.start != part.start:
                parts_by_words[part] = None
        sizes: defaultdict[str, set[int]] = defaultdict(set)
        for words in parts_by_words:
            sizes[str.__getitem__(words, slice(_HEAD_CHARS))].add(len(words))
        by_length = {head: sorted(size_set, reverse=True) for head, size_set in sizes.items()}
        self._by_words = parts_by_words, by_length
        return self._by_words

    def _named(self, words: str) -> Iterator[tuple[int, int]]:
        line = 1
        start = 0
        for number in sorted(named_lines(words)):
            while 0 < line < number:
                start = str.find(self._text, "\n", start) + 1
                line = line + 1 if start else 0
            if line != number or start >= len(self._text):
                return
            yield start, _line_end(self._text, start)


def answer_values(words: str) -> list[str]:
    """Return the values in an answer, longest first: all of it, its lines, quotations, items and
    words with digits, unless they are short."""
    quotes = (next(filter(None, quotation)) for quotation in _QUOTE.findall(words))
    values = {words, *words.splitlines(), *_BETWEEN_VALUES.split(words), *quotes}
    values.update(word for word in _BETWEEN_WORDS.split(words) if re.search(r"\d", word))
    stripped = {value.strip(_AROUND_VALUES) for value in values}
    telling = (value for value in stripped if len(value) > (3 if value.isdigit() else 2))
    return sorted(telling, key=lambda value: (-len(value), value))[:_MAX_VALUES]


def find_values(words: str, text: str, spans: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans of an answer's values that occur exactly once in these spans of a text."""
    size = sum(end - start for start, end in spans) + 1
    for value in answer_values(words)[: _MAX_SCANNED_CHARS // size]:
        if span := find_once(value, text, spans):
            yield span


def find_once(words: str, text: str, spans: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """Return the span of words that occur exactly once in these spans of a text, not within others."""
    starts: list[int] = []
    for span_start, span_end in spans:
        starts += islice(_find_words(words, text, span_start, span_end), 2 - len(starts))
    if len(starts) == 1:
        return (starts[0], starts[0] + len(words))
    return None


def stands_in(words: str, text: str) -> bool:
    return next(_find_words(words, text, 0, len(text)), None) is not None


def _find_words(words: str, text: str, first: int, last: int) -> Iterator[int]:
    start = str.find(text, words, first, last)
    for _ in range(_MAX_OCCURRENCES):
        if start < 0:
            return
        end = start + len(words)
        if not _within_word(text, start) and not _within_word(text, end):
            yield start
        start = str.find(text, words, end, last)


def named_lines(words: str) -> set[int]:
    named = (int(number) for run in _NAMED.finditer(words) for number in re.findall(r"\d+", run[0]))
    return {number for number in islice(named, _MAX_NAMED_LINES) if number}


def _within_word(text: str, offset: int) -> bool:
    around = ""
    if offset:
        around = str.__getitem__(text, slice(offset - 1, offset + 1))
    return len(around) == 2 and around.isalnum()


def _pieces(answer: object, depth: int = 0) -> Iterator[Piece]:
    if isinstance(answer, Piece):
        yield answer
    elif isinstance(answer, (list, tuple, set, frozenset, dict)) and depth < _MAX_ANSWER_DEPTH:
        for item in answer.values() if isinstance(answer, dict) else answer:
            yield from _pieces(item, depth + 1)
