"""Finds the figures of an answer (numbers, ISO dates, quoted values), and the output, attachment,
code or words that each comes from.

A false alarm is worse than silence: a figure counts as found if it could follow from others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mahtab_tui.bus.figure_context import FigureContext
from mahtab_tui.bus.figure_derivations import FigureExplainer
from mahtab_tui.bus.figure_search import find_token
from mahtab_tui.bus.figure_sources import FigureSource, normalize, read_sources
from mahtab_tui.bus.figure_tokens import FigureToken, scan_figures
from mahtab_tui.bus.records import AnswerFigure

MAX_DIFFERENT_FIGURES = 300
"""Maximum number of different figures of an answer that are looked up."""
_MAX_DERIVED = 40
"""Maximum number of missing figures for which a derivation or a near miss is looked for."""


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


class _FigureLookup:
    """Looks up the figures of one answer."""

    def __init__(
        self, answer: str, sources: Sequence[FigureSource], question: str, normalized_code: str
    ) -> None:
        self._answer = answer
        self._normalized_code = normalized_code
        self._sources = read_sources(sources, question)
        self._explainer = FigureExplainer(answer, self._sources, FigureContext(answer))

    def figures(self) -> tuple[AnswerFigure, ...]:
        """Return the figures in order; of several with the same text, one that was found."""
        occurrences = self._look_up()
        missing = [token for token, figure in occurrences if not figure.has_source]
        # By position. None: the figure claims nothing about the data, and is left out.
        explained: dict[int, AnswerFigure | None] = {}
        for token in missing[:_MAX_DERIVED]:
            explained[token.start] = self._explainer.explain(token)

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
                self._explainer.add_operand(token)
            if figure.has_source or not self._is_name(token):
                occurrences.append((token, figure))
        return occurrences

    def _is_name(self, token: FigureToken) -> bool:
        """Return whether a quoted text is a name, or from the code, rather than a value."""
        quoted = token.quoted
        return bool(quoted) and (
            quoted.isidentifier() or normalize(quoted) in self._normalized_code
        )
