"""Finds the lines of a text that have words of a query, which a search's first message shows."""

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
"""Only the beginning of a longer text is searched: a few hundredths of a second."""
_MIN_SEARCHED_CHARS = 2_000
"""Texts up to this many characters cost fewer tokens to read than to search."""
_MAX_QUERY_CHARS = 2_000
_MAX_QUERY_WORDS = 8
_MAX_TRIED_WORDS = 30
_MAX_EXCERPTS = 4
_MAX_EXCERPT_CHARS = 200
"""Characters of a line that are shown."""
_BEFORE_WORD_CHARS = 80
"""Characters of a longer line that are shown before its word of the query."""
_MAX_WORD_SHARE = 0.9
"""Words in a larger share of the lines are ignored."""
_MIN_SCORE_SHARE = 0.3
"""Share of the best line's score that another line needs to be shown."""
_MAX_RARE_LINES = 3
"""A word in more lines than this does not lead from one line to another."""
_MAX_PROSE_LINES = 2
"""Lines of prose shown if none has all words, besides those around the best one."""
_LINES_BEFORE = 2
"""Lines shown before the best one in prose."""

COMMON_WORDS = frozenset(
    "a about all an and any are as at be been by can did do does each for from had has have how in"
    " into is it its many more most much no not of on one or other out over some than that the their"
    " then there these they this to under up was were what when where which who whose why will with"
    " would you your answer list name names number such tell text find give line lines".split()
)
"""Words of queries, in lower case, that do not say what a query is about."""
_WORD_EDGES = " \t\n\r.,;:!?\"'()[]{}<>`*"


class NumberedLine(NamedTuple):
    """A line of a text."""

    number: int
    """The number of the line, from 1."""
    line: str


class QueryLines(NamedTuple):
    """Which lines of a text have words of a query."""

    words: Mapping[str, int]
    """Words of the query as the text writes them, with the number of lines that have each."""
    lines: int
    """The number of lines that have all of these words."""
    excerpts: tuple[NumberedLine, ...]
    """The lines with most words, rare ones first, and lines that these lead to. A long line is cut
    around its rarest word."""
    complete: bool = False
    """Whether a line has all words of the query."""


def find_query_lines(
    query: str, text: str, *, header: bool = False, ignored: Set[str] = frozenset()
) -> QueryLines:
    """Find the lines of a text that have words of a query.

    Args:
        query: the query.
        text: the text; of a long one, only the beginning is searched.
        header: whether the first line is the header of a table, which is left out.
        ignored: words of the query, in lower case, that are not searched.
    """
    text = text[:MAX_SEARCHED_CHARS]
    search_start = text.find("\n") + 1 if header else 0
    line_count = text.count("\n", search_start) + 1
    words = (word for word in _words(query[:_MAX_QUERY_CHARS]) if word.lower() not in ignored)
    query_words = list(islice(words, _MAX_TRIED_WORDS))
    starts_by_word = _find_words(query_words, text, search_start, line_count)
    if not starts_by_word:
        return QueryLines({}, 0, ())

    best_starts = _best_lines(starts_by_word, line_count)
    complete_starts = set.intersection(*map(set, starts_by_word.values()))
    excerpt_starts = set(best_starts)
    is_about_few_lines = len(complete_starts) <= _MAX_EXCERPTS
    if is_about_few_lines and not complete_starts and not header:
        # In prose, sentences go on in the next line.
        excerpt_starts = {*best_starts[:_MAX_PROSE_LINES], *_around(text, best_starts[0])}
    if is_about_few_lines:
        excerpt_starts |= _related(text, best_starts[0], set(starts_by_word), search_start)

    rare_first = sorted(starts_by_word, key=lambda word: len(starts_by_word[word]))
    excerpts: list[NumberedLine] = []
    for start in sorted(excerpt_starts):
        excerpt = _excerpt(_line(text, start).strip(), rare_first)
        if excerpt:
            excerpts.append(NumberedLine(text.count("\n", 0, start) + 1, excerpt))
    return QueryLines(
        {word: len(starts) for word, starts in starts_by_word.items()},
        len(complete_starts),
        tuple(excerpts),
        complete=bool(complete_starts) and len(starts_by_word) == len(query_words),
    )


def find_joint_words(words: Sequence[str], text: str) -> list[str]:
    """Return as many of these words as some lines of a text have together; of several sets of
    words, that of most lines. A single line is passed over, because it may have them by chance."""
    text = text[:MAX_SEARCHED_CHARS]
    words_by_start: defaultdict[int, set[str]] = defaultdict(set)
    for word in words:
        for start in _starts(word, text, 0):
            words_by_start[start].add(word)
    if not words_by_start:
        return []
    exact_counts = Counter(map(frozenset, words_by_start.values()))
    counts = {
        words: sum(count for others, count in exact_counts.items() if words <= others)
        for words in exact_counts
    }
    best = max(counts, key=lambda words: (counts[words] > 1, len(words), counts[words]))
    return [word for word in words if word in best]


def _find_words(
    query_words: Sequence[str], text: str, search_start: int, line_count: int
) -> dict[str, list[int]]:
    """Return the starts of the lines that have each word, by the word as the text writes it. Words
    in most of the lines are left out."""
    lower_text = text.lower()
    if len(lower_text) != len(text):  # letters may become two, and then places differ
        lower_text = ""

    starts_by_word: dict[str, list[int]] = {}
    for word in query_words:
        if len(starts_by_word) == _MAX_QUERY_WORDS:
            break
        written_word, starts = _find_word(word, text, lower_text, search_start)
        if starts and len(starts) < line_count * _MAX_WORD_SHARE:
            starts_by_word[written_word] = starts
    return starts_by_word


def _find_word(word: str, text: str, lower_text: str, search_start: int) -> tuple[str, list[int]]:
    """Return a word as the text writes it, and the starts of the lines that have it. If no line
    has it, any case and the singular count, too."""
    starts = list(_starts(word, text, search_start))
    if starts:
        return word, starts
    for variant in (word.lower(), word.lower().removesuffix("s")):
        starts = list(_starts(variant, lower_text, search_start))
        if starts:
            position = lower_text.find(variant, starts[0])
            return text[position : position + len(variant)], starts
    return word, []


def _best_lines(starts_by_word: Mapping[str, Sequence[int]], line_count: int) -> list[int]:
    """Return the starts of the best lines, the best first: a line is worth more the more words it
    has, and the rarer these are."""
    scores: defaultdict[int, float] = defaultdict(float)
    for starts in starts_by_word.values():
        for start in starts:
            scores[start] += math.log(1 + line_count / len(starts))
    ranked_starts = sorted(scores, key=lambda start: (-scores[start], start))[:_MAX_EXCERPTS]
    min_score = scores[ranked_starts[0]] * _MIN_SCORE_SHARE
    return [start for start in ranked_starts if scores[start] > min_score]


def _excerpt(line: str, words: Sequence[str]) -> str:
    """Cut a long line around the first of the words that it has, or else behind its beginning."""
    if len(line) <= _MAX_EXCERPT_CHARS:
        return line

    pattern = "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in words)
    positions = {
        match[0].lower(): match.start() for match in re.finditer(pattern, line, re.IGNORECASE)
    }
    position = 0
    for word in words:
        if word.lower() in positions:
            position = positions[word.lower()]
            break

    start = max(0, min(position - _BEFORE_WORD_CHARS, len(line) - _MAX_EXCERPT_CHARS))
    end = start + _MAX_EXCERPT_CHARS
    beginning = "…" if start else ""
    ending = "…" if end < len(line) else ""
    return f"{beginning}{line[start:end]}{ending}"


def _words(query: str) -> Iterator[str]:
    """Yield the words of a query that say what it is about."""
    yielded_words: set[str] = set()
    for token in query.split():
        word = re.sub(r"['’]s$", "", token.strip(_WORD_EDGES))
        if len(word) > 1 and word.lower() not in COMMON_WORDS and word not in yielded_words:
            yielded_words.add(word)
            yield word


def is_always_whole(word: str, text: str) -> bool:
    """Return whether no line has a word only within other words, as "12" in "4123"."""
    text = text[:MAX_SEARCHED_CHARS]
    return list(_starts(word, text, 0)) == list(_starts(word, text, 0, whole_words=False))


def _starts(word: str, text: str, search_start: int, *, whole_words: bool = True) -> Iterator[int]:
    """Yield the starts of the lines that have a word, in linear time.

    Args:
        word: the word.
        text: the text.
        search_start: where to begin.
        whole_words: whether the word must stand alone, not within another.
    """
    position = text.find(word, search_start)
    while position >= 0:
        end = position + len(word)
        stands_alone = not (
            _in_word(text[position - 1 : position]) or _in_word(text[end : end + 1])
        )
        if stands_alone or not whole_words:
            yield text.rfind("\n", 0, position) + 1
            end = text.find("\n", end)
            if end < 0:
                return
        position = text.find(word, end)


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _line(text: str, start: int) -> str:
    return text[slice(*find_line(text, start))]


def _around(text: str, start: int) -> set[int]:
    """Return the starts of a line, of the lines before it, and of the next one."""
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


def _related(text: str, best: int, query_words: set[str], search_start: int) -> set[int]:
    """Return the starts of lines that share a rare word with the best line: the next step of a question such as
    "where does the owner of badge 12 work?"."""
    related: dict[int, None] = {}
    for word in _words(_line(text, best)[:_MAX_EXCERPT_CHARS]):
        if word not in query_words:
            starts = list(_starts(word, text, search_start))
            if 1 < len(starts) <= _MAX_RARE_LINES:
                related |= dict.fromkeys(starts)
    return set(list(related)[:_MAX_EXCERPTS])


def is_better_searched(query: str, text: str) -> bool:
    """Return whether a text is better searched than read: one of its lines has all of a query's
    words."""
    if len(text) <= _MIN_SEARCHED_CHARS:
        return False
    question = query.partition(FORM)[0]
    return find_query_lines(question, text).complete
