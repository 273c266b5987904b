"""Finds the lines of a text that have words of a query. The first message of a search shows some of
them.

A line is known by where it starts in the text, as an index of its first character.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import NamedTuple

from mahtab_tui.worker.rlm.answers import FORM
from mahtab_tui.worker.sandbox.line_search import find_line

MAX_SEARCHED_CHARS = 5_000_000
"""Only this many characters at the beginning of a text are searched, which takes a few hundredths of a
second."""
_MIN_SEARCHED_CHARS = 2_000
"""Texts up to this many characters cost fewer tokens to read than to search."""
_MAX_QUERY_CHARS = 2_000
"""Words are taken from this many characters at the beginning of a query."""
_MAX_TRIED_WORDS = 30
"""At most this many words of a query are looked for."""
_MAX_QUERY_WORDS = 8
"""No further words are looked for when the text has this many."""
_MAX_EXCERPTS = 4
_MAX_EXCERPT_CHARS = 200
"""At most this many characters of a line are shown."""
_BEFORE_WORD_CHARS = 80
"""Of a longer line, this many characters are shown before its word of the query."""
_MAX_WORD_SHARE = 0.9
"""Words in a larger share of the lines are ignored."""
_MIN_SCORE_SHARE = 0.3
"""A line is shown if its score is more than this share of the best line's score."""
_MAX_RARE_LINES = 3
"""A word in more lines than this does not lead from one line to another."""
_MAX_PROSE_LINES = 2
"""If no line of prose has all words, this many of the best lines are shown."""
_LINES_BEFORE = 2
"""Lines that are shown before the best line of prose."""

COMMON_WORDS = frozenset(
    "a about all an and any are as at be been by can did do does each for from had has have how in"
    " into is it its many more most much no not of on one or other out over some than that the their"
    " then there these they this to under up was were what when where which who whose why will with"
    " would you your answer list name names number such tell text find give line lines".split()
)
"""Words of queries, in lower case, that do not say what a query is about."""
_PUNCTUATION = " \t\n\r.,;:!?\"'()[]{}<>`*"


class NumberedLine(NamedTuple):
    """A line of a text, or a part of a long one."""

    number: int
    """The number of the line, from 1."""
    line: str


class QueryLines(NamedTuple):
    """Which lines of a text have words of a query."""

    words: Mapping[str, int]
    """The number of lines that have each word of the query, by the word as the text writes it."""
    complete_line_count: int
    """The number of lines that have all of these words."""
    excerpts: tuple[NumberedLine, ...]
    """The lines with the most words, where rare words count more, and lines to which these lead. A long
    line is cut around its rarest word."""
    has_whole_query: bool = False
    """Whether a line has all words of the query, also counting words that no line has. It is False if a
    word is in almost all lines (`_MAX_WORD_SHARE`), and if there are more words than are looked for
    (`_MAX_QUERY_WORDS`)."""


class _FoundWord(NamedTuple):
    """A word of a query that a text has."""

    written: str
    """The word as the text writes it."""
    starts: list[int]
    """The starts of the lines that have it, in ascending order."""


def find_query_lines(
    query: str, text: str, *, header: bool = False, ignored: Set[str] = frozenset()
) -> QueryLines:
    """Find the lines of a text that have words of a query.

    Args:
        query: The query.
        text: The text; of a long one, only the beginning is searched.
        header: Whether the first line is the header of a table, which is left out.
        ignored: Words of the query, in lower case, that are not looked for.
    """
    text = text[:MAX_SEARCHED_CHARS]
    search_start = text.find("\n") + 1 if header else 0
    line_count = text.count("\n", search_start) + 1
    searched_words = (
        word for word in _telling_words(query[:_MAX_QUERY_CHARS]) if word.lower() not in ignored
    )
    query_words = list(islice(searched_words, _MAX_TRIED_WORDS))
    found_words = _find_words(query_words, text, search_start, line_count)
    # Several words of the query may be one in the text.
    starts_by_word = {word.written: word.starts for word in found_words}
    if not starts_by_word:
        return QueryLines({}, 0, ())

    best_starts = _best_lines(starts_by_word, line_count)
    complete_starts = set.intersection(*map(set, starts_by_word.values()))
    excerpt_starts = set(best_starts)
    is_about_few_lines = len(complete_starts) <= _MAX_EXCERPTS
    if is_about_few_lines and not complete_starts and not header:
        # In prose, a sentence goes on in the next line.
        excerpt_starts = {*best_starts[:_MAX_PROSE_LINES], *_lines_around(text, best_starts[0])}
    if is_about_few_lines:
        excerpt_starts |= _related_lines(text, best_starts[0], set(starts_by_word), search_start)

    rarest_first = sorted(starts_by_word, key=lambda word: len(starts_by_word[word]))
    excerpts: list[NumberedLine] = []
    for start in sorted(excerpt_starts):
        excerpt = _excerpt(_line_at(text, start).strip(), rarest_first)
        if excerpt:
            line_number = text.count("\n", 0, start) + 1
            excerpts.append(NumberedLine(line_number, excerpt))
    return QueryLines(
        {word: len(starts) for word, starts in starts_by_word.items()},
        len(complete_starts),
        tuple(excerpts),
        has_whole_query=bool(complete_starts) and len(found_words) == len(query_words),
    )


def is_better_searched(query: str, text: str) -> bool:
    """Return whether a text is better searched than read: one of its lines has all of a query's words.

    It is not known of a query with a word that is in almost all lines, or with more words than are looked
    for. Then the text is read.
    """
    if len(text) <= _MIN_SEARCHED_CHARS:
        return False
    question = query.partition(FORM)[0]
    return find_query_lines(question, text).has_whole_query


def find_joint_words(words: Sequence[str], text: str) -> list[str]:
    """Return as many of some words as possible that several lines of a text have together.

    Of several sets with as many words, the words that most lines have are returned. A set that only
    a single line has counts least, because the line may have it by chance.

    Args:
        words: The words, as the text writes them.
        text: The text; of a long one, only the beginning is searched.
    """
    text = text[:MAX_SEARCHED_CHARS]
    words_by_start: defaultdict[int, set[str]] = defaultdict(set)
    for word in words:
        for start in _starts_of_lines_with(word, text, 0):
            words_by_start[start].add(word)
    if not words_by_start:
        return []

    lines_with_exactly = Counter(map(frozenset, words_by_start.values()))
    line_counts: dict[frozenset[str], int] = {}
    for word_set in lines_with_exactly:
        line_counts[word_set] = sum(
            count for other_set, count in lines_with_exactly.items() if word_set <= other_set
        )

    def quality(word_set: frozenset[str]) -> tuple[bool, int, int]:
        return line_counts[word_set] > 1, len(word_set), line_counts[word_set]

    best_set = max(line_counts, key=quality)
    return [word for word in words if word in best_set]


# Words


def _telling_words(text: str) -> Iterator[str]:
    """Yield the words of a text that say what it is about, each once."""
    yielded_words: set[str] = set()
    for token in text.split():
        word = re.sub(r"['’]s$", "", token.strip(_PUNCTUATION))
        if len(word) > 1 and word.lower() not in COMMON_WORDS and word not in yielded_words:
            yielded_words.add(word)
            yield word


def _find_words(
    query_words: Sequence[str], text: str, search_start: int, line_count: int
) -> list[_FoundWord]:
    """Return the words of a query that lines have, without those that most of the lines have.

    Args:
        query_words: The words of the query.
        text: The text.
        search_start: The index of the first character that is searched.
        line_count: The number of lines that are searched.
    """
    lower_text = text.lower()
    if len(lower_text) != len(text):
        # A letter has become two, so places in both texts differ.
        lower_text = ""

    found_words: list[_FoundWord] = []
    for word in query_words:
        if len({query_word.written for query_word in found_words}) == _MAX_QUERY_WORDS:
            break
        found_word = _find_word(word, text, lower_text, search_start)
        if found_word.starts and len(found_word.starts) < line_count * _MAX_WORD_SHARE:
            found_words.append(found_word)
    return found_words


def _find_word(word: str, text: str, lower_text: str, search_start: int) -> _FoundWord:
    """Return a word as the text writes it, and the lines that have it.

    If no line has the word as it is, it may be written in any case, or in the singular.
    """
    starts = list(_starts_of_lines_with(word, text, search_start))
    if starts:
        return _FoundWord(word, starts)
    lower_word = word.lower()
    for variant in (lower_word, lower_word.removesuffix("s")):
        starts = list(_starts_of_lines_with(variant, lower_text, search_start))
        if starts:
            first_place = re.compile(_whole_word(variant)).search(lower_text, starts[0])
            written_word = text[slice(*first_place.span())] if first_place else variant
            return _FoundWord(written_word, starts)
    return _FoundWord(word, [])


def _whole_word(word: str) -> str:
    """Return a pattern for a word that stands alone, not within another."""
    return rf"(?<!\w){re.escape(word)}(?!\w)"


def is_always_whole(word: str, text: str) -> bool:
    """Return whether no line has a word only within other words, as "12" in "4123"."""
    text = text[:MAX_SEARCHED_CHARS]
    whole_starts = list(_starts_of_lines_with(word, text, 0))
    return whole_starts == list(_starts_of_lines_with(word, text, 0, whole_words=False))


def _starts_of_lines_with(
    word: str, text: str, search_start: int, *, whole_words: bool = True
) -> Iterator[int]:
    """Yield the starts of the lines that have a word, in ascending order and in linear time.

    Args:
        word: The word.
        text: The text.
        search_start: The index of the first character that is searched.
        whole_words: Whether the word must stand alone, not within another.
    """
    position = text.find(word, search_start)
    while position >= 0:
        end = position + len(word)
        is_within_word = _is_in_word(text[position - 1 : position]) or _is_in_word(
            text[end : end + 1]
        )
        if not (whole_words and is_within_word):
            yield text.rfind("\n", 0, position) + 1
            # Go on in the next line.
            end = text.find("\n", end)
            if end < 0:
                return
        position = text.find(word, end)


def _is_in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


# Lines


def _best_lines(starts_by_word: Mapping[str, Sequence[int]], line_count: int) -> list[int]:
    """Return the starts of the best lines, the best first.

    A line is the better, the more words it has, and the rarer these are.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for starts in starts_by_word.values():
        rarity = math.log(1 + line_count / len(starts))
        for start in starts:
            scores[start] += rarity
    ranked_starts = sorted(scores, key=lambda start: (-scores[start], start))[:_MAX_EXCERPTS]
    min_score = scores[ranked_starts[0]] * _MIN_SCORE_SHARE
    return [start for start in ranked_starts if scores[start] > min_score]


def _lines_around(text: str, start: int) -> set[int]:
    """Return the starts of a line, of a few lines before it, and of the next one."""
    starts = {start}
    previous_start = start
    for _ in range(_LINES_BEFORE):
        if previous_start:
            previous_start = text.rfind("\n", 0, previous_start - 1) + 1
            starts.add(previous_start)
    next_start = text.find("\n", start) + 1
    if next_start:
        starts.add(next_start)
    return starts


def _related_lines(
    text: str, best_start: int, query_words: Set[str], search_start: int
) -> set[int]:
    """Return the starts of lines that share a rare word with the best line.

    They may be the next step of a question such as "where does the owner of badge 12 work?".

    Args:
        text: The text.
        best_start: The start of the best line.
        query_words: The words of the query, which do not count.
        search_start: The index of the first character that is searched.
    """
    related_starts: dict[int, None] = {}
    for word in _telling_words(_line_at(text, best_start)[:_MAX_EXCERPT_CHARS]):
        if word in query_words:
            continue
        starts = list(_starts_of_lines_with(word, text, search_start))
        if 1 < len(starts) <= _MAX_RARE_LINES:
            related_starts |= dict.fromkeys(starts)
    return set(list(related_starts)[:_MAX_EXCERPTS])


def _line_at(text: str, start: int) -> str:
    """Return the line that starts at an index."""
    return text[slice(*find_line(text, start))]


def _excerpt(line: str, words: Sequence[str]) -> str:
    """Return a line, of which a long one is cut around a word.

    Args:
        line: The line.
        words: The first of these words that the line has is the one. If it has none, the beginning
            of the line is returned.
    """
    if len(line) <= _MAX_EXCERPT_CHARS:
        return line

    any_word = "|".join(map(_whole_word, words))
    last_positions = {
        match[0].lower(): match.start() for match in re.finditer(any_word, line, re.IGNORECASE)
    }
    position = 0
    for word in words:
        if word.lower() in last_positions:
            position = last_positions[word.lower()]
            break

    start = max(0, min(position - _BEFORE_WORD_CHARS, len(line) - _MAX_EXCERPT_CHARS))
    end = start + _MAX_EXCERPT_CHARS
    beginning = "…" if start else ""
    ending = "…" if end < len(line) else ""
    return f"{beginning}{line[start:end]}{ending}"
