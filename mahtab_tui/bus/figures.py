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
    MAX_SOURCE_END_CHARS,
    FigureSource,
    contains,
    find_token,
    fold,
    read_sources,
)
from mahtab_tui.bus.figure_tokens import ONLY_NUMBER, FigureToken, number_ranges, scan_figures
from mahtab_tui.bus.records import AnswerFigure

MAX_DIFFERENT_FIGURES = 300
_MAX_DERIVED = 40
"""Number of figures that occur nowhere for which a derivation and a near miss are looked for."""
_MAX_OPERANDS = 12
"""Figures from which others may follow together."""
_MAX_SCALARS = 8
"""Numbers up to which a source is short."""
_MAX_WHOLES = 60
"""Printed numbers of which others may be a part, and such parts."""
_MIN_SCALED = 1_000
"""Above this, a figure with decimals is probably written in thousands or millions."""
_MAX_GROUPS = 60
"""Short sources and printed rows from whose numbers others may follow."""
_NEARBY_SENTENCES = 3
"""A figure's sentence and those before it, whose figures it may be computed from."""
_CONTEXT_CHARS = 160
"""Characters before and after a figure that say what it is about."""
_MAX_LIST_CHARS = 320
"""Characters after a number in which a sentence may enumerate what it counts."""
_WORD_STEM_CHARS = 5
"""Characters by which words are compared, so that "cheapest" and "cheaper" are one."""

# The words around figures; the first patterns tell what an answer does not claim of the data.

_SENTENCE_END = re.compile(r"[.!?]\s|\n")
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
"""With the pattern before: a base such as in "per 100 people" or "100 cars more", which nobody
computes."""
_YEARLY = re.compile(r"\s(?:a|per|each)\s(?:year|month)\b|\s(?:annual|yearly|monthly)")
_TIMES = re.compile(r"[\s-](?:times|fold)\b", re.IGNORECASE)
_PART_OF = re.compile(r"\sof\s(?:the\s|these\s)?(\d{1,3})\b(?![.,]\d)")
_WHOLE_NUMBER = re.compile(r"\d{1,3}(?![\d.,'’_ ]*\d)(?!\s?(?:%|per))")
_REPRESENTATION = re.compile(r"<[^<>\n]{1,200}>|Figure\(\d+x\d+\)")
"""The representation of an object that has no value to name."""
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


def find_figures(
    answer: str, sources: Sequence[FigureSource], question: str, *, code: str = ""
) -> tuple[AnswerFigure, ...]:
    """Return the figures of an answer in order, each text once.

    Args:
        answer: The text whose figures are looked up.
        sources: The texts from which they may come, the oldest first.
        question: What was asked. Its numbers are a source, too, even if written as words.
        code: The code that ran or was proposed. Names that it contains are not reported as missing.
    """
    return _Search(answer, sources, question, fold(code)).figures()


def near_misses(figures: Iterable[AnswerFigure]) -> list[AnswerFigure]:
    """Return the figures that are nearly a printed one: most likely slips, worth a question."""
    return [figure for figure in figures if figure.near]


def names_no_value(answer: str, outputs: Sequence[str], question: str) -> bool:
    """Return whether an answer says nothing that the outputs show: no figure or word of theirs that
    the question does not have. An answer that denies something may do so."""
    if _NEGATIVE_ANSWER.search(answer[:MAX_SOURCE_END_CHARS]):
        return False
    output_words: set[str] = set()
    for output in outputs:
        output_words.update(_value_words(output))
    if not output_words:
        return False

    question_words = set(_value_words(question))
    sources = [FigureSource(1, output) for output in outputs]
    for figure in find_figures(answer, sources, ""):
        if figure.found and not question_words.issuperset(_value_words(figure.text)):
            return False
    if _YES.search(answer[:MAX_SOURCE_END_CHARS]) and not output_words.isdisjoint(_TRUTH_VALUES):
        return False
    answer_words = set(_value_words(answer))
    return output_words.isdisjoint(answer_words - question_words)


def _value_words(text: str) -> Iterator[str]:
    """Return the numbers of a text, and the stems of its words, that may be values."""
    values = _REPRESENTATION.sub("", text[:MAX_SOURCE_END_CHARS])
    for word in _VALUE_WORD.findall(values.casefold()):
        if word[0].isdecimal():
            yield word
        elif word not in _LABEL_WORDS:
            yield word[:_WORD_STEM_CHARS]


# Looking figures up


_Accepts = Callable[[float], bool]


class _StatedOperand(NamedTuple):
    """A figure of the answer from which others may follow."""

    start: int
    """Where it begins in the answer."""
    sentence: int
    """The number of its sentence, from 0."""
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
        self._sentence_ends = [match.end() for match in _SENTENCE_END.finditer(answer)]
        self._stated: list[_StatedOperand] = []
        """Numbers of the answer that were found or explained."""

    def figures(self) -> tuple[AnswerFigure, ...]:
        """Return the figures in order; of several with the same text, one that was found."""
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
        """Return each occurrence of a figure, with whether it is in a source."""
        looked_up: dict[tuple[str, str], AnswerFigure] = {}
        occurrences: list[tuple[FigureToken, AnswerFigure]] = []
        for token in scan_figures(self._answer):
            key = (token.text, token.hedge)
            if key not in looked_up:
                if len(looked_up) == MAX_DIFFERENT_FIGURES:
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
        return bisect_right(self._sentence_ends, token.start)

    def _explain(self, token: FigureToken) -> AnswerFigure | None:
        """Return a figure that occurs nowhere, with how it follows from others, or with the printed
        figure that it nearly equals; None if it claims nothing of the data, so that it need not be
        computed."""
        if self._is_not_claimed(token):
            return None
        figure = AnswerFigure(token.text, found=False)
        if not token.ranges:
            return figure

        # A slip is likelier than a derivation from figures far away.
        accepts = token.acceptor()
        basis = self._derive_nearby(token, accepts) or self._count(token)
        if not basis:
            near = self._near_miss(token)
            if near:
                return figure._replace(near=near)
            basis = self._derive_anywhere(token, accepts)
        if not basis:
            return figure
        self._add_operand(token)
        return figure._replace(found=True, basis=basis)

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

        # A year or a name may be what does not exist; a number counts what does.
        is_name = token.ranges is None or YEAR.fullmatch(token.text) is not None
        if is_name and _ABSENCE.search(sentence):
            return True
        is_base = _UNIT_BASE_BEFORE.search(before) or _UNIT_BASE_AFTER.match(after)
        return bool(is_base) and _POWER_OF_TEN.fullmatch(token.text) is not None

    def _sentence_start(self, token: FigureToken) -> int:
        sentence = self._sentence(token)
        return self._sentence_ends[sentence - 1] if sentence else 0

    def _derive_nearby(self, token: FigureToken, accepts: _Accepts) -> str:
        """Return how a figure follows from figures just before it, or from a printed table."""
        if basis := self._derive(token, self._nearby_operands(token), accepts):
            return basis
        for source in self._sources:
            for total in source.totals:
                if accepts(total.value):
                    return total.text
        earlier = [stated.operand for stated in self._stated if stated.start < token.start]
        summands = [operand for operand in earlier if not operand.is_percent]
        return derive_by_totals(summands[-_MAX_OPERANDS:], accepts)

    def _derive(self, token: FigureToken, operands: Sequence[Operand], accepts: _Accepts) -> str:
        after = self._answer[token.end : token.end + _CONTEXT_CHARS]
        if token.is_percent and _YEARLY.match(after):
            return derive_growth(operands, accepts)
        return derive_by_pairs(operands, accepts, **self._kind(token))

    def _nearby_operands(self, token: FigureToken) -> list[Operand]:
        """Return the figures of the question, of a figure's sentence, and of those before it."""
        sentence = self._sentence(token)
        operands = [
            stated.operand
            for stated in self._stated
            if sentence - _NEARBY_SENTENCES < stated.sentence <= sentence
        ]
        question_operands = self._sources[-1].operands
        if len(question_operands) <= _MAX_SCALARS:
            operands = [*question_operands, *operands]
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
        """The numbers of each short source, and of each row and column of the others."""
        groups: list[list[Operand]] = []
        for source in self._sources:
            if len(source.operands) <= _MAX_SCALARS:
                groups.append(source.operands)
            else:
                groups += source.operand_rows
                groups += source.operand_columns
        return [group for group in groups if 2 <= len(group) <= _MAX_OPERANDS][:_MAX_GROUPS]

    @cached_property
    def _wholes(self) -> list[Operand]:
        """What others may be a part of: the totals, and the numbers of short sources."""
        wholes: list[Operand] = []
        for source in self._sources:
            if len(source.operands) <= _MAX_SCALARS:
                wholes += source.operands
            wholes += source.totals
        return wholes[:_MAX_WHOLES]

    @cached_property
    def _parts(self) -> list[Operand]:
        """What may be a part of a whole: the totals, and the numbers of sources that have few."""
        parts: list[Operand] = []
        for source in self._sources:
            if len(source.operands) <= MAX_PARTS:
                parts += source.operands
            parts += source.totals
        return parts[:_MAX_WHOLES]

    def _kind(self, token: FigureToken) -> _Kind:
        """Return which arithmetic the text of a figure, and the words after it, suggest."""
        after = self._answer[token.end : token.end + _CONTEXT_CHARS]
        is_factor = token.text.endswith(("x", "×")) or _TIMES.match(after) is not None
        has_decimals = re.search(r"\d\.\d", token.text) is not None
        precision: Precision = "decimals" if has_decimals else "whole"
        if token.hedge or (has_decimals and token.value > _MIN_SCALED):
            precision = "rounded"
        is_large = token.value > _MIN_SCALED
        tries_ratios = token.is_percent or is_factor or is_large or precision != "whole"
        return _Kind(
            precision=precision, ratios=tries_ratios, percent=token.is_percent, factor=is_factor
        )

    def _count(self, token: FigureToken) -> str:
        """Return that a small whole number counts a list of the answer or of a source, such as
        "3 listed"; empty if there is none of this length."""
        number_match = _WHOLE_NUMBER.match(token.text)
        if number_match is None:
            return ""
        number = int(number_match[0])
        basis = f"{number} listed"

        text = self._answer[token.start : token.start + _MAX_LIST_CHARS]
        rest_of_sentence = _SENTENCE_END.split(text)[0]
        if number in self._list_sizes | enumerated_items(rest_of_sentence):
            return basis

        # A part of a list, or a place in it, may have been counted by reading.
        whole_match = _PART_OF.match(self._answer, token.end)
        whole = int(whole_match[1]) if whole_match else 0
        is_rank = token.text.endswith(("st", "nd", "rd", "th"))
        for source in self._sources:
            is_part = number < whole and whole in source.counts
            is_place = is_rank and number <= max(source.counts, default=0)
            if number in source.counts or is_part or is_place:
                return basis
        return ""

    @cached_property
    def _list_sizes(self) -> set[int]:
        """How many items the lists and tables of the answer have."""
        return list_sizes(self._answer)

    @cached_property
    def _printed_numbers(self) -> list[float]:
        numbers: set[float] = set()
        for source in self._sources:
            if source.printed:
                numbers.update(source.numbers)
        return sorted(numbers)

    def _near_miss(self, token: FigureToken) -> str:
        """Return the printed figure from which this one differs by a slip; empty if there is none."""
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
