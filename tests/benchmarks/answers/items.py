"""Questions with their files, and a score for each answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.answers.outcome import Outcome
from tests.benchmarks.answers.questions import CONVERSATIONS, NO_CODE, Conversation, Question
from tests.benchmarks.answers.tables import read_tables, write_tables


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
    return [[_item(question, folder) for question in each] for each in conversations]


def _item(question: Question, folder: Path) -> Item:
    files = write_tables(question.tables, folder)
    tables = read_tables(files)
    expected = question.expected(tables)

    def score(outcome: Outcome) -> float:
        if question.kind == NO_CODE and outcome.codes:
            return 0.0
        return float(question.check.states(outcome.answer, expected, tables))

    return Item(question.name, question.kind, question.text, files, str(expected), score)


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
    left = sum(map(len, conversations)) if limit is None else limit
    for conversation in conversations:
        wanted = [
            index
            for index, item in enumerate(conversation)
            if kind in ("", item.kind) and (not only or item.name in only)
        ]
        count = min(wanted[-1] + 1, left) if wanted else 0
        left -= count
        if count:
            chosen.append(list(conversation[:count]))
    return chosen
