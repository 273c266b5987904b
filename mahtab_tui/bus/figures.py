"""Finds the figures of an answer (numbers, ISO dates, quoted values), and the output, attachment,
code or words that each comes from. A false alarm is worse than silence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from mahtab_tui.bus.figure_arithmetic import (
    YEAR,
    FigureForm,
    Operand,
    Precision,
    derive_by_pairs,
    derive_by_totals,
    derive_growth,
    derive_part,
)
from mahtab_tui.bus.figure_context import FigureContext
from mahtab_tui.bus.figure_lists import enumerated_items, list_sizes
from mahtab_tui.bus.figure_search import find_token
from mahtab_tui.bus.figure_slips import wrong_digits
from mahtab_tui.bus.figure_sources import MAX_PARTS, FigureSource, contains, normalize, read_sources
from mahtab_tui.bus.figure_tokens import ONLY_NUMBER, FigureToken, number_ranges, scan_figures
from mahtab_tui.bus.records import AnswerFigure

MAX_DIFFERENT_FIGURES = 300
"""Maximum number of different figures of an answer that are looked up."""
_MAX_DERIVED = 40
"""Maximum number of missing figures for which a derivation or a near miss is looked for."""
_MAX_OPERANDS = 12
"""Maximum number of figures that are combined in pairs, or added up, to derive another."""
_MAX_SCALARS = 8
"""Maximum number of different numbers in a short source."""
_MAX_WHOLES = 60
"""At most this many wholes and parts are tried for a figure that may be a share."""
_MIN_SCALED = 1_000
"""Above this, a figure with decimals is probably written in thousands or millions."""
_MAX_GROUPS = 60
"""Maximum number of short sources and printed rows from whose numbers a figure may follow."""
_NEARBY_SENTENCES = 3
"""How many sentences are nearby: that of a figure, and those before it."""
_SMALL_NUMBER = re.compile(r"\d{1,3}(?![\d.,'’_ ]*\d)(?!\s?(?:%|per))")
"""A whole number that may count something, without a unit."""

_Accepts = Callable[[float], bool]
"""Returns whether a computed value, rounded, is the figure in question."""


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
    return _FigureLookup(answer, sources, question, normalize(code)).figures()


def near_misses(figures: Iterable[AnswerFigure]) -> list[AnswerFigure]:
    """Return the figures that are nearly a printed one: probably slips, about which the model is
    asked."""
    return [figure for figure in figures if figure.near]


class _StatedOperand(NamedTuple):
    """A figure of the answer from which others may follow."""

    start: int
    """Where it begins in the answer."""
    sentence: int
    """The number of its sentence, from 0."""
    operand: Operand


class _FigureLookup:
    """Looks up the figures of one answer."""

    def __init__(
        self, answer: str, sources: Sequence[FigureSource], question: str, normalized_code: str
    ) -> None:
        self._answer = answer
        self._normalized_code = normalized_code
        self._sources = read_sources(sources, question)
        self._context = FigureContext(answer)
        self._stated: list[_StatedOperand] = []
        """Numbers of the answer that are in a source or follow from others."""

    def figures(self) -> tuple[AnswerFigure, ...]:
        """Return the figures in order; of several with the same text, one that was found."""
        occurrences = self._look_up()
        missing = [token for token, figure in occurrences if not figure.has_source]
        # By position. None: the figure claims nothing about the data, and is left out.
        explained: dict[int, AnswerFigure | None] = {}
        for token in missing[:_MAX_DERIVED]:
            explained[token.start] = self._explain(token)

        by_text: dict[str, AnswerFigure] = {}
        for token, figure in occurrences:
            final_figure = explained.get(token.start, figure)
            if final_figure is None:
                continue
            earlier = by_text.get(token.text)
            if earlier is None or (final_figure.has_source and not earlier.has_source):
                by_text[token.text] = final_figure
        return tuple(by_text.values())

    def _look_up(self) -> list[tuple[FigureToken, AnswerFigure]]:
        """Return each occurrence of a figure, and which source it is in.

        Names in code are left out.
        """
        looked_up: dict[tuple[str, str], AnswerFigure] = {}
        occurrences: list[tuple[FigureToken, AnswerFigure]] = []
        for token in scan_figures(self._answer):
            key = (token.text, token.hedge)
            if key not in looked_up:
                if len(looked_up) == MAX_DIFFERENT_FIGURES:
                    break
                looked_up[key] = AnswerFigure(token.text, *find_token(token, self._sources))
            figure = looked_up[key]
            if figure.has_source:
                self._add_operand(token)
            if figure.has_source or not self._is_name(token):
                occurrences.append((token, figure))
        return occurrences

    def _is_name(self, token: FigureToken) -> bool:
        """Return whether a quoted text is a name, or from the code, rather than a value."""
        quoted = token.quoted
        return bool(quoted) and (
            quoted.isidentifier() or normalize(quoted) in self._normalized_code
        )

    def _add_operand(self, token: FigureToken) -> None:
        """Note a number from which other figures of the answer may follow."""
        if token.ranges:
            operand = Operand(token.value, token.text)
            self._stated.append(_StatedOperand(token.start, self._context.sentence(token), operand))

    def _explain(self, token: FigureToken) -> AnswerFigure | None:
        """Explain a figure that is in no source: how it follows from others, or which printed figure
        it nearly equals. Return None if it claims nothing about the data, so that it need not be
        computed."""
        if not self._context.is_claimed(token):
            return None
        figure = AnswerFigure(token.text, found=False)
        if not token.ranges:
            return figure

        # A near miss is looked for before the derivations from distant figures: among so many
        # numbers, one of them gives almost any figure by chance.
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

    def _derive_nearby(self, token: FigureToken, accepts: _Accepts) -> str:
        """Return how a figure follows from figures just before it, or from a printed table.

        Empty if it does not.
        """
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
        """Return how a figure follows from two of these operands; empty if it does not."""
        if token.is_percent and self._context.is_yearly(token):
            return derive_growth(operands, accepts)
        return derive_by_pairs(operands, accepts, self._form_of(token))

    def _nearby_operands(self, token: FigureToken) -> list[Operand]:
        """Return the numbers of the question, if they are few, and those of the nearby
        sentences."""
        sentence = self._context.sentence(token)
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
        printed row, or as a share of a printed whole; empty if it does not."""
        nearby = self._nearby_operands(token)
        stated = list(dict.fromkeys(stated.operand for stated in self._stated))
        groups = [stated] if len(stated) <= _MAX_OPERANDS else []
        groups += self._printed_groups
        groups += [[operand, total] for operand in nearby for total in self._wholes]
        for operands in groups:
            if basis := self._derive(token, operands, accepts):
                return basis

        for total in self._wholes:
            for part in self._parts:
                if basis := derive_part(part, total, accepts, is_percent=token.is_percent):
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

    def _form_of(self, token: FigureToken) -> FigureForm:
        """Return which arithmetic the text of a figure, and the words after it, suggest."""
        is_factor = self._context.is_factor(token)
        has_decimals = re.search(r"\d\.\d", token.text) is not None
        precision: Precision = "whole"
        if has_decimals:
            precision = "decimals"
        if token.hedge or (has_decimals and token.value > _MIN_SCALED):
            precision = "rounded"
        is_large = token.value > _MIN_SCALED
        may_be_ratio = token.is_percent or is_factor or is_large or precision != "whole"
        return FigureForm(precision, token.is_percent, is_factor, may_be_ratio)

    def _count(self, token: FigureToken) -> str:
        """Return "3 listed" for a small whole number that may count a list of the answer or of a
        source; empty if there is no list of this length."""
        number_match = _SMALL_NUMBER.match(token.text)
        if number_match is None:
            return ""
        number = int(number_match[0])
        basis = f"{number} listed"
        rest_of_sentence = self._context.rest_of_sentence(token)
        if number in self._list_sizes | enumerated_items(rest_of_sentence):
            return basis

        # A part of a list, or a place in it, may have been counted by reading.
        total = self._context.whole(token)
        is_rank = token.text.endswith(("st", "nd", "rd", "th"))
        for source in self._sources:
            is_part = number < total and total in source.counts
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
        """The different numbers of all printed sources, the smallest first."""
        numbers: set[float] = set()
        for source in self._sources:
            if source.printed:
                numbers.update(source.numbers)
        return sorted(numbers)

    def _near_miss(self, token: FigureToken) -> str:
        """Return the printed figure from which this one differs by a slip, such as a wrong digit.

        Empty if there is none.
        """
        # Years are near each other, and a hedged or assumed figure need not be exact.
        if YEAR.fullmatch(token.text) or token.hedge or self._context.is_conjecture(token):
            return ""
        for text in wrong_digits(token.text):
            match = ONLY_NUMBER.fullmatch(text)
            if match is None:
                continue
            ranges = number_ranges(match, "")
            if any(contains(self._printed_numbers, *candidate) for candidate in ranges):
                return text
        return ""
