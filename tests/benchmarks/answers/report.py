"""Rows of a run, as a table, as a file, and compared with those of another run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tests.benchmarks.answers.items import Item
from tests.benchmarks.answers.outcome import Outcome


@dataclass
class Row(Outcome):
    """The scored outcome of a question."""

    program: str = ""
    name: str = ""
    kind: str = ""
    question: str = ""
    expected: str = ""
    score: float = 0.0

    @property
    def right(self) -> bool:
        return self.score >= 1


def make_row(program: str, item: Item, outcome: Outcome) -> Row:
    row = Row(**vars(outcome), program=program, score=item.score(outcome))
    row.name, row.kind, row.question, row.expected = item.name, item.kind, item.text, item.expected
    return row


def print_row(row: Row, *, verbose: bool) -> None:
    """Print a line of progress, or all that was asked and answered."""
    verdict = "right" if row.right else "wrong"
    print(
        f"{row.program:<11} {verdict:<6} {row.seconds:>6.1f} s  {row.kind}: {row.name}", flush=True
    )
    for what in ("question", "expected", "answer", "failure") if verbose else ():
        if text := getattr(row, what):
            print(f"    {what}: " + text.strip().replace("\n", "\n        "), flush=True)


def _mean(get: Callable[[Row], float]) -> Callable[[Sequence[Row]], str]:
    return lambda rows: f"{statistics.fmean(map(get, rows)):.1f}"


def _total(get: Callable[[Row], float]) -> Callable[[Sequence[Row]], str]:
    return lambda rows: f"{sum(map(get, rows)):,.0f}"


def _median_seconds(rows: Sequence[Row]) -> float:
    return statistics.median(row.seconds for row in rows)


def _right(rows: Sequence[Row]) -> str:
    return f"{sum(row.right for row in rows)} of {len(rows)}" if rows else "-"


def _share(cached: str, read: str) -> Callable[[Sequence[Row]], str]:
    def figure(rows: Sequence[Row]) -> str:
        total = sum(getattr(row, read) for row in rows)
        return f"{sum(getattr(row, cached) for row in rows) / total:.0%}" if total else "-"

    return figure


def _not_computed(rows: Sequence[Row]) -> str:
    counts = [row.not_computed for row in rows if row.not_computed is not None]
    return str(sum(counts)) if counts else "-"


_FIGURES: dict[str, Callable[[Sequence[Row]], str]] = {
    "score, also for parts": lambda rows: f"{statistics.fmean(row.score for row in rows):.1%}",
    "seconds a question, median": lambda rows: f"{_median_seconds(rows):.1f}",
    "seconds a question, mean": _mean(lambda row: row.seconds),
    "model calls a question": _mean(lambda row: row.calls),
    "code blocks a question": _mean(lambda row: len(row.codes)),
    "tokens read a question": _mean(lambda row: row.read),
    "tokens read from the server's cache": _share("cached", "read"),
    "  from the second call on": _share("later_cached", "later_read"),
    "tokens written a question": _mean(lambda row: row.written),
    "unchanged blocks that ran again": _total(lambda row: row.repeated),
    'answers that speak of "the code"': _total(lambda row: row.speaks_of_code),
    "figures not computed": _not_computed,
    "failures": _total(lambda row: bool(row.failure)),
}


def print_report(rows: Sequence[Row]) -> None:
    """Print the figures of each program side by side."""
    if not rows:
        return
    programs = list(dict.fromkeys(row.program for row in rows))
    kinds = list(dict.fromkeys(row.kind for row in rows))
    mine = {program: [row for row in rows if row.program == program] for program in programs}
    print(f"\n{'':<38}" + "".join(f"{program:>14}" for program in programs))
    lines = {"right": _right} | {f"  {kind}": _of_kind(kind) for kind in kinds} | _FIGURES
    for what, figure in lines.items():
        print(f"{what:<38}" + "".join(f"{figure(mine[program]):>14}" for program in programs))


def _of_kind(kind: str) -> Callable[[Sequence[Row]], str]:
    return lambda rows: _right([row for row in rows if row.kind == kind])


def save(rows: Sequence[Row], file: Path) -> None:
    file.write_text(
        json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False), encoding="utf-8"
    )


def load(file: Path) -> list[Row]:
    saved = json.loads(file.read_text(encoding="utf-8"))
    known = [each.name for each in fields(Row)]
    try:
        return [Row(**{name: row[name] for name in known}) for row in saved]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} holds no rows of this bench: {error}") from None


def print_changes(earlier: Sequence[Row], rows: Sequence[Row]) -> None:
    """Print which questions changed between right and wrong."""
    before = {(row.program, row.name): row for row in earlier}
    both = [
        (before[row.program, row.name], row) for row in rows if (row.program, row.name) in before
    ]
    if not both:
        return
    print(f"\nCompared with the earlier run, in {len(both)} questions of both:")
    for program in dict.fromkeys(new.program for _, new in both):
        pairs = [(old, new) for old, new in both if new.program == program]
        was, now = zip(*pairs, strict=True)
        print(
            f"{program}: {sum(row.right for row in was)} -> {sum(row.right for row in now)} right, "
            f"median {_median_seconds(was):.1f} -> {_median_seconds(now):.1f} s"
        )
        for old, new in pairs:
            if old.right != new.right:
                verdict = "right" if new.right else "wrong"
                print(f"  now {verdict}: {new.name} (expected {new.expected})")
                print(f"    was: {old.answer[:200]!r}\n    is:  {new.answer[:200]!r}")
