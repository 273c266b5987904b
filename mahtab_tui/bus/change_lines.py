"""Describes changes to variables and files as lines, for all interfaces.

The parts of a line have roles, such as "bad", and each interface gives a role its own colour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from mahtab_tui.bus.differences import changed_fields
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.values import Change, FileRestoration, NotRestored, Variable

MAX_OLD_SUMMARY_CHARS = 24
"""A longer summary of the earlier value is cut."""
MAX_LISTED_CHANGES = 200
"""Changes, files or reasons that are listed; more are counted."""

_SHAPE_NUMBER = re.compile(r"(?<![\w.])\d{4,15}(?= × \d)|(?<=\d × )\d{4,15}\b")
"""A long number of a shape, such as both in ``10000 × 2000``."""

Role = Literal["plain", "good", "bad", "highlight", "muted"]
"""What a text means, by which each interface colours it."""
_DIFF_ROLES: dict[str, Role] = {"+": "good", "-": "bad"}
"""Roles of the lines of a diff, by their first character."""
_CHANGE_ROLES: dict[str, Role] = {"added": "good", "perhaps": "muted", "deleted": "bad"}
"""Roles by kind of change; other kinds are highlighted."""


class LinePart(NamedTuple):
    """A part of a line."""

    text: str
    role: Role = "plain"


ChangeLine = tuple[LinePart, ...]
BLANK_LINE: ChangeLine = ()


def add_separators(summary: str) -> str:
    """Separate thousands in a shape: ``10,000 × 5``."""
    return _SHAPE_NUMBER.sub(lambda size: f"{int(size[0]):,}", summary)


def describe_change(change: Change) -> str:
    """Return `DataFrame 100 × 4 → 98 × 5`, `int 3 → str 'three'`, `Order(total=3 → 4)`."""
    columns = f"  {plain(change.columns)}" if change.columns else ""
    variable = change.described
    old_variable = change.old_description
    if old_variable is None:
        return _describe_variable(variable) + columns

    if old_variable.type != variable.type:
        return f"{_describe_old(old_variable)} → {_describe_variable(variable)}{columns}"

    # The same type is not repeated.
    summary = _summary(variable)
    fields = changed_fields(_summary(old_variable), summary)
    if fields:
        return f"{plain(variable.type)}({fields})"
    return f"{_describe_old(old_variable)} → {summary}{columns}"


def _describe_variable(variable: Variable) -> str:
    return _join_summary(variable, _summary(variable))


def _describe_old(variable: Variable) -> str:
    """Describe the earlier value, whose summary is cut."""
    summary = _summary(variable)
    if len(summary) > MAX_OLD_SUMMARY_CHARS:
        summary = summary[: MAX_OLD_SUMMARY_CHARS - 1] + "…"
    return _join_summary(variable, summary)


def _summary(variable: Variable) -> str:
    """Return the summary as it is drawn."""
    return add_separators(plain(variable.summary))


def _join_summary(variable: Variable, summary: str) -> str:
    """Join a variable's type with a summary: ``int 3``, or ``Order(id=7)`` for an object with fields."""
    type_name = plain(variable.type)
    # A function is no data, but its summary also begins with a bracket: ``function (x)``.
    has_fields = variable.kind == "data" and summary.startswith("(")
    if has_fields:
        return f"{type_name}{summary}"
    return f"{type_name} {summary}".strip()


def change_lines(
    changes: Sequence[Change],
    not_restored: Sequence[NotRestored],
    files: Sequence[FileRestoration] = (),
) -> list[ChangeLine]:
    """Return a line per change, per file that an undo restores, and per thing that it does not."""
    sections = [
        list(_variable_section(changes)),
        list(_file_section(files)),
        list(_unrestored_section(not_restored)),
    ]
    if not changes and not files:
        sections[0] = [(LinePart("No variable changes."),)]

    lines: list[ChangeLine] = []
    for section in sections:
        if lines and section:
            lines.append(BLANK_LINE)
        lines.extend(section)
    return lines


def _variable_section(changes: Sequence[Change]) -> Iterator[ChangeLine]:
    for change in changes[:MAX_LISTED_CHANGES]:
        yield _change_line(change)
    yield from _omission_lines(len(changes))


def _file_section(files: Sequence[FileRestoration]) -> Iterator[ChangeLine]:
    if not files:
        return
    yield (LinePart("An undo of the files would:"),)
    for file in files[:MAX_LISTED_CHANGES]:
        yield from _file_lines(file)
    yield from _omission_lines(len(files))


def _unrestored_section(not_restored: Sequence[NotRestored]) -> Iterator[ChangeLine]:
    if not not_restored:
        return
    yield (LinePart("Cannot be undone:", "bad"),)
    for name, reason in not_restored[:MAX_LISTED_CHANGES]:
        sentence = f"{name}: {reason}" if name else reason
        yield (LinePart(f"  {one_line(sentence)}"),)
    yield from _omission_lines(len(not_restored))


def _change_line(change: Change) -> ChangeLine:
    role = _CHANGE_ROLES.get(change.change, "highlight")
    name = LinePart(f"{change.sign} {one_line(change.name)}", role)
    return name, LinePart(f"  {one_line(describe_change(change))}")


def _file_lines(file: FileRestoration) -> Iterator[ChangeLine]:
    """Yield what an undo does to a file, and the lines of a small text that it changes."""
    yield LinePart(f"  {file.action} "), LinePart(one_line(file.path), "highlight")
    for line in file.diff.splitlines():
        if not line.startswith("@@"):
            yield (LinePart(f"    {one_line(line)}", _DIFF_ROLES.get(line[:1], "muted")),)


def _omission_lines(count: int) -> Iterator[ChangeLine]:
    """Yield a line that counts what a list of `count` items leaves out, if it does."""
    if count > MAX_LISTED_CHANGES:
        yield (LinePart(f"and {count - MAX_LISTED_CHANGES:,} more", "muted"),)
