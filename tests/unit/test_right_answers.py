"""The check of figures on conversations about public tables: right answers are left alone, and
slips are found.

`tests/data/right_answers.json` has conversations about tables of vega_datasets and about files and
code, with the real outputs and with answers as a capable model gives them. A turn's "slip" is a
figure of its answer and the figure with a wrong digit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mahtab_tui.bus.empty_answers import names_no_value
from mahtab_tui.bus.figure_sources import FigureSource
from mahtab_tui.bus.figures import find_figures, near_misses
from mahtab_tui.bus.records import AnswerFigure

CONVERSATIONS = Path(__file__).parent.parent / "data" / "right_answers.json"
MAX_FALSE_ALARMS = 2
MIN_SLIPS_MARKED = 17
MIN_SLIPS_SENT_BACK = 15


class Answer(NamedTuple):
    question: str
    text: str
    slip: list[str]
    """A figure of the text, and the same with a wrong digit; empty if there is none."""
    sources: list[FigureSource]
    outputs: list[str]
    """Of the cells of this question."""
    code: str
    """Of all cells so far."""

    def figures(self, text: str = "") -> tuple[AnswerFigure, ...]:
        return find_figures(text or self.text, self.sources, self.question, code=self.code)


def read_answers() -> Iterator[Answer]:
    conversations: list[dict[str, Any]] = json.loads(CONVERSATIONS.read_text("utf-8"))
    for conversation in conversations:
        sources: list[FigureSource] = []
        words: list[str] = []
        codes: list[str] = []
        for turn in conversation["turns"]:
            for number, cell in enumerate(turn["cells"], len(codes) + 1):
                sources.append(FigureSource(number, cell["output"]))
                sources.append(FigureSource(None, cell["code"], printed=False))
                codes.append(cell["code"])
            earlier_words = FigureSource(None, "\n".join(words), printed=False)
            words += [turn["question"], turn["answer"]]
            if not turn.get("plan"):
                yield Answer(
                    turn["question"],
                    turn["answer"],
                    turn.get("slip", []),
                    [*sources, earlier_words],
                    [cell["output"] for cell in turn["cells"]],
                    "\n".join(codes),
                )


def test_right_answers_are_hardly_ever_marked_and_never_sent_back() -> None:
    answers = list(read_answers())
    marked = [
        (answer.question, figure.text)
        for answer in answers
        for figure in answer.figures()
        if not figure.has_source
    ]
    assert len(answers) == 60
    assert len({question for question, _ in marked}) <= MAX_FALSE_ALARMS, marked
    assert [answer.text for answer in answers if near_misses(answer.figures())] == []
    assert [
        answer.text
        for answer in answers
        if names_no_value(answer.text, answer.outputs, answer.question)
    ] == []


def test_slips_in_right_answers_are_found() -> None:
    marked: list[str] = []
    sent_back: list[tuple[str, str | None]] = []
    slips = [answer for answer in read_answers() if answer.slip]
    for answer in slips:
        right, wrong = answer.slip
        figures = answer.figures(answer.text.replace(right, wrong, 1))
        marked += [
            figure.text for figure in figures if figure.text == wrong and not figure.has_source
        ]
        sent_back += [(wrong, figure.near) for figure in near_misses(figures)]
    assert len(slips) == 20
    assert len(marked) >= MIN_SLIPS_MARKED
    assert len(sent_back) >= MIN_SLIPS_SENT_BACK
    right_figures = {answer.slip[1]: answer.slip[0] for answer in slips}
    assert (
        sum(right_figures[wrong] == near_figure for wrong, near_figure in sent_back)
        >= MIN_SLIPS_SENT_BACK - 1
    )
