"""Runs a task, and holds its answer against the known one."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.benchmarks.quality.tasks import Span, Task


class Score(NamedTuple):
    """How a search has done."""

    exact: bool
    state: str
    """"answered", "partial" or "failed"."""
    calls: int
    tokens: int
    usd: float
    seconds: float
    precision: float | None
    """The share of the text that it names as evidence which is evidence; None if it names none."""
    recall: float
    """The share of the characters of the evidence that it names."""
    lines: float
    """The share of the lines of the evidence in which it names something."""


def score(task: Task, search: Callable[..., Any], failures: tuple[type[Exception], ...]) -> Score:
    """Run a task. search: called as `rlm` is, with a question, a text and `returns`. failures: what
    it raises if it has no answer."""
    began = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an answer in another form is told by its state
            answer = search(task.question, task.text, returns=task.returns)
    except failures:
        return Score(False, "failed", 0, 0, 0.0, time.monotonic() - began, None, 0.0, 0.0)
    named = covered(answer.spans, task.spans)
    whole = sum(end - start for start, end in answer.spans)
    used, value = answer.usage, answer.value
    return Score(
        (value.strip() if isinstance(value, str) else value) == task.answer,
        answer.state,
        used.calls,
        used.tokens,
        used.usd,
        time.monotonic() - began,
        named / whole if whole else None,
        named / sum(end - start for start, end in task.spans),
        sum(covered(answer.spans, [line]) > 0 for line in task.spans) / len(task.spans),
    )


def covered(some: Sequence[Span], others: Sequence[Span]) -> int:
    """Return how many characters lie in both; the spans of each do not overlap."""
    return sum(
        max(0, min(end, other_end) - max(start, other_start))
        for start, end in some
        for other_start, other_end in others
    )


def mean(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f}" if values else "-"


HEADING = f"{'task':<14}{'MB':>6}  {'exact':<6}{'state':<10}{'calls':>6}{'tokens':>11}{'USD':>9}{'s':>8}{'precision':>11}{'recall':>8}{'lines':>7}"


def row(task: Task, megabytes: float, score: Score) -> str:
    """Format a line of the table."""
    precision = "-" if score.precision is None else f"{score.precision:.2f}"
    return (
        f"{task.kind:<14}{megabytes:>6g}  {'yes' if score.exact else 'no':<6}{score.state:<10}{score.calls:>6,}{score.tokens:>11,}"
        f"{score.usd:>9.4f}{score.seconds:>8.1f}{precision:>11}{score.recall:>8.2f}{score.lines:>7.2f}"
    )
