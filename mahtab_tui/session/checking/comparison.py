"""Compares what a cell has shown with what it shows in fresh kernels."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from mahtab_tui.session.checking.recorded import CellOutcome

Verdict = Literal["same", "different", "failed", "not comparable"]

MAX_SHOWN_LINES = 8
MAX_SHOWN_CHARS = 300
"""Characters of a line."""

RANDOM = "two fresh runs differ, too (chance, time, network or screen width)"

_CELL_NAME = re.compile(r"In \[\d{1,9}\]|/[\w/.-]{1,100}/ipykernel_\d{1,12}/\d{1,12}\.py")
_ADDRESS = re.compile(r"(?<=\bat )0x[0-9a-fA-F]{6,16}\b")
"""Where an object is, as in ``<object object at 0x7f…>``. Other numbers may be results."""


class Judgement(NamedTuple):
    """How an outcome compares with those of fresh runs."""

    verdict: Verdict
    reason: str = ""
    """A clause; empty if there is nothing to say."""


class Comparison(NamedTuple):
    """How a cell or a variable compares, for the user."""

    name: str
    verdict: Verdict
    reason: str = ""
    """A clause; empty if there is nothing to say."""
    before: str = ""
    now: str = ""

    @property
    def breaks(self) -> bool:
        """Whether the result does not hold."""
        return self.verdict in ("different", "failed")


def unfinished_origin(name: str, origin_name: str) -> Comparison:
    """Return the comparison of a cell or a variable that cannot be compared, because it uses what
    another cell has made that did not run in full.

    Args:
        name: The name of the cell or the variable.
        origin_name: The name of the other cell, such as ``In 3``.
    """
    reason = f"it rests on {origin_name}, which did not run in full"
    return Comparison(name, "not comparable", reason)


def compare_outcomes(
    recorded: CellOutcome, fresh_runs: Sequence[CellOutcome], *, is_foreign: bool
) -> Judgement:
    """Compare the outcome of a cell with those of one or two fresh runs.

    Args:
        recorded: The outcome in the session or the notebook.
        fresh_runs: The outcomes in the fresh runs.
        is_foreign: Whether another program may have written the recorded outcome: then pictures and
            formatted texts cannot be compared, nor how texts are arranged.
    """
    first = fresh_runs[0]
    if first.has_failed and not recorded.has_failed:
        return Judgement("failed")
    if recorded.text == first.text and recorded.has_failed == first.has_failed:
        if recorded.displays == first.displays:
            return Judgement("same")
        if is_foreign:
            return Judgement(
                "not comparable",
                "another program may have drawn its pictures or tables; the text is the same",
            )

    # Everything that is another one in each process is replaced, until both are the same.
    outcomes = [recorded, *fresh_runs]
    names: list[str] = []
    for name, replace in _VOLATILE:
        replaced = [_replace_texts(outcome, replace) for outcome in outcomes]
        if replaced == outcomes:
            continue
        outcomes = replaced
        names.append(name)
        if _are_equal(outcomes[0], outcomes[1]):
            return _differ_only_in(names)
    if is_foreign and recorded.has_failed == first.has_failed:
        for name, arrange in _ARRANGEMENTS:
            if arrange(outcomes[0].text) == arrange(outcomes[1].text):
                names.append(name)
                return _differ_only_in(names)
    if any(not _are_equal(outcomes[1], other) for other in outcomes[2:]):
        return Judgement("not comparable", RANDOM)
    if recorded.has_failed and not first.has_failed:
        return Judgement("different", "it failed before")
    if recorded.text == first.text:
        return Judgement("different", "its pictures or tables; the text is the same")
    return Judgement("different")


def _differ_only_in(names: Sequence[str]) -> Judgement:
    return Judgement("not comparable", f"{' and '.join(names)} differ; the rest is the same")


def _are_equal(outcome: CellOutcome, other: CellOutcome) -> bool:
    return outcome[:3] == other[:3]


def _replace_texts(
    outcome: CellOutcome, replace: Callable[[str, float | None], str]
) -> CellOutcome:
    displays = tuple(
        (mime, data if mime.startswith("image/") else replace(data, outcome.time))
        for mime, data in outcome.displays
    )
    return outcome._replace(text=replace(outcome.text, outcome.time), displays=displays)


def _replace_cell_names(text: str, ran_at: float | None) -> str:
    return _CELL_NAME.sub("<cell>", text)


def _replace_addresses(text: str, ran_at: float | None) -> str:
    # IPython leaves out the word "object".
    return _ADDRESS.sub("0x…", text).replace(" object at 0x…", " at 0x…")


def _replace_durations(text: str, ran_at: float | None) -> str:
    """Replace the lines of ``%time`` and ``%timeit``, ours and IPython's."""
    lines: list[str] = []
    for line in text.split("\n"):
        if _is_duration(line):
            line = "…"
            if lines and lines[-1] == line:
                continue
        lines.append(line)
    return "\n".join(lines)


def _is_duration(line: str) -> bool:
    return (
        line.startswith(("CPU times: ", "Wall time: "))
        or (line.startswith("took ") and " (CPU: " in line)
        or " per loop (" in line
    )


def _replace_progress(text: str, ran_at: float | None) -> str:
    """Replace progress bars in tqdm's form, with their speed."""
    return "\n".join(
        "…" if "%|" in line and line.rstrip().endswith("]") else line for line in text.split("\n")
    )


def _replace_dates(text: str, ran_at: float | None) -> str:
    """Replace the date of the run, with the time that follows it."""
    if ran_at is None:
        return text
    try:
        dates = {
            time.strftime("%Y-%m-%d", convert(ran_at)) for convert in (time.localtime, time.gmtime)
        }
    except (OSError, OverflowError, ValueError):  # of a damaged session
        return text
    for date in dates:
        text = re.sub(rf"{date}(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{{1,9}})?)?)?", "<now>", text)
    return text


_VOLATILE: tuple[tuple[str, Callable[[str, float | None], str]], ...] = (
    ("names of cells", _replace_cell_names),
    ("memory addresses", _replace_addresses),
    ("measured times", _replace_durations),
    ("progress bars", _replace_progress),
    ("dates of the run", _replace_dates),
)
"""What differs between two runs of the same code, with what replaces it in a text."""


def _sort_lines(text: str) -> str:
    return "\n".join(sorted(text.split("\n")))


def _join_words(text: str) -> str:
    return " ".join(text.split())


_ARRANGEMENTS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("positions of lines", _sort_lines),
    ("line breaks", _join_words),
)
"""What other programs arrange in another way: errors go after or before the output, and long values
are broken elsewhere. Each with what makes two texts the same that differ only in this."""


def differing_lines(text: str, other: str) -> tuple[str, str]:
    """Return the lines in which two texts differ: from the first that differs to the last, cut if
    they are many or long."""
    lines = text.split("\n")
    other_lines = other.split("\n")
    start = 0
    while start < min(len(lines), len(other_lines)) and lines[start] == other_lines[start]:
        start += 1
    end = 0
    while (
        end < min(len(lines), len(other_lines)) - start and lines[-1 - end] == other_lines[-1 - end]
    ):
        end += 1
    return _cut(lines[start : len(lines) - end]), _cut(other_lines[start : len(other_lines) - end])


def _cut(lines: Sequence[str]) -> str:
    cut_lines = [
        line if len(line) <= MAX_SHOWN_CHARS else f"{line[:MAX_SHOWN_CHARS]}…"
        for line in lines[:MAX_SHOWN_LINES]
    ]
    if len(lines) > MAX_SHOWN_LINES:
        cut_lines.append(f"… {len(lines) - MAX_SHOWN_LINES:,} more lines")
    return "\n".join(cut_lines)
