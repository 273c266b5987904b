"""Asks the kernel what may stand at the cursor, on a thread of its own: no kernel holds the keys."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from mahtab_tui.kernel.base import Completions, KernelError
from mahtab_tui.tui.rows.newest import NewestOnly

Complete = Callable[[str, int], Completions]
"""What may stand at a cursor of a code; raises `KernelError`."""


class Question(NamedTuple):
    """What is asked."""

    number: int
    code: str
    cursor: int
    """In characters."""
    asked_for: bool
    """Whether the person asked by a key; else they only type."""
    python: bool = True
    """Else it is a question to the model."""


class Answer(NamedTuple):
    """What came of it."""

    question: Question
    completions: Completions | None
    """None: the kernel did not answer."""


class Completer:
    """Answers the newest question."""

    def __init__(self, complete: Callable[[Question], Completions], answered: Callable[[Answer], object]) -> None:
        """answered: called on the thread."""
        self._complete = complete
        self._answered = answered
        self._newest: NewestOnly[Question] = NewestOnly(self._answer, "completion")
        self.ask = self._newest.ask
        self.close = self._newest.close

    def _answer(self, question: Question) -> None:
        found: Completions | None = None
        with contextlib.suppress(KernelError):
            found = self._complete(question)
        self._answered(Answer(question, found))
