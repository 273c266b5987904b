"""Explains the figures of an answer that are in no source: how each may follow from others by
arithmetic or by counting, or which printed figure it nearly equals."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
from mahtab_tui.bus.figure_slips import wrong_digits
from mahtab_tui.bus.figure_sources import MAX_PARTS, SourceFigures, contains
from mahtab_tui.bus.figure_tokens import ONLY_NUMBER, FigureToken, number_ranges
from mahtab_tui.bus.records import AnswerFigure

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


class _StatedOperand(NamedTuple):
    """A figure of the answer from which others may follow."""

    start: int
    """Where it begins in the answer."""
    sentence: int
    """The number of its sentence, from 0."""
    operand: Operand


class FigureExplainer:
    """Explains the figures of one answer.

    `add_operand` tells it the figures whose source is known, from which others may follow.
    """

    def __init__(
        self, answer: str, sources: Sequence[SourceFigures], context: FigureContext
    ) -> None:
        """
        Args:
            answer: The answer.
            sources: The figures of the sources, at last those of the question.
            context: The words around the figures of the answer.
        """
        self._answer = answer
        self._sources = sources
        self._context = context
        self._stated: list[_StatedOperand] = []
        """Numbers of the answer that are in a source or follow from others."""

    def add_operand(self, token: FigureToken) -> None:
        """Note a number from which other figures of the answer may follow."""
        if token.ranges:
            operand = Operand(token.value, token.text)
            self._stated.append(_StatedOperand(token.start, self._context.sentence(token), operand))

    def explain(self, token: FigureToken) -> AnswerFigure | None:
        """Explain a figure that is in no source.

        Returns:
            The figure, with how it follows from others, or which printed figure it nearly equals,
            or neither; None if it claims nothing about the data, so that it needs no source.
        """
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
        self.add_operand(token)
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
        items_after_it = enumerated_items(self._context.rest_of_sentence(token))
        if number in self._list_sizes or number in items_after_it:
            return f"{number} listed"
        total = self._context.whole(token)
        is_rank = token.text.endswith(("st", "nd", "rd", "th"))
        if any(_may_count(number, total, source, is_rank=is_rank) for source in self._sources):
            return f"{number} listed"
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


def _may_count(number: int, total: int, source: SourceFigures, *, is_rank: bool) -> bool:
    """Return whether a number may count a list of a source, or, by reading it, a part of the list or
    a place in it.

    Args:
        number: The number.
        total: Of how many things it is said to count a part; 0 if that is not said.
        source: The source.
        is_rank: Whether it is written as a place, such as "3rd".
    """
    if number in source.counts:
        return True
    if number < total and total in source.counts:
        return True
    return is_rank and number <= max(source.counts, default=0)
