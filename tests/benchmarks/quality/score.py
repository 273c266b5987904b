"""Runs a task, and compares its answer with the known one."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.benchmarks.quality.tasks import Span, TextQuestion

HEADING = f"{'task':<14}{'MB':>6}  {'exact':<6}{'state':<10}{'calls':>6}{'tokens':>11}{'USD':>9}{'s':>8}{'precision':>11}{'recall':>8}{'lines':>7}"


class Score(NamedTuple):
    """Result and cost of a search."""

    exact: bool = False
    state: str = "failed"
    """"answered", "partial" or "failed"."""
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    precision: float | None = None
    """Share of the cited text that is evidence; None if nothing is cited."""
    recall: float = 0.0
    """Share of the evidence's characters that are cited."""
    lines: float = 0.0
    """Share of the evidence's lines in which something is cited."""


def score(
    task: TextQuestion, search: Callable[..., Any], failures: tuple[type[Exception], ...]
) -> Score:
    """Run a task. search: called like `rlm`, with a question, a text and `returns`. failures: raised
    if there is no answer."""
    began = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its state tells an answer in another form
            answer = search(task.question, task.text, returns=task.returns)
    except failures:
        return Score(seconds=time.monotonic() - began)
    named = covered(answer.spans, task.spans)
    cited_chars = sum(end - start for start, end in answer.spans)
    usage = answer.usage
    value = answer.value
    return Score(
        (value.strip() if isinstance(value, str) else value) == task.answer,
        answer.state,
        usage.calls,
        usage.tokens,
        usage.usd,
        time.monotonic() - began,
        named / cited_chars if cited_chars else None,
        named / sum(end - start for start, end in task.spans),
        sum(covered(answer.spans, [line]) > 0 for line in task.spans) / len(task.spans),
    )


def covered(spans: Sequence[Span], other_spans: Sequence[Span]) -> int:
    """Return how many characters lie in both; the spans of each do not overlap."""
    return sum(
        max(0, min(end, other_end) - max(start, other_start))
        for start, end in spans
        for other_start, other_end in other_spans
    )


def mean(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f}" if values else "-"


def row(task: TextQuestion, megabytes: float, score: Score) -> str:
    precision = "-" if score.precision is None else f"{score.precision:.2f}"
    return (
        f"{task.kind:<14}{megabytes:>6g}  {'yes' if score.exact else 'no':<6}{score.state:<10}{score.calls:>6,}{score.tokens:>11,}"
        f"{score.usd:>9.4f}{score.seconds:>8.1f}{precision:>11}{score.recall:>8.2f}{score.lines:>7.2f}"
    )
