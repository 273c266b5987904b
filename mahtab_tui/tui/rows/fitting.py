"""Texts in a fixed number of cells."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def fitted(text: str, width: int) -> str:
    """A text in exactly so many cells, cut with … where it is longer."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(set_cell_size(text, width - 1).rstrip() + "…", width) if width > 0 else ""
