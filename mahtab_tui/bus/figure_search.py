"""Looks for the figures of an answer in the texts from which they may come."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mahtab_tui.bus.figure_sources import SourceFigures, normalize
from mahtab_tui.bus.figure_tokens import FigureToken


class FigureOccurrence(NamedTuple):
    """Where a figure occurs."""

    is_in_source: bool
    cell: int | None = None
    """The cell that printed it; None if it is in no cell."""


_NOWHERE = FigureOccurrence(is_in_source=False)


def find_token(token: FigureToken, sources: Sequence[SourceFigures]) -> FigureOccurrence:
    """Look for a figure in sources, of which the first one counts."""
    if token.ranges is None:
        return _find_text(normalize(token.quoted or token.text), sources)
    if not token.ranges:  # 0 or 1
        return FigureOccurrence(is_in_source=True)

    # A source with the exact number comes before one in which it is rounded.
    exact = [candidate._replace(half=0) for candidate in token.ranges]
    for ranges in (exact, token.ranges):
        for source in sources:
            if any(source.has_number(*candidate) for candidate in ranges):
                return FigureOccurrence(is_in_source=True, cell=source.cell)
    return _NOWHERE


def _find_text(text: str, sources: Sequence[SourceFigures]) -> FigureOccurrence:
    """Look for a normalized text in sources, as whole words."""
    before = r"(?<!\w)" if text[0].isalnum() else ""
    after = ""
    if text[-1].isdigit():
        after = r"(?!\d)"  # a unit may follow
    elif text[-1].isalnum():
        after = r"(?!\w)"
    pattern = re.compile(before + re.escape(text) + after)
    for source in sources:
        # Looking for the text alone is much faster.
        if text in source.normalized_text and pattern.search(source.normalized_text):
            return FigureOccurrence(is_in_source=True, cell=source.cell)
    return _NOWHERE
