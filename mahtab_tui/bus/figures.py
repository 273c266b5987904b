"""Finds the figures of an answer (numbers, ISO dates, quoted values), and the output, attachment,
code or words that each comes from. The patterns prefer silence to a false alarm."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypedDict

from mahtab_tui.bus.figure_arithmetic import (
    YEAR,
    Operand,
    Precision,
    derive_by_pairs,
    derive_by_totals,
    derive_growth,
    derive_part,
    enumerated_items,
    list_sizes,
    wrong_digits,
)
from mahtab_tui.bus.figure_sources import (
    MAX_PARTS,
    SOURCE_END,
    FigureSource,
    Source,
    contains,
    find_token,
    fold,
    read_sources,
)
from mahtab_tui.bus.figure_tokens import ONLY_NUMBER, FigureToken, number_ranges, scan_figures
from mahtab_tui.bus.records import AnswerFigure

MOST_DIFFERENT = 300
_MAX_DERIVED = 40
"""Number of figures that occur nowhere for which a derivation and a near miss are looked for."""
_MAX_OPERANDS = 12
"""Figures from which others may follow, in a part of an answer or in one source."""
_MAX_SCALARS = 8
"""Numbers up to which a source is short."""
_MAX_WHOLES = 60
_MIN_SCALED = 1_000
"""Above this, a figure with decimals is probably written in thousands or millions."""
_MAX_GROUPS = 60
"""Short sources and printed rows from whose numbers others may follow."""
_NEARBY_SENTENCES = 3
"""A figure's sentence and those before it, whose figures it may be computed from."""


def find_figures(
    answer: str, sources: Sequence[FigureSource], question: str, *, code: str = ""
) -> tuple[AnswerFigure, ...]:
    """Return the figures of an answer in order, each text once.

    Args:
        question: Its numbers count, and those that are written as words.
        code: Quoted names in it are not reported as missing, nor are identifiers.
    """
    return _Search(answer, sources, question, fold(code)).figures()


def near_misses(figures: Iterable[AnswerFigure]) -> list[AnswerFigure]:
    """Return the figures that are nearly a printed one: most likely slips, worth a question."""
    return [figure for figure in figures if figure.near]


def names_no_value(answer: str, outputs: Sequence[str], question: str) -> bool:
    """Return whether an answer from outputs has neither a figure nor a word of theirs that the
    question does not have. An answer that denies something rightly names none."""
    if _NEGATIVE_ANSWER.search(answer[:SOURCE_END]):
        return False
    sources = [FigureSource(1, output) for output in outputs]
    values = {word for source in sources for word in _value_words(Source(source).text)}
    if not values:
        return False
    figures = find_figures(answer, sources, "")
    asked = {*_value_words(question)}
    if any(figure.found and not asked.issuperset(_value_words(figure.text)) for figure in figures):
        return False
    if _YES.search(answer[:SOURCE_END]) and not values.isdisjoint(_TRUTH_VALUES):
        return False
    return values.isdisjoint({*_value_words(answer)} - asked)


def _value_words(text: str) -> Iterator[str]:
    """Return the words and numbers of a text that may be values."""
    words = _VALUE_WORD.findall(_REPRESENTATION.sub("", text[:SOURCE_END]).casefold())
    stems = (word if word[0].isdecimal() else word[:_WORD_STEM_CHARS] for word in words)
    return (stem for stem, word in zip(stems, words, strict=True) if word not in _LABEL_WORDS)


# Looking figures up


_Accepts = Callable[[float], bool]


class _StatedOperand(NamedTuple):
    start: int
    """Where it begins in the answer."""
    sentence: int
    operand: Operand


class _Kind(TypedDict):
    """Which results of arithmetic a figure may be, for `derive_by_pairs`."""

    precision: Precision
    ratios: bool
    percent: bool
    factor: bool


class _Search:
    """Looks up the figures of one answer."""

    def __init__(
        self, answer: str, sources: Sequence[FigureSource], question: str, names: str
    ) -> None:
        self._answer = answer
        self._names = names
        self._sources = read_sources(sources, question)
        self._ends = [match.end() for match in _SENTENCE_END.finditer(answer)]
        self._stated: list[_StatedOperand] = []
        """Numbers of the answer that were found, in order."""

    def figures(self) -> tuple[AnswerFigure, ...]:
        occurrences = self._look_up()
        missing = [token for token, figure in occurrences if not figure.found]
        explained: dict[int, AnswerFigure | None] = {}
        for token in missing[:_MAX_DERIVED]:
            explained[token.start] = self._explain(token)

        by_text: dict[str, AnswerFigure] = {}
        for token, figure in occurrences:
            final_figure = explained.get(token.start, figure)
            if final_figure is None:
                continue
            earlier = by_text.get(token.text)
            if earlier is None or (final_figure.found and not earlier.found):
                by_text[token.text] = final_figure
        return tuple(by_text.values())

    def _look_up(self) -> list[tuple[FigureToken, AnswerFigure]]:
        """Return the figures with whether each occurs in a source."""
        looked_up: dict[tuple[str, str], AnswerFigure] = {}
        occurrences: list[tuple[FigureToken, AnswerFigure]] = []
        for token in scan_figures(self._answer):
            key = (token.text, token.hedge)
            if key not in looked_up:
                if len(looked_up) == MOST_DIFFERENT:
                    break
                looked_up[key] = AnswerFigure(token.text, *find_token(token, self._sources))
            figure = looked_up[key]
            if figure.found:
                self._add_operand(token)
            if figure.found or not self._is_name(token):
                occurrences.append((token, figure))
        return occurrences

    def _is_name(self, token: FigureToken) -> bool:
        """Return whether a quoted text is rather a name in code than a value."""
        quoted = token.quoted
        return bool(quoted) and (quoted.isidentifier() or fold(quoted) in self._names)

    def _add_operand(self, token: FigureToken) -> None:
        if token.ranges:
            operand = Operand(token.value, token.text)
            self._stated.append(_StatedOperand(token.start, self._sentence(token), operand))

    def _sentence(self, token: FigureToken) -> int:
        return bisect_right(self._ends, token.start)

    def _explain(self, token: FigureToken) -> AnswerFigure | None:
        """Return what is known of a figure that occurs nowhere: how it follows from others, or
        which printed figure it nearly equals; None if it is not to be looked up, because it says
        what does not exist, or what is true of other data."""
        if self._is_not_claimed(token):
            return None
        figure = AnswerFigure(token.text, found=False)
        if not token.ranges:
            return figure
        accepts = token.acceptor()
        basis = self._derive_nearby(token, accepts) or self._count(token)
        near = "" if basis else self._near_miss(token)
        if near:
            return figure._replace(near=near)
        basis = basis or self._derive_anywhere(token, accepts)
        if basis:
            self._add_operand(token)
            return figure._replace(found=True, basis=basis)
        return figure

    def _is_not_claimed(self, token: FigureToken) -> bool:
        """Return whether a figure is denied, offered, or no statement about this data."""
        before = self._answer[max(0, token.start - _CONTEXT_CHARS) : token.start]
        after = self._answer[token.end : token.end + _CONTEXT_CHARS]
        if _NEGATION_BEFORE.search(before) and not _DEFINITE.search(before):
            return True
        if _OFFER.match(self._answer, self._sentence_start(token)):
            return True
        sentence = _SENTENCE_END.split(before)[-1] + token.text + _SENTENCE_END.split(after)[0]
        if _GENERAL.search(sentence):
            return True

        # A year or a name may be what is missing; a number counts what is.
        is_name = token.ranges is None or YEAR.fullmatch(token.text) is not None
        if is_name and _ABSENCE.search(sentence):
            return True
        is_base = _UNIT_BASE_BEFORE.search(before) or _UNIT_BASE_AFTER.match(after)
        return bool(is_base) and _POWER_OF_TEN.fullmatch(token.text) is not None

    def _sentence_start(self, token: FigureToken) -> int:
        sentence = self._sentence(token)
        return self._ends[sentence - 1] if sentence else 0

    def _derive_nearby(self, token: FigureToken, accepts: _Accepts) -> str:
        """Return how a figure follows from figures just before it, or from a printed column."""
        nearby = self._nearby_operands(token)
        if basis := self._derive(token, nearby, accepts):
            return basis
        totals = (total for source in self._sources for total in source.totals)
        if basis := next((total.text for total in totals if accepts(total.value)), ""):
            return basis
        earlier = [stated.operand for stated in self._stated if stated.start < token.start]
        summands = [operand for operand in earlier if not operand.is_percent]
        return derive_by_totals(summands[-_MAX_OPERANDS:], accepts)

    def _derive(self, token: FigureToken, operands: Sequence[Operand], accepts: _Accepts) -> str:
        after = self._answer[token.end : token.end + _CONTEXT_CHARS]
        if token.is_percent and _YEARLY.match(after):
            return derive_growth(operands, accepts)
        return derive_by_pairs(operands, accepts, **self._kind(token))

    def _nearby_operands(self, token: FigureToken) -> list[Operand]:
        """Return the figures of a figure's sentence, of those before it, and of the question."""
        sentence = self._sentence(token)
        operands = [
            stated.operand
            for stated in self._stated
            if sentence - _NEARBY_SENTENCES < stated.sentence <= sentence
        ]
        asked = self._sources[-1].operands
        if len(asked) <= _MAX_SCALARS:
            operands = [*asked, *operands]
        return list(dict.fromkeys(operands))[-_MAX_OPERANDS:]

    def _derive_anywhere(self, token: FigureToken, accepts: _Accepts) -> str:
        """Return how a figure follows from figures of the whole answer, of a short source or of a
        printed row, or as a part of a printed whole."""
        nearby = self._nearby_operands(token)
        stated = list(dict.fromkeys(stated.operand for stated in self._stated))
        groups = [stated] if len(stated) <= _MAX_OPERANDS else []
        groups += self._printed_groups
        groups += [[operand, whole] for operand in nearby for whole in self._wholes]
        for operands in groups:
            if basis := self._derive(token, operands, accepts):
                return basis

        for whole in self._wholes:
            for part in self._parts:
                if basis := derive_part(part, whole, accepts, percent=token.is_percent):
                    return basis
        return ""

    @cached_property
    def _printed_groups(self) -> list[list[Operand]]:
        """The numbers of each short source, and of each row of the others."""
        groups: list[list[Operand]] = []
        for source in self._sources:
            is_short = len(source.operands) <= _MAX_SCALARS
            tables = [*source.operand_rows, *source.operand_columns]
            groups += [source.operands] if is_short else tables
        return [group for group in groups if 2 <= len(group) <= _MAX_OPERANDS][:_MAX_GROUPS]

    @cached_property
    def _wholes(self) -> list[Operand]:
        """What others may be a part of: the totals, and the numbers of short sources."""
        wholes: list[Operand] = []
        for source in self._sources:
            is_short = len(source.operands) <= _MAX_SCALARS
            wholes += [*(source.operands if is_short else ()), *source.totals]
        return wholes[:_MAX_WHOLES]

    @cached_property
    def _parts(self) -> list[Operand]:
        parts: list[Operand] = []
        for source in self._sources:
            parts += source.operands if len(source.operands) <= MAX_PARTS else ()
            parts += source.totals
        return parts[:_MAX_WHOLES]

    def _kind(self, token: FigureToken) -> _Kind:
        after = self._answer[token.end : token.end + _CONTEXT_CHARS]
        is_factor = token.text.endswith(("x", "×")) or _TIMES.match(after) is not None
        has_decimals = re.search(r"\d\.\d", token.text) is not None
        precision: Precision = "decimals" if has_decimals else "whole"
        if token.hedge or (has_decimals and token.value > _MIN_SCALED):
            precision = "rounded"
        return _Kind(
            precision=precision,
            ratios=token.is_percent
            or is_factor
            or precision != "whole"
            or token.value > _MIN_SCALED,
            percent=token.is_percent,
            factor=is_factor,
        )

    def _count(self, token: FigureToken) -> str:
        """Return which list a small whole number counts, of the answer or of a source."""
        whole = _WHOLE_NUMBER.match(token.text)
        if whole is None:
            return ""
        number = int(whole[0])
        sentence = self._answer[token.start : token.start + _CONTEXT_CHARS * 2]
        enumerated = enumerated_items(_SENTENCE_END.split(sentence)[0])
        if number in self._list_sizes | enumerated:
            return f"{number} listed"
        # Of a list of known length, a part may have been counted by reading.
        whole = _PART_OF.match(self._answer, token.end)
        is_rank = token.text.endswith(("st", "nd", "rd", "th"))
        for source in self._sources:
            is_part = whole is not None and number < int(whole[1]) in source.counts
            is_place = is_rank and number <= max(source.counts, default=0)
            if number in source.counts or is_part or is_place:
                return f"{number} listed"
        return ""

    @cached_property
    def _list_sizes(self) -> set[int]:
        return list_sizes(self._answer)

    @cached_property
    def _printed_numbers(self) -> list[float]:
        numbers: set[float] = set()
        for source in self._sources:
            if source.printed:
                numbers.update(source.numbers)
        return sorted(numbers)

    def _near_miss(self, token: FigureToken) -> str:
        if YEAR.fullmatch(token.text) or token.hedge:
            return ""
        for text in wrong_digits(token.text):
            match = ONLY_NUMBER.fullmatch(text)
            if match is None:
                continue
            ranges = number_ranges(match, "")
            if any(contains(self._printed_numbers, *candidate) for candidate in ranges):
                return text
        return ""


# What an answer does not claim of the data

_SENTENCE_END = re.compile(r"[.!?]\s|\n")
_CONTEXT_CHARS = 160
"""Characters before and after a figure that say what it is about."""
_NEGATION_BEFORE = re.compile(
    r"\b(?:no|none|neither|nor|never|nobody|nothing|without"
    r"|(?:not|\w+n['’]t)\b[^.,;:!?\n()]{0,30}\b(?:any|a\ssingle))\b"
    r"(?!\s(?:more|less|fewer|later|earlier)\sthan)[^.,;:!?\n()]{0,60}$",
    re.IGNORECASE,
)
_DEFINITE = re.compile(r"\b(?:the|all|these|those)\s\W{0,2}$", re.IGNORECASE)
"""Stands before the count of a whole, as in "none of the 406"."""
_ABSENCE = re.compile(
    r"\b(?:no|not|none|never|without|missing|absent|lacks?|except|excluding|jumps?|skips?|gaps?)\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"[\s>*-]{0,9}(?:if\syou\s(?:want|wish|like|prefer|need)|would\syou|shall\si|should\si|do\syou\swant|want\sme|i\sc(?:an|ould)"
    r"|you\sc(?:an|ould)|let\sme\sknow)\b",
    re.IGNORECASE,
)
_GENERAL = re.compile(
    r"\b(?:rules?\sof\sthumb|as\sa\srule|by\sconvention|conventional(?:ly)?|textbook|cut-?off"
    r"|customar(?:y|ily))\b",
    re.IGNORECASE,
)
"""Says that a figure is true in general."""
_POWER_OF_TEN = re.compile(r"10[0,]*\s?%?|100\s?per\s?cent")
_UNIT_BASE_BEFORE = re.compile(r"\b(?:per|every|each)\s\W{0,2}$", re.IGNORECASE)
_UNIT_BASE_AFTER = re.compile(r"\s\w{1,20}\s(?:more|less|fewer|extra)\b", re.IGNORECASE)
_YEARLY = re.compile(r"\s(?:a|per|each)\s(?:year|month)\b|\s(?:annual|yearly|monthly)")
_TIMES = re.compile(r"[\s-](?:times|fold)\b", re.IGNORECASE)
_PART_OF = re.compile(r"\sof\s(?:the\s|these\s)?(\d{1,3})\b(?![.,]\d)")
_WHOLE_NUMBER = re.compile(r"\d{1,3}(?![\d.,'’_ ]*\d)(?!\s?(?:%|per))")
_REPRESENTATION = re.compile(r"<[^<>\n]{1,200}>|Figure\(\d+x\d+\)")
"""Of an object that has no value to name."""
_WORD_STEM_CHARS = 5
_VALUE_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d_][^\W_]{2,40}")
_LABEL_WORDS = frozenset(
    "name dtype count mean median std min max int32 int64 float32 float64 object str bool length"
    " rows columns row column index datetime64 nan the and are for has have was were with that this"
    " there from all".split()
)
"""Words that pandas writes beside values, and those of any sentence."""
_TRUTH_VALUES = ("true", "false")
_YES = re.compile(r"\byes\b", re.IGNORECASE)
_NEGATIVE_ANSWER = re.compile(
    r"\b(?:no|not|none|nothing|cannot|never|without)\b|n['’]t\b", re.IGNORECASE
)
