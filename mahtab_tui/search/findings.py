"""What a node has learned so far, in case it does not come to an answer."""

from __future__ import annotations

from collections import deque

from mahtab_tui.search.tree_nodes import shortened

MAX_FINDINGS_CHARS = 10_000
"""Maximum characters of each of the three sections; their oldest findings are dropped."""
_MAX_FINDING_CHARS = 4_000
_MAX_QUERY_CHARS = 200
"""Maximum characters of a sub-call's query, in front of its answer."""


class Findings:
    """What a node has learned so far: the newest answers of its sub-calls, outputs of its code, and
    words of its model."""

    def __init__(self) -> None:
        self.answers = _Section("Answers on parts of the text")
        self.printed = _Section("Printed by its code")
        self.written = _Section("Written by its model")

    def __bool__(self) -> bool:
        return bool(self.text)

    def add_answer(self, query: str, answer: str, *, part_index: int, part_count: int) -> None:
        """Add the answer of a sub-call.

        Args:
            query: The sub-call's query.
            answer: Its answer.
            part_index: Which part of the fan-out it has read, from 0.
            part_count: How many parts the fan-out has.
        """
        part_label = f" (part {part_index + 1} of {part_count})" if part_count > 1 else ""
        short_query = shortened(query, _MAX_QUERY_CHARS)
        self.answers.add(f"{short_query}{part_label}: {answer.strip()}")

    @property
    def text(self) -> str:
        """All findings, each section under its title; empty if there are none."""
        sections = (self.answers, self.printed, self.written)
        return "\n\n".join(
            f"{section.title}:\n{section.text}" for section in sections if section.text
        )

    def as_answer(self, reason: str) -> str:
        """Return the findings in place of an answer.

        Args:
            reason: A sentence saying why there is none.
        """
        return f"The search ended before it had an answer. {reason} This is what it had found.\n\n{self.text}"


class _Section:
    """The newest findings of one kind, up to `MAX_FINDINGS_CHARS` together."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._findings: deque[str] = deque()
        self._total_chars = 0
        self._dropped_count = 0

    def add(self, finding: str) -> None:
        finding = shortened(finding, _MAX_FINDING_CHARS)
        if finding:
            self._findings.append(finding)
            self._total_chars += len(finding)

        while self._total_chars > MAX_FINDINGS_CHARS:
            self._total_chars -= len(self._findings.popleft())
            self._dropped_count += 1

    @property
    def text(self) -> str:
        lines = list(self._findings)
        if self._dropped_count:
            lines.insert(0, f"… {self._dropped_count:,} earlier left out …")
        return "\n".join(lines)
