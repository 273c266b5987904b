"""Decides whether a cell still shows what it showed when it was recorded.

A fresh run never repeats everything: memory addresses, measured times and the names that IPython gives
to cells differ each time, and other programs break lines elsewhere. A check that reported all this
would be ignored. So two outcomes are first compared as they are, and then without one kind of these
texts after the other, until they are equal or a real difference is left.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from mahtab_tui.session.checking.recorded import CellOutcome

Verdict = Literal["same", "different", "failed", "not comparable"]

MAX_SHOWN_LINES = 8
"""At most this many of the lines that differ are shown."""
MAX_SHOWN_CHARS = 300
"""At most this many characters of each of these lines are shown."""

RANDOM = "two fresh runs differ, too (chance, time, network or screen width)"

_FOREIGN_DISPLAYS = "another program may have drawn its pictures or tables; the text is the same"

_CELL_NAME = re.compile(r"In \[\d{1,9}\]|/[\w/.-]{1,100}/ipykernel_\d{1,12}/\d{1,12}\.py")
"""How a traceback names a cell: ``In [3]``, or ``/tmp/ipykernel_12/345.py`` in Jupyter."""
_ADDRESS = re.compile(r"(?<=\bat )0x[0-9a-fA-F]{6,16}\b")
"""Where an object is, as in ``<object object at 0x7f…>``. Other numbers may be results."""
_TIME_AFTER_DATE = r"(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?"
"""The time of day after a date, if there is one: `` 09:08``, or ``T09:08:07.5``."""


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
    """The lines that differ, as they were recorded."""
    now: str = ""
    """The same lines in a fresh run."""

    @property
    def breaks(self) -> bool:
        """Whether the recorded result does not hold."""
        return self.verdict in ("different", "failed")


def rests_on_unfinished(name: str, origin_name: str) -> Comparison:
    """Return the comparison of a cell or a variable that uses what another cell should have made.

    That cell did not run in full, so nothing can be said of what uses its variables.

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
        fresh_runs: The outcomes in the fresh runs. A second run tells what chance, the time or the
            network change.
        is_foreign: Whether another program may have written the recorded outcome. Then pictures and
            formatted texts cannot be compared, and neither can the order of lines and where they
            break.
    """
    first_run = fresh_runs[0]
    if first_run.has_failed and not recorded.has_failed:
        return Judgement("failed")
    has_same_text = recorded.text == first_run.text and recorded.has_failed == first_run.has_failed
    if has_same_text and recorded.displays == first_run.displays:
        return Judgement("same")
    if has_same_text and is_foreign:
        return Judgement("not comparable", _FOREIGN_DISPLAYS)

    # Replace what differs in each process, one kind after the other, until nothing else differs.
    differing_kinds: list[str] = []
    outcomes = [recorded, *fresh_runs]
    for kind in _VOLATILE_KINDS:
        replaced_outcomes = [_replace_texts(outcome, kind.replace) for outcome in outcomes]
        if replaced_outcomes == outcomes:
            continue
        outcomes = replaced_outcomes
        differing_kinds.append(kind.name)
        if _are_equal(outcomes[0], outcomes[1]):
            return _differ_only_in(differing_kinds)
    stable_recorded, stable_first_run, *stable_other_runs = outcomes

    if is_foreign and recorded.has_failed == first_run.has_failed:
        for arrangement in _ARRANGEMENTS:
            recorded_form = arrangement.normalise(stable_recorded.text)
            if recorded_form == arrangement.normalise(stable_first_run.text):
                return _differ_only_in([*differing_kinds, arrangement.name])

    if not all(_are_equal(stable_first_run, other_run) for other_run in stable_other_runs):
        return Judgement("not comparable", RANDOM)
    if recorded.has_failed and not first_run.has_failed:
        return Judgement("different", "it failed before")
    if recorded.text == first_run.text:
        return Judgement("different", "its pictures or tables; the text is the same")
    return Judgement("different")


def _differ_only_in(kinds: Sequence[str]) -> Judgement:
    return Judgement("not comparable", f"{' and '.join(kinds)} differ; the rest is the same")


def _are_equal(outcome: CellOutcome, other: CellOutcome) -> bool:
    """Return whether two outcomes are equal, except for the times at which the cells ran."""
    return outcome._replace(time=None) == other._replace(time=None)


def _replace_texts(outcome: CellOutcome, replace: ReplaceVolatile) -> CellOutcome:
    """Return an outcome with what `replace` makes of its texts; pictures stay as they are."""
    displays: list[tuple[str, str]] = []
    for mime, data in outcome.displays:
        new_data = data if mime.startswith("image/") else replace(data, outcome.time)
        displays.append((mime, new_data))
    return outcome._replace(text=replace(outcome.text, outcome.time), displays=tuple(displays))


# Texts that differ between two runs of the same code


ReplaceVolatile = Callable[[str, float | None], str]
"""Gets a text, and when its cell ran, in seconds since the epoch, or None if that is not known. Returns
the text in which a placeholder stands for all of one kind that differs between two runs."""


class VolatileKind(NamedTuple):
    """Texts of one kind that differ between two runs of the same code."""

    name: str
    """In the plural, as the user is told of them."""
    replace: ReplaceVolatile


def _replace_cell_names(text: str, _ran_at: float | None) -> str:
    return _CELL_NAME.sub("<cell>", text)


def _replace_addresses(text: str, _ran_at: float | None) -> str:
    # IPython leaves out the word "object".
    return _ADDRESS.sub("0x…", text).replace(" object at 0x…", " at 0x…")


def _replace_durations(text: str, _ran_at: float | None) -> str:
    """Replace the lines of ``%time`` and ``%timeit``, ours and IPython's.

    One placeholder stands for all adjacent lines, because IPython writes two where we write one.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        if not _is_duration(line):
            lines.append(line)
        elif lines[-1:] != ["…"]:
            lines.append("…")
    return "\n".join(lines)


def _is_duration(line: str) -> bool:
    return (
        line.startswith(("CPU times: ", "Wall time: "))
        or (line.startswith("took ") and " (CPU: " in line)
        or " per loop (" in line
    )


def _replace_progress(text: str, _ran_at: float | None) -> str:
    """Replace the progress bars of tqdm, with their speed: `` 50%|██   | 1/2 [00:01<00:01]``."""
    lines: list[str] = []
    for line in text.split("\n"):
        is_bar = "%|" in line and line.rstrip().endswith("]")
        lines.append("…" if is_bar else line)
    return "\n".join(lines)


def _replace_dates(text: str, ran_at: float | None) -> str:
    """Replace the date of the run, with the time that follows it. Other dates may be results."""
    if ran_at is None:
        return text
    try:
        local_date = time.strftime("%Y-%m-%d", time.localtime(ran_at))
        utc_date = time.strftime("%Y-%m-%d", time.gmtime(ran_at))
    except (OSError, OverflowError, ValueError):
        # In a damaged session, the time may be too large for a date.
        return text
    for date in {local_date, utc_date}:
        text = re.sub(date + _TIME_AFTER_DATE, "<now>", text)
    return text


_VOLATILE_KINDS = (
    VolatileKind("names of cells", _replace_cell_names),
    VolatileKind("memory addresses", _replace_addresses),
    VolatileKind("measured times", _replace_durations),
    VolatileKind("progress bars", _replace_progress),
    VolatileKind("dates of the run", _replace_dates),
)
"""In the order in which they are replaced. The reason for a verdict names only those up to which the
outcomes still differed."""


# Texts that other programs arrange in another way


class Arrangement(NamedTuple):
    """A way in which programs arrange the same output differently."""

    name: str
    """What differs, in the plural, as the user is told of it."""
    normalise: Callable[[str], str]
    """Returns the same for two texts that differ only in this."""


def _sort_lines(text: str) -> str:
    return "\n".join(sorted(text.split("\n")))


def _join_words(text: str) -> str:
    return " ".join(text.split())


_ARRANGEMENTS = (
    # Some write errors before the output, and some after it.
    Arrangement("positions of lines", _sort_lines),
    # Each breaks long values elsewhere.
    Arrangement("line breaks", _join_words),
)


# The lines that differ


def differing_lines(text: str, other: str) -> tuple[str, str]:
    """Return the part of each text from the first line that differs to the last one.

    Many lines, and long ones, are cut.
    """
    lines = text.split("\n")
    other_lines = other.split("\n")
    common_start = _count_common(lines, other_lines)
    rest = lines[common_start:]
    other_rest = other_lines[common_start:]
    common_end = _count_common(rest[::-1], other_rest[::-1])
    return (
        _cut(rest[: len(rest) - common_end]),
        _cut(other_rest[: len(other_rest) - common_end]),
    )


def _count_common(lines: Sequence[str], other_lines: Sequence[str]) -> int:
    """Return how many lines at the start of both are the same."""
    count = 0
    for line, other_line in zip(lines, other_lines, strict=False):
        if line != other_line:
            break
        count += 1
    return count


def _cut(lines: Sequence[str]) -> str:
    """Join lines, without the ends of long ones, and without those after the maximum."""
    cut_lines: list[str] = []
    for line in lines[:MAX_SHOWN_LINES]:
        is_long = len(line) > MAX_SHOWN_CHARS
        cut_lines.append(f"{line[:MAX_SHOWN_CHARS]}…" if is_long else line)
    omitted_count = len(lines) - MAX_SHOWN_LINES
    if omitted_count > 0:
        cut_lines.append(f"… {omitted_count:,} more lines")
    return "\n".join(cut_lines)
