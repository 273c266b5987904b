"""Rows of a run, as a table, as a file, and compared with those of another run."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from tests.benchmarks.answers.items import Item
from tests.benchmarks.answers.outcome import Outcome


@dataclass
class ScoredOutcome(Outcome):
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


def make_row(program: str, item: Item, outcome: Outcome) -> ScoredOutcome:
    row = ScoredOutcome(**vars(outcome), program=program, score=item.score(outcome))
    row.name = item.name
    row.kind = item.kind
    row.question = item.text
    row.expected = item.expected
    return row


def print_row(row: ScoredOutcome, *, verbose: bool) -> None:
    """Print a line of progress, or all that was asked and answered."""
    verdict = "right" if row.right else "wrong"
    print(
        f"{row.program:<11} {verdict:<6} {row.seconds:>6.1f} s  {row.kind}: {row.name}", flush=True
    )
    for field_name in ("question", "expected", "answer", "failure") if verbose else ():
        if text := getattr(row, field_name):
            print(f"    {field_name}: " + text.strip().replace("\n", "\n        "), flush=True)


def without_texts(row: ScoredOutcome) -> ScoredOutcome:
    """Return a row without the question and what was answered, so that nobody can read why an
    answer is wrong."""
    return replace(row, question="", expected="", answer="", failure="", codes=[], transcript=[])


def mcnemar(gained: int, lost: int) -> float:
    """Return the two-sided p of McNemar's exact test.

    Args:
        gained: How many answers became right.
        lost: How many became wrong.
    """
    changed = gained + lost
    tail = sum(math.comb(changed, count) for count in range(min(gained, lost) + 1))
    return min(1.0, float(2 * tail / 2**changed))


def _mean(get: Callable[[ScoredOutcome], float]) -> Callable[[Sequence[ScoredOutcome]], str]:
    return lambda rows: f"{statistics.fmean(map(get, rows)):.1f}"


def _total(get: Callable[[ScoredOutcome], float]) -> Callable[[Sequence[ScoredOutcome]], str]:
    return lambda rows: f"{sum(map(get, rows)):,.0f}"


def _median_seconds(rows: Sequence[ScoredOutcome]) -> float:
    return statistics.median(row.seconds for row in rows)


def _right(rows: Sequence[ScoredOutcome]) -> str:
    return f"{sum(row.right for row in rows)} of {len(rows)}" if rows else "-"


def _share(cached: str, read: str) -> Callable[[Sequence[ScoredOutcome]], str]:
    def figure(rows: Sequence[ScoredOutcome]) -> str:
        total = sum(getattr(row, read) for row in rows)
        return f"{sum(getattr(row, cached) for row in rows) / total:.0%}" if total else "-"

    return figure


def _not_computed(rows: Sequence[ScoredOutcome]) -> str:
    counts = [row.not_computed for row in rows if row.not_computed is not None]
    return str(sum(counts)) if counts else "-"


MANUAL_HEADING = "| model | questions | right | right, bare call | seconds | seconds, bare call | memory | machine | measured |"
"""Of the table of the manual's page on models on one's own machine. The seconds are a question's
median."""

_FIGURES: dict[str, Callable[[Sequence[ScoredOutcome]], str]] = {
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


def print_report(rows: Sequence[ScoredOutcome]) -> None:
    """Print the figures of each program side by side."""
    if not rows:
        return
    programs = list(dict.fromkeys(row.program for row in rows))
    kinds = list(dict.fromkeys(row.kind for row in rows))
    mine = {program: [row for row in rows if row.program == program] for program in programs}
    print(f"\n{'':<38}" + "".join(f"{program:>14}" for program in programs))
    lines = {"right": _right} | {f"  {kind}": _of_kind(kind) for kind in kinds} | _FIGURES
    for label, figure in lines.items():
        print(f"{label:<38}" + "".join(f"{figure(mine[program]):>14}" for program in programs))


def _of_kind(kind: str) -> Callable[[Sequence[ScoredOutcome]], str]:
    return lambda rows: _right([row for row in rows if row.kind == kind])


def manual_row(
    rows: Sequence[ScoredOutcome],
    *,
    model: str,
    questions: str,
    memory: str,
    machine: str,
    date: str,
) -> str:
    """Return a line for the table of the manual's page on models on one's own machine.

    Args:
        rows: Those of the baseline and of mahtab-tui; others are left out.
        model: Its name and quantization.
        questions: Which questions were asked.
        memory: That of the model's server.
        machine: On which model and program ran.
        date: When.
    """
    mine = {
        program: [row for row in rows if row.program == program]
        for program in ("mahtab-tui", "baseline")
    }
    right = [_right(program_rows) for program_rows in mine.values()]
    seconds = [
        f"{_median_seconds(program_rows):.1f}" if program_rows else "-"
        for program_rows in mine.values()
    ]
    cells = [model, questions, *right, *seconds, memory, machine, date]
    return f"| {' | '.join(cells)} |"


def save(rows: Sequence[ScoredOutcome], file: Path) -> None:
    file.write_text(
        json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False), encoding="utf-8"
    )


def load(file: Path) -> list[ScoredOutcome]:
    saved = json.loads(file.read_text(encoding="utf-8"))
    field_names = [field.name for field in fields(ScoredOutcome)]
    try:
        return [ScoredOutcome(**{name: row[name] for name in field_names}) for row in saved]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} holds no rows of this bench: {error}") from None


def print_changes(
    earlier: Sequence[ScoredOutcome], rows: Sequence[ScoredOutcome], *, with_answers: bool = True
) -> None:
    """Print how many answers became right or wrong, and the answers."""
    earlier_rows = {(row.program, row.name): row for row in earlier}
    programs = {row.program for row in earlier}
    if len(programs) == 1:  # another program may be compared with it
        earlier_rows |= {
            (row.program, row.name): old for row in rows for old in earlier if old.name == row.name
        }
    both = [
        (earlier_rows[row.program, row.name], row)
        for row in rows
        if (row.program, row.name) in earlier_rows
    ]
    if not both:
        return
    print(f"\nCompared with the earlier run, in {len(both)} questions of both:")
    for program in dict.fromkeys(new.program for _, new in both):
        pairs = [(old, new) for old, new in both if new.program == program]
        old_rows, new_rows = zip(*pairs, strict=True)
        print(
            f"{program}: {sum(row.right for row in old_rows)} -> {sum(row.right for row in new_rows)} right, "
            f"median {_median_seconds(old_rows):.1f} -> {_median_seconds(new_rows):.1f} s"
        )
        gained = sum(new.right and not old.right for old, new in pairs)
        lost = sum(old.right and not new.right for old, new in pairs)
        p = mcnemar(gained, lost)
        print(f"  {gained} became right, {lost} wrong: p = {p:.3f} (McNemar, exact, two-sided)")
        for old, new in pairs if with_answers else ():
            if old.right != new.right:
                verdict = "right" if new.right else "wrong"
                print(f"  now {verdict}: {new.name} (expected {new.expected})")
                print(f"    was: {old.answer[:200]!r}\n    is:  {new.answer[:200]!r}")
