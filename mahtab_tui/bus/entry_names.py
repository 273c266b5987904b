"""The names of the entries of a conversation, by which records and the user's actions refer to
them.

A name is empty if a number that it needs is unknown.
"""

from __future__ import annotations

_UNRUN_CELL_PREFIX = "place "


def cell_entry(cell: int) -> str:
    """Return the name of the entry of a cell that ran."""
    return f"cell {cell}"


def _join_entry(kind: str, *numbers: object) -> str:
    """Return an entry's name; empty if one of the numbers is unknown."""
    if None in numbers:
        return ""
    return f"{kind} {'.'.join(map(str, numbers))}"


def question_entry(turn: int | None) -> str:
    """Return the name of the entry of a question."""
    return _join_entry("question", turn)


def answer_entry(turn: int | None, step: int | None) -> str:
    """Return the name of the entries of an answer.

    Args:
        step: Its number within the turn, from 0.
    """
    return _join_entry("answer", turn, step)


def code_entry(turn: int | None, step: int | None, block: int) -> str:
    """Return the name of the entry of a code block of an answer, from 0, until it runs."""
    return _join_entry("code", turn, step, block)


def tool_entry(call: str | None) -> str:
    """Return the name of the entry of a tool call.

    Args:
        call: Its id, such as "2.0.1".
    """
    return _join_entry("tool", call)


def unrun_cell_entry(position: int) -> str:
    """Return the name of the entry of a notebook's cell that has not run.

    Args:
        position: Its position in the notebook, from 1.
    """
    return f"{_UNRUN_CELL_PREFIX}{position}"


def unrun_cell_position(entry: str) -> int | None:
    """Return the position of a notebook's cell that has not run, by its entry.

    None for other entries.
    """
    position = entry.removeprefix(_UNRUN_CELL_PREFIX)
    if position == entry or not position.isdecimal():
        return None
    return int(position)
