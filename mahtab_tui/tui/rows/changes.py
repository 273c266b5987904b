"""Describes changes to variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content

from mahtab_tui.bus.differences import changed_fields
from mahtab_tui.bus.sanitize import one_line, plain
from mahtab_tui.bus.values import CHANGE_SIGNS, Change, FileRestoration, NotRestored, Variable
from mahtab_tui.tui.rows.row import add_separators

MAX_OLD_SUMMARY_CHARS = 24
"""A longer summary of the earlier value is cut."""
MAX_LISTED_CHANGES = 200
_DIFF_STYLES = {"+": "$good", "-": "$bad"}
"""By the first character of a line of a diff."""
_SIGN_STYLES = {"+": "$good", "~": "$highlight", "?": "$muted", "−": "$bad"}


def _join_summary(type_name: str, summary: str, kind: str) -> str:
    """``int 3``, or ``Order(id=7)`` for an object with fields."""
    has_fields = kind == "data" and summary.startswith("(")
    if has_fields:
        return f"{type_name}{summary}"
    return f"{type_name} {summary}".strip()


def _describe(variable: Variable) -> tuple[str, str]:
    """Return a variable's type and summary as they are drawn."""
    return plain(variable.type), add_separators(plain(variable.summary))


def describe_change(change: Change) -> str:
    """Return `DataFrame 100 × 4 → 98 × 5`, `int 3 → str 'three'`, `Order(total=3 → 4)`."""
    variable = change.described
    type_name, summary = _describe(variable)
    columns = f"  {plain(change.columns)}" if change.columns else ""
    new_value = _join_summary(type_name, summary, variable.kind) + columns
    if change.old_description is None:
        return new_value

    old_type_name, old_summary = _describe(change.old_description)
    has_same_type = type_name == old_type_name
    if has_same_type:
        fields = changed_fields(old_summary, summary)
        if fields:
            return f"{type_name}({fields})"
    if len(old_summary) > MAX_OLD_SUMMARY_CHARS:
        old_summary = old_summary[: MAX_OLD_SUMMARY_CHARS - 1] + "…"
    old_value = _join_summary(old_type_name, old_summary, variable.kind)
    # The type is not repeated.
    if has_same_type:
        new_value = summary + columns
    return f"{old_value} → {new_value}"


def change_lines(
    changes: Sequence[Change],
    not_restored: Sequence[NotRestored],
    files: Sequence[FileRestoration] = (),
) -> list[Content]:
    """Return a line per change, per file that an undo restores, and per thing that it does not."""
    lines = [_change_line(change) for change in changes[:MAX_LISTED_CHANGES]]
    if not lines and not files:
        lines.append(Content("No variable changes."))
    lines += _count_of_others(len(changes))
    if files:
        if lines:
            lines.append(Content(""))
        lines.append(Content("An undo of the files would:"))
        for file in files[:MAX_LISTED_CHANGES]:
            lines += _file_lines(file)
        lines += _count_of_others(len(files))
    if not_restored:
        lines += [Content(""), Content.styled("Cannot be undone:", "$bad")]
        for name, reason in not_restored[:MAX_LISTED_CHANGES]:
            sentence = f"{name}: {reason}" if name else reason
            lines.append(Content(f"  {one_line(sentence)}"))
        lines += _count_of_others(len(not_restored))
    return lines


def _file_lines(file: FileRestoration) -> Iterator[Content]:
    """Yield what an undo does to a file, and the lines of a small text that it changes."""
    yield Content.assemble(f"  {file.action} ", (one_line(file.path), "$highlight"))
    for line in file.diff.splitlines():
        if not line.startswith("@@"):
            yield Content.styled(f"    {one_line(line)}", _DIFF_STYLES.get(line[:1], "$muted"))


def _change_line(change: Change) -> Content:
    sign = CHANGE_SIGNS.get(change.change, "~")
    name = (f"{sign} {one_line(change.name)}", _SIGN_STYLES[sign])
    return Content.assemble(name, f"  {one_line(describe_change(change))}")


def _count_of_others(count: int) -> list[Content]:
    if count <= MAX_LISTED_CHANGES:
        return []
    return [Content.styled(f"and {count - MAX_LISTED_CHANGES:,} more", "$muted")]
