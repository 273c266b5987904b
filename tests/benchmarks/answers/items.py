"""Questions with their files, and a score for each answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.benchmarks.answers.fresh_questions import FRESH_QUESTIONS
from tests.benchmarks.answers.outcome import Outcome
from tests.benchmarks.answers.questions import CONVERSATIONS, NO_CODE, Conversation, Question
from tests.benchmarks.answers.tables import read_tables, write_tables

Half = Literal["develop", "judge"]
"""Half of the questions: one to develop with, and one to judge by, whose failures nobody reads."""
DEVELOP: Half = "develop"
JUDGE: Half = "judge"
QuestionSet = Literal["develop", "judge", "fresh"]
"""A half, or the third set, which is to judge by as well: what is developed with the halves may fit
the tables of both."""
FRESH: QuestionSet = "fresh"
HIDDEN_SETS: tuple[QuestionSet, ...] = (JUDGE, FRESH)
"""Sets of which neither questions nor answers are printed or saved."""


@dataclass(frozen=True)
class Item:
    name: str
    kind: str
    text: str
    files: Sequence[Path]
    expected: str
    score: Callable[[Outcome], float]
    """From 0 to 1, which is right."""


def own_items(
    folder: Path, conversations: Sequence[Conversation] = CONVERSATIONS
) -> list[list[Item]]:
    """Return our own questions, conversation by conversation. folder: for their tables."""
    return [
        [_item(question, folder) for question in conversation] for conversation in conversations
    ]


def _item(question: Question, folder: Path) -> Item:
    files = write_tables(question.tables, folder)
    tables = read_tables(files)
    expected = question.expected(tables)

    def score(outcome: Outcome) -> float:
        if question.kind == NO_CODE and outcome.codes:
            return 0.0
        return float(question.check.states(outcome.answer, expected, tables))

    return Item(question.name, question.kind, question.text, files, str(expected), score)


def items_of(question_set: QuestionSet | None, folder: Path) -> list[list[Item]]:
    """Return our own questions of a set; None: of both halves. folder: for their tables."""
    if question_set is None:
        return own_items(folder)
    if question_set == "fresh":
        return own_items(folder, FRESH_QUESTIONS)
    return half_of(own_items(folder), question_set)


def half_of(conversations: Sequence[list[Item]], half: Half) -> list[list[Item]]:
    """Choose every other conversation of each kind. The kind of a conversation is that of its last
    question."""
    chosen: list[list[Item]] = []
    counts: Counter[str] = Counter()
    for conversation in conversations:
        kind = conversation[-1].kind
        its_half = JUDGE if counts[kind] % 2 else DEVELOP
        counts[kind] += 1
        if its_half == half:
            chosen.append(conversation)
    return chosen


def select(
    conversations: Sequence[Sequence[Item]],
    *,
    kind: str = "",
    only: Sequence[str] = (),
    limit: int | None = None,
) -> list[list[Item]]:
    """Choose questions by kind or name, with the earlier ones of their conversations, up to a
    limit."""
    chosen: list[list[Item]] = []
    remaining_count = sum(map(len, conversations)) if limit is None else limit
    for conversation in conversations:
        matching_indices = [
            index
            for index, item in enumerate(conversation)
            if kind in ("", item.kind) and (not only or item.name in only)
        ]
        count = min(matching_indices[-1] + 1, remaining_count) if matching_indices else 0
        remaining_count -= count
        if count:
            chosen.append(list(conversation[:count]))
    return chosen
