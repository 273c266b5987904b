"""Findings of a node so far, in case its model fails before it answers."""

from __future__ import annotations

from collections import deque

from mahtab_tui.search.node import shortened

MOST = 10_000
"""Characters that are kept of outputs, and of answers; the newest."""
_LONGEST = 4_000
"""Characters of one output or answer."""
_QUERY = 200


class Findings:
    """The newest outputs of a node's code, and the newest answers of its sub-calls, which its code
    may not have printed."""

    def __init__(self) -> None:
        self._printed = _Newest()
        self.answers = _Newest()

    def __bool__(self) -> bool:
        return bool(self._printed or self.answers)

    def printed(self, text: str) -> None:
        """Add what its code printed, or what its model said instead of code."""
        self._printed.add(text.strip())

    def answered(self, query: str, index: int, of: int, answer: str) -> None:
        """Add the answer of a sub-call: part `index` of `of`, from 0."""
        part = f" (part {index + 1} of {of})" if of > 1 else ""
        self.answers.add(f"{shortened(query, _QUERY)}{part}: {answer.strip()}")

    @property
    def text(self) -> str:
        """Answers and outputs."""
        answers = f"Answers on parts of the text:\n{self.answers.text}" if self.answers else ""
        printed = f"Printed by its code:\n{self._printed.text}" if self._printed else ""
        return "\n\n".join(part for part in (answers, printed) if part)

    def as_answer(self, reason: str) -> str:
        """Return a text in place of an answer. reason: a sentence saying why there is none."""
        return f"The search ended before it had an answer. {reason} This is what it had found.\n\n{self.text}"


class _Newest:
    """Texts, of which the oldest are dropped when there are too many."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._chars = 0
        self._dropped = 0

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: str) -> None:
        if not text:
            return
        self._texts.append(shortened(text, _LONGEST))
        self._chars += len(self._texts[-1])
        while self._chars > MOST:
            self._chars -= len(self._texts.popleft())
            self._dropped += 1

    @property
    def text(self) -> str:
        dropped = [f"… {self._dropped:,} earlier left out …"] if self._dropped else []
        return "\n".join([*dropped, *self._texts])
