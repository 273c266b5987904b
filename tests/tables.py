"""Tables of code and what is expected of it, for parametrized tests."""

from __future__ import annotations


def rows(table: str) -> list[list[str]]:
    r"""Split a table into rows of cells; in a cell, \n stands for a new line."""
    return [row.replace(r"\n", "\n").split(" | ") for row in table.strip().splitlines()]
