"""The text of a sandbox: its parts, its lines, and what an answer rests on."""

from __future__ import annotations

import operator
import re
from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from re import Pattern
from typing import Any, Protocol

from ..text_tools import LONG_LINE


class CallError(Exception):
    """The engine refused a call; the message is a sentence for the author of the code."""


class EngineHost(Protocol):
    """Any thread of the sandboxed code may call both methods."""

    def call(self, name: str, args: dict[str, Any]) -> Any:
        """Send a call and wait for its value. Raises `CallError`."""

    def send(self, name: str, args: dict[str, Any]) -> None:
        """Send a message that has no answer."""


MOST_A_CALL = 1_000
MOST_IN_ALL = 20_000
"""Spans that are reported at most, so that a loop over peek cannot flood the engine."""
_NOTED = 4_096
"""Spans that are noted before they are merged."""


class ReadTracker:
    """Reports spans of one sandbox. Several threads may use it; the limit is then only nearly
    exact."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._left = MOST_IN_ALL
        self._noted: list[tuple[int, int]] = []

    def report(self, how: str, spans: Iterable[tuple[int, int]]) -> None:
        """Report spans, given in order; those that touch or have only a line break between them are
        merged."""
        merged = merge(spans)[: self._left]
        self._left -= len(merged)
        for first in range(0, len(merged), MOST_A_CALL):
            self._host.send("touch", {"how": how, "spans": merged[first : first + MOST_A_CALL]})

    def note(self, start: int, end: int) -> None:
        """Note a slice, which is reported later, since code may take many one after the other."""
        if self._noted and self._noted[-1][1] == start:
            self._noted[-1] = self._noted[-1][0], end
        elif self._left:
            self._noted.append((start, end))
            if len(self._noted) >= _NOTED:
                self.flush()

    def flush(self) -> None:
        """Report the slices that were noted."""
        noted, self._noted = self._noted, []
        self.report("peek", sorted(noted))


def merge(spans: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Merge neighbouring spans, given in order, and drop empty ones."""
    merged: list[list[int]] = []
    for start, end in spans:
        if start >= end:
            continue
        if merged and start <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


MOST_SPANS = 1_000
"""A list of at most so many parts is handed on as their places."""

FOUND_AGAIN = 64
"""Plain strings of at least so many characters are looked up in the text; shorter ones could be
anywhere."""


class Piece(str):
    """A slice of the text: a str that knows where it is. start, end: its place in the text, in
    characters (end is exclusive)."""

    __slots__ = ("start",)

    start: int

    def __new__(cls, text: str = "", start: int = 0) -> Piece:
        """Set the place too; the default is for copies, whose place is set afterwards."""
        piece = super().__new__(cls, text)
        piece.start = start
        return piece

    @property
    def end(self) -> int:
        return self.start + len(self)

    @property
    def text(self) -> str:
        """The string itself: models write hit.text."""
        return self

    def __getitem__(self, key: Any) -> str:
        found = str.__getitem__(self, key)
        if type(key) is not slice or (key.step is not None and key.step != 1) or not found:
            return found
        start = 0 if key.start is None else operator.index(key.start)
        return Piece(found, self.start + (max(0, start + len(self)) if start < 0 else start))


class Part(Piece):
    """A piece of the text that a function has returned. line: the number of its first line, from
    1."""

    __slots__ = ("line",)

    line: int

    def __new__(cls, text: str = "", start: int = 0, line: int = 1) -> Part:
        """Set place and line too; the defaults are for copies, whose place is set afterwards."""
        part = super().__new__(cls, text, start)
        assert isinstance(part, Part)
        part.line = line
        return part


class Hit(str):
    """A piece of another text than the search's. start, end: its place there. line: the number of its first line."""

    __slots__ = ("line", "start")

    start: int
    line: int

    def __new__(cls, text: str = "", start: int = 0, line: int = 1) -> Hit:
        hit = super().__new__(cls, text)
        hit.start, hit.line = start, line
        return hit

    end = Piece.end
    text = Piece.text


class Source(Part):
    """The text, or one of its documents: slices of it count as seen."""

    __slots__ = ("_touches",)

    _touches: ReadTracker

    @classmethod
    def make(cls, text: str, touches: ReadTracker, start: int = 0, line: int = 1) -> Source:
        """Make it. start: where it is in the text. line: the number of its first line."""
        source = cls(text, start, line)
        assert isinstance(source, Source)
        return source.reporting(touches)

    def reporting(self, touches: ReadTracker) -> Source:
        """Set where it reports what is seen."""
        self._touches = touches
        return self

    def __getitem__(self, key: Any) -> str:
        found = super().__getitem__(key)
        if isinstance(found, Piece):
            self._touches.note(found.start, found.end)
        return found

    def __str__(self) -> str:
        """Return the text itself, since a copy might not fit into memory."""
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Make copies parts, which report nothing."""
        return Part, (to_plain_str(self), self.start, self.line)


Piece.__name__ = Source.__name__ = (
    "str"  # as which they show themselves to code that asks for their type
)


class _AwaitableAnswer:
    """The answer of a sub-call, which may be awaited, as in other programs for searches."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, Any]:
        return self
        yield


class SubAnswer(_AwaitableAnswer, str):
    """The answer of a sub-call: a str. failed: whether it says why there is no answer."""

    __slots__ = ()

    failed = False


class AnswerList(_AwaitableAnswer, list[SubAnswer]):
    """The answers of several sub-calls."""


class Failure(SubAnswer):
    """Replaces an answer: "[failed: why]"."""

    __slots__ = ()

    failed = True


class Final(BaseException):
    """Ends the code once FINAL has sent the answer."""


def to_answer(reply: dict[str, Any]) -> SubAnswer:
    """Convert an answer from the engine: {"text", "failed"}."""
    text = str(reply["text"])
    if not reply["failed"]:
        return SubAnswer(text)
    return Failure(text if text.startswith("[failed") else f"[failed: {text}]")


def to_plain_str(text: str) -> str:
    """Return a string without its place."""
    return str.__getitem__(text, slice(None))


def find_span(value: str, text: str) -> tuple[int, int] | None:
    """Return where a string is in the text; None if that is unknown, because it is no piece of it
    and the text has it twice."""
    if isinstance(value, Piece):
        return value.start, value.end
    if len(value) == len(text):
        return (0, len(text)) if value == text else None
    if len(value) < FOUND_AGAIN:
        return None
    start = str.find(text, value)
    return (
        None if start < 0 or str.find(text, value, start + 1) >= 0 else (start, start + len(value))
    )


def find_spans(values: object) -> list[list[int]]:
    """Return where the pieces of a list are, without their trailing line breaks; empty if not all
    are pieces."""
    if (
        not isinstance(values, (list, tuple))
        or len(values) > MOST_SPANS
        or not all(isinstance(value, Piece) for value in values)
    ):
        return []
    return [[value.start, value.start + len(str.rstrip(value, "\n"))] for value in values]


_NEGATED = re.compile(r"\[\^(?:\\.|[^\]\\])*\]?", re.DOTALL)
_ACROSS = re.compile(r"\n|\\n|\[\\s\\S\]|\[\\S\\s\]|\(\?[aiLmux]*s")
"""Occurs in patterns that are meant to match more than one line."""

_MAY_CROSS = re.compile(r"\[\^|\\[sDWAZzBx0u\n]|\(\?(?!:|P<|[aiLm]+\))", re.DOTALL)
"""May match a line break or look beyond it, so that searching the whole text and searching line by
line differ."""

_LEADING = re.compile(r"((?:\(\?[aiLmu]+\))?)\^?\.\*(?![+*{])\??")
"""A start that does not affect which lines match, but makes the search try each line again from
every character."""


AROUND = 300
"""Characters before and after a match that `surroundings` includes."""


def compile_pattern(pattern: object) -> Pattern[str]:
    """Compile a pattern, so that ``^`` and ``$`` match at line ends. Raises ValueError for an
    invalid one, TypeError for other types."""
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
    """Yield start and end (without the line break) of each matching line, in order.

    A pattern that contains line breaks (``\\n``, ``[\\s\\S]``, ``(?s)``) matches across lines; all
    lines of a match are then one. A line break at the very end of the text does not start another
    line.
    """
    source = _NEGATED.sub("", pattern.pattern)
    if pattern.flags & re.DOTALL or _ACROSS.search(source):
        return _search_whole(text, pattern)
    if pattern.flags & re.VERBOSE or _MAY_CROSS.search(pattern.pattern):
        return _search_lines(text, pattern)
    if found := _LEADING.match(pattern.pattern):
        pattern = re.compile(found[1] + pattern.pattern[found.end() :], pattern.flags)
    return _search_whole(text, pattern)


def context_spans(
    text: str, pattern: Pattern[str], start: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield start and end of the text around each match in a line, merged if they touch; for lines
    that are too long to show."""
    low = high = -1
    for found in pattern.finditer(text, start, end):
        if high < 0 or found.start() - AROUND > high:
            if high >= 0:
                yield low, high
            low = max(start, found.start() - AROUND)
        high = min(end, found.end() + AROUND)
    if high >= 0:
        yield low, high


def find_line(text: str, offset: int) -> tuple[int, int]:
    """Return start and end of the line that contains a character."""
    end = text.find("\n", offset)
    return text.rfind("\n", 0, offset) + 1, len(text) if end < 0 else end


def extend_lines(text: str, start: int, end: int, lines: int) -> tuple[int, int]:
    """Extend a run of lines by so many lines before and after it, but not beyond one that is too
    long to show."""
    for _ in range(lines):
        before = text.rfind("\n", 0, max(0, start - 1)) + 1
        if start - before > LONG_LINE:
            break
        start = before
    for _ in range(lines):
        if end + 1 >= len(text):
            break
        after = find_line(text, end + 1)[1]
        if after - end > LONG_LINE:
            break
        end = after
    return start, end


def _search_whole(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    """Search the whole text at once, which is ten times as fast as by line if the pattern starts
    with plain characters."""
    offset = 0
    while offset < len(text):
        found = pattern.search(text, offset)
        if found is None:
            return
        start, end = find_line(text, found.start())
        if found.end() - 1 > end:
            end = find_line(text, found.end() - 1)[1]
        if start < len(text):
            yield start, end
        offset = end + 1


def _search_lines(text: str, pattern: Pattern[str]) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        if pattern.search(str.__getitem__(text, slice(start, end))):
            yield start, end
        start = end + 1


_HEAD = 16
_QUOTED = range(_HEAD, 2_001)
"""Lengths of parts that are looked for in an answer; shorter ones are in many answers by chance."""
_REMEMBERED = 5_000
_SHORTEST = 4
"""Characters of a quote that is looked for in the text."""
_SCANNED = 100_000_000
"""Characters of the text that are read for the quotes of one answer."""
_QUOTE = re.compile(
    r'"([^"\n]{4,2000})"|“([^“”\n]{4,2000})”|`([^`\n]{4,2000})`|(?<!\w)\'([^\'\n]{4,2000})\''
)
_MORE = r"(?:\s*(?:,|-|–|to|and)\s*\d{1,9})"
_NAMED = re.compile(rf"\b(?:line\s+(\d{{1,9}}{_MORE}*)|lines\s+(\d{{1,9}}{_MORE}+))", re.IGNORECASE)
"""\"lines 6000" counts lines; "lines 6000 and 6001" names them."""
_MOST_NAMED = 1_000
_DEEPEST_ANSWER = 4
"""Levels of lists in an answer that are looked through."""


class EvidenceFinder:
    """Remembers the latest parts that were given to the code."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._given: deque[Part] = deque(maxlen=_REMEMBERED)

    def remember(self, parts: Iterable[Part]) -> None:
        """Remember parts of the text that are given to the code."""
        self._given.extend(part for part in parts if len(part) in _QUOTED)

    def find(self, answer: object, words: str, numbered: bool) -> list[tuple[int, int]]:
        """Return the places on which an answer rests, in order.

        answer: as the code gave it, perhaps with pieces of the text in it. words: the answer as
        text. numbered: whether line numbers in it are those of the text.
        """
        pieces = list(_pieces(answer))
        known = {to_plain_str(piece) for piece in pieces}
        pieces += (
            part for part in self._quoted(words) if to_plain_str(part) not in known
        )  # a known one was taken elsewhere
        spans = {(piece.start, piece.end) for piece in pieces}
        spans.update(find_quotes(words, self._text))
        if numbered:
            spans.update(self._named(words))
        return sorted(spans)

    def _quoted(self, words: str) -> Iterator[Part]:
        """Yield the remembered parts that are in the words, which may be long: they are read once,
        not once for each part.

        Of parts with the same words from different places none is meant for certain, so they are
        left out.
        """
        sizes: defaultdict[str, set[int]] = defaultdict(set)
        given: dict[str, Part | None] = {}
        for part in self._given:
            sizes[str.__getitem__(part, slice(_HEAD))].add(len(part))
            before = given.setdefault(part, part)
            if before is not None and before.start != part.start:
                given[part] = None
        for start in range(len(words) - _HEAD + 1) if given else ():
            for size in sizes.get(words[start : start + _HEAD], ()):
                found = given.pop(words[start : start + size], None)
                if found is not None:
                    yield found

    def _named(self, words: str) -> Iterator[tuple[int, int]]:
        line, start = 1, 0
        for number in sorted(named_lines(words)):
            while 0 < line < number:
                start = str.find(self._text, "\n", start) + 1
                line = line + 1 if start else 0
            if line != number or start >= len(self._text):
                return
            end = str.find(self._text, "\n", start)
            yield start, len(self._text) if end < 0 else end


def find_quotes(words: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of what an answer quotes and the text has exactly once: the whole answer,
    its lines, and what is in quotation marks."""
    quotes = [
        words,
        *words.splitlines(),
        *(next(filter(None, found)) for found in _QUOTE.findall(words)),
    ]
    stripped = {quote.strip(" \t\n-*•") for quote in quotes}
    longest = sorted(
        (quote for quote in stripped if len(quote) >= _SHORTEST), key=len, reverse=True
    )
    for quote in longest[: _SCANNED // (len(text) + 1)]:
        start = str.find(text, quote)
        end = start + len(quote)
        if (
            start >= 0
            and str.find(text, quote, start + 1) < 0
            and not _within_word(text, start)
            and not _within_word(text, end)
        ):
            yield start, end


def named_lines(words: str) -> set[int]:
    """Return the numbers of the lines that an answer names."""
    named = (int(number) for run in _NAMED.finditer(words) for number in re.findall(r"\d+", run[0]))
    return {number for number in islice(named, _MOST_NAMED) if number}


def _within_word(text: str, offset: int) -> bool:
    """Whether a place is between two characters of the same word."""
    around = str.__getitem__(text, slice(offset - 1, offset + 1)) if offset else ""
    return len(around) == 2 and around.isalnum()


def _pieces(answer: object, depth: int = 0) -> Iterator[Piece]:
    """Yield the pieces of the text in an answer."""
    if isinstance(answer, Piece):
        yield answer
    elif isinstance(answer, (list, tuple, set, frozenset, dict)) and depth < _DEEPEST_ANSWER:
        for item in answer.values() if isinstance(answer, dict) else answer:
            yield from _pieces(item, depth + 1)
